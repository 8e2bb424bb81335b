"""Finding the program in what a chat model says."""

from collections.abc import Mapping, Sequence

_FENCE = "```"


def program_in(answer: str | Sequence[Mapping[str, str]]) -> str:
    """The last fenced code block of an answer, or all of it if it has none.

    Args:
        answer: a text, or the messages of a chat, of which the last is taken.
    """
    text = answer if isinstance(answer, str) else (answer[-1].get("content") or "" if answer else "")
    block = _last_block(text)
    return text if block is None else block


def _last_block(text: str) -> str | None:
    """What stands between the last two fences that open and close; each character is looked at once."""
    block, end = None, 0
    while (opening := text.find(_FENCE, end)) >= 0:
        first = text.find("\n", opening + len(_FENCE)) + 1
        closing = text.find(_FENCE, first)
        if not first or closing < 0:
            break
        block, end = text[first:closing], closing + len(_FENCE)
    return block
