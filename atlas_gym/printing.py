"""Which characters a reader sees: what other people's text may keep on its way into prompts, logs and terminals."""

import re

# Default_Ignorable_Code_Point of Unicode 16, which renderers draw as nothing and Python calls printable in part:
# fillers, joiners, variation selectors, tags. The braille blank is drawn as nothing, too.
_INVISIBLE = re.compile(
    "[\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u202a-\u202e\u2060-\u206f"
    "\u2800\u3164\ufe00-\ufe0f\ufeff\uffa0\ufff0-\ufff8\U0001bca0-\U0001bca3\U0001d173-\U0001d17a"
    "\U000e0000-\U000e0fff]"
)


def is_visible(character: str) -> bool:
    """Whether a character shows, as itself or as a space; control characters and lone surrogates do not."""
    return character.isprintable() and not _INVISIBLE.match(character)
