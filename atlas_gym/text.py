"""Making other people's text safe to store, to show and to put into a prompt: only what a reader sees is kept."""

import re

# Default_Ignorable_Code_Point of Unicode 16, which renderers draw as nothing and Python calls printable in part:
# fillers, joiners, variation selectors, tags. The braille blank is drawn as nothing, too.
_INVISIBLE = re.compile(
    "[\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u202a-\u202e\u2060-\u206f"
    "\u2800\u3164\ufe00-\ufe0f\ufeff\uffa0\ufff0-\ufff8\U0001bca0-\U0001bca3\U0001d173-\U0001d17a"
    "\U000e0000-\U000e0fff]"
)
_FENCE = re.compile("`{3,}|~{3,}")


def is_visible(character: str) -> bool:
    """Whether a character shows, as itself or as a space; control characters and lone surrogates do not."""
    return character.isprintable() and not _INVISIBLE.match(character)


def sanitise(text: str, limit: int) -> str:
    """``text`` for prompts, logs and terminals: no control sequences, no code fences, ``limit`` characters at most."""
    return _FENCE.sub(lambda fence: "'" * len(fence[0]), _visible(text[:limit], "\n", "?")).strip()


def clean(text: str, limit: int) -> str:
    """``text`` without control characters but newlines and tabs, lone surrogates and invisible marks, cut to ``limit``
    characters."""
    kept = _visible(text[:limit], "\n\t", "\ufffd")
    return kept if len(text) <= limit else kept[: max(0, limit - 1)] + "…"


def one_line(text: str, limit: int) -> str:
    """Like :func:`clean`, with every run of white space made one space."""
    return clean(" ".join(text[: 4 * limit].split()), limit)


def is_plain(text: str) -> bool:
    """Whether ``text`` holds nothing that :func:`clean` would replace."""
    return all(is_visible(c) or c in "\n\t" for c in text)


def _visible(text: str, kept: str, mark: str) -> str:
    """``text`` with a mark for every character that neither shows nor is among the kept ones."""
    return "".join(c if is_visible(c) or c in kept else mark for c in text)
