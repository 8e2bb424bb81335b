"""The documentation's site can be built without a warning, and every page of it is there."""

import os
import subprocess
import sys

import pytest

from tests.docs.pages import ROOT


@pytest.mark.slow
def test_the_strict_build_is_green(tmp_path):
    pytest.importorskip("mkdocs", reason="needs the extra `docs`")
    pytest.importorskip("mkdocstrings", reason="needs the extra `docs`")
    build = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(tmp_path)]
    done = subprocess.run(
        build,
        cwd=ROOT,
        env=os.environ | {"NO_MKDOCS_2_WARNING": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    settings = (tmp_path / "settings" / "index.html").read_text(encoding="utf-8")
    assert "learning_rate" in settings
    for reference in (tmp_path / "reference").glob("*/index.html"):
        assert "<blockquote>" not in reference.read_text(encoding="utf-8"), (
            f"{reference}: a doctest as a quotation"
        )
    for page in tmp_path.rglob("*.html"):
        if page.parent.parent.name != "notebooks":  # a notebook prints a prompt, which has fences
            assert "<p>```" not in page.read_text(encoding="utf-8"), (
                f"{page}: a fence that is not shown as code"
            )
