"""Making other people's text safe to store, to show and to put into a prompt."""

from __future__ import annotations

from atlas_gym.printing import is_visible


def clean(text: str, limit: int) -> str:
    """``text`` without control characters, lone surrogates and invisible marks, cut to ``limit`` characters.

    What is removed could move a terminal's cursor, break UTF-8 encoding or hide words from a reader. Newlines
    and tabs stay.
    """
    kept = "".join(c if is_visible(c) or c in "\n\t" else "\ufffd" for c in text[:limit])
    return kept if len(text) <= limit else kept[: max(0, limit - 1)] + "…"


def one_line(text: str, limit: int) -> str:
    """Like :func:`clean`, with every run of white space made one space."""
    return clean(" ".join(text[: 4 * limit].split()), limit)


def is_plain(text: str) -> bool:
    """Whether ``text`` holds nothing that :func:`clean` would replace."""
    return all(is_visible(c) or c in "\n\t" for c in text)
