"""Links inside the repository lead somewhere."""

import re
import runpy
from importlib.util import find_spec

import pytest

from tests.docs.pages import PAGES, ROOT, WRITTEN, anchors, links

ALL = [*PAGES, *(page for page in sorted((ROOT / "docs").rglob("*.md")) if page not in PAGES)]


@pytest.mark.parametrize("page", ALL, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_link_leads_somewhere(page):
    for target in links(page):
        path, _, anchor = target.partition("#")
        file = (page.parent / path).resolve() if path else page
        assert file.exists(), f"{target} leads nowhere"
        if anchor:
            assert anchor in anchors(file), f"{target}: {file.name} has no such heading"


def test_every_written_page_is_in_the_sites_menu():
    navigation = (ROOT / "mkdocs.yml").read_text(encoding="utf-8")
    for page in WRITTEN:
        name = page.relative_to(ROOT / "docs").as_posix()
        assert f" {name}\n" in navigation, f"add {name} to the menu, nav in mkdocs.yml"


def test_the_reference_names_modules_that_exist():
    for page in (ROOT / "docs" / "reference").glob("*.md"):
        for name in re.findall(r"^::: (\S+)", page.read_text(encoding="utf-8"), re.M):
            assert find_spec(name) is not None, f"{page.name}: there is no module {name}"


def test_a_front_page_is_short():
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    assert len(text.splitlines()) <= 80
    assert len(text.split()) <= 900


def test_results_are_one_page_of_what_is_in_the_data():
    pytest.importorskip("matplotlib", reason="needs the extra `learn`")
    made = runpy.run_path(str(ROOT / "docs" / "results.py"))
    page, front = ((ROOT / name).read_text(encoding="utf-8") for name in ("docs/results.md", "README.md"))
    assert made["page"]() == page, "run docs/results.py"
    assert made["with_table"](front, made["methods_table"]()) == front, "run docs/results.py"
    assert len(page.split()) <= 1200


@pytest.mark.parametrize("page", ALL, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_page_says_what_its_plus_minus_is(page):
    text = page.read_text(encoding="utf-8")
    assert "±" not in text or "standard error" in text or "95 %" in text
