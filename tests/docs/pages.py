"""The written pages, read as Markdown."""

import re
import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from markdown_it import MarkdownIt

ROOT = Path(__file__).parents[2]
WRITTEN = [*sorted((ROOT / "docs").glob("*.md")), *sorted((ROOT / "docs" / "learners").glob("*.md"))]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *WRITTEN]
"""What people write; the pages of studies are written by programs."""


@dataclass(frozen=True)
class Block:
    """A fenced block of a page."""

    page: Path
    line: int
    language: str
    mark: str
    """What stands behind the language, for example `no-run`."""
    text: str

    def __str__(self) -> str:
        return f"{self.page.relative_to(ROOT)}:{self.line}"


def blocks(page: Path) -> Iterator[Block]:
    for token in MarkdownIt("commonmark").parse(page.read_text(encoding="utf-8")):
        if token.type == "fence" and token.map is not None:
            language, _, mark = token.info.strip().partition(" ")
            yield Block(page, token.map[0] + 1, language, mark, token.content)


def inline_commands(page: Path) -> Iterator[str]:
    """Our commands that stand in the text, `atlas …` or `python -m …`."""
    for token in MarkdownIt("commonmark").enable("table").parse(page.read_text(encoding="utf-8")):
        for child in token.children or ():
            if child.type == "code_inline" and re.match(r"(atlas|python -m) ", child.content):
                yield child.content


def links(page: Path) -> Iterator[str]:
    """Targets of links and pictures inside the repository."""
    for token in MarkdownIt("commonmark").enable("table").parse(page.read_text(encoding="utf-8")):
        for child in token.children or ():
            target = child.attrGet("href") or child.attrGet("src")
            if target is not None and not re.match(r"\w+:", str(target)):
                yield str(target)


def anchors(page: Path) -> set[str]:
    """The anchors that the site gives to a page's headings."""
    tokens = MarkdownIt("commonmark").parse(page.read_text(encoding="utf-8"))
    titles = [tokens[i + 1].content for i, token in enumerate(tokens) if token.type == "heading_open"]
    return {_slug(title) for title in titles}


def _slug(title: str) -> str:
    plain = unicodedata.normalize("NFKD", title).encode("ascii", "ignore").decode()
    return re.sub(r"[-\s]+", "-", re.sub(r"[^\w\s-]", "", plain).strip().lower())
