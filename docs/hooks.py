"""What MkDocs calls while the documentation's site is built (`make docs`): doctests and blocks are made readable."""

import re
import subprocess
from collections.abc import Sequence

from markdown import Extension, Markdown
from markdown.preprocessors import Preprocessor
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import Files
from mkdocs.structure.pages import Page

from atlas_gym._version import __version__

_DOCTEST = re.compile(r"^>>> .*(\n.*\S.*)*", re.MULTILINE)
"""From `>>>` at the margin to the next empty line."""
_MARKED_FENCE = re.compile(r"^(```\w+) (?:file=(\S+)|[\w-]+)$", re.MULTILINE)
_BEFORE_FENCES = 30
"""Priority of a preprocessor; Markdown's own for fenced blocks has 25."""


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """The header has the version and the repository. Docstrings show doctests as code; Markdown alone takes `>>>` for a
    quotation."""
    config.site_name = f"ATLAS Gym {__version__}"
    config.repo_url = config.repo_url or remote()
    config.repo_name = "Repository"
    config.markdown_extensions.append(DoctestExtension())
    return config


def remote() -> str:
    """Address of the repository that this clone is of; empty if a browser cannot open it."""
    asked = ["git", "config", "--get", "remote.origin.url"]
    found = subprocess.run(asked, capture_output=True, text=True, check=False).stdout.strip()
    return found if found.startswith("https://") and "@" not in found else ""


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """What stands behind a fence's language is for the tests; of it the site shows the name of a file, as a title."""
    return _MARKED_FENCE.sub(lambda fence: fence[1] + (f' title="{fence[2]}"' if fence[2] else ""), markdown)


class DoctestExtension(Extension):
    """Doctests become fenced blocks."""

    def extendMarkdown(self, md: Markdown) -> None:
        """Put the preprocessor in its place."""
        md.preprocessors.register(_Doctests(md), "doctests", _BEFORE_FENCES)


class _Doctests(Preprocessor):
    def run(self, lines: Sequence[str]) -> list[str]:
        return _DOCTEST.sub(r"```pycon\n\g<0>\n```", "\n".join(lines)).split("\n")
