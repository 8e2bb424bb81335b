"""Finding the program in what a chat model says."""

import re
from collections.abc import Mapping, Sequence

_FENCED = re.compile(r"```[^\n]*\n(.*?)```", re.DOTALL)


def program_in(answer: str | Sequence[Mapping[str, str]]) -> str:
    """The last fenced code block of an answer, or all of it if it has none.

    Args:
        answer: a text, or the messages of a chat, of which the last is taken.
    """
    text = answer if isinstance(answer, str) else (answer[-1].get("content") or "" if answer else "")
    blocks = _FENCED.findall(text)
    return blocks[-1] if blocks else text
