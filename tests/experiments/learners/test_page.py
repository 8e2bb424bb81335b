"""The page "Bring your own learner": its Python blocks run as one program."""

import re
from pathlib import Path

import pytest

PAGE = Path(__file__).parents[3] / "docs" / "bring-your-own-learner.md"
BLOCKS = re.findall(r"^```python([^\n]*)\n(.*?)^```$", PAGE.read_text(encoding="utf-8"), re.M | re.S)


def test_its_blocks_run_in_order(tmp_path, monkeypatch):
    for package in ("stable_baselines3", "cma", "minari"):
        pytest.importorskip(package)
    monkeypatch.setenv("MINARI_DATASETS_PATH", str(tmp_path))
    namespace = {"__name__": "page"}
    for mark, code in BLOCKS:
        if "no-run" not in mark:
            exec(compile(code, str(PAGE), "exec"), namespace)
    assert len(namespace["scores"]) == len(namespace["programs"])
    assert namespace["info"]["status"] == "ok"


@pytest.mark.parametrize(("mark", "code"), BLOCKS)
def test_every_block_is_python(mark, code):
    compile(code, str(PAGE), "exec")
