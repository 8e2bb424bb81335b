"""What an environment's documentation tells those who write programs for it."""

import re

_SECTION = re.compile(r"(?m)^## ")
_TOLD = ("Description", "Action Space", "Rewards")
_ASIDE = re.compile(r"(?ms)^(?:>>> |`info` has ).*?(?:\n\n|\Z)")
"""Examples of the environment's use, and what its steps return beside the score."""


def told(docstring: str) -> str:
    """Of a docstring in Gymnasium's sections, what a program does, gets and is worth; of another, all."""
    parts = [part for part in _SECTION.split(docstring) if part.startswith(_TOLD)]
    return _ASIDE.sub("", "".join(parts)).strip() if parts else docstring
