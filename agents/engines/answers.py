"""From what a chat model answers to a program: a whole program, or blocks that replace text of its parent.

    <<<<<<< SEARCH
        window = 50
    =======
        window = 20
    >>>>>>> REPLACE

An answer may also be a JSON object, `{"program": "…"}` or `{"edits": [{"search": "…", "replace": "…"}]}`, which servers
can be made to keep to. Answers are of unknown origin: whatever they hold, a text comes back, in time linear in
their length, and it is only ever evaluated like any other program. An answer that cannot be used becomes a comment
that says why, which is no valid program.
"""

import json
import re
from bisect import bisect_left
from collections.abc import Iterator
from textwrap import indent
from typing import Any

from atlas_gym.program_text import blocks_in, program_in

LONGEST_ANSWER = 262_144
"""Characters of the longest answer that is looked at."""

MOST_EDITS = 50
"""Blocks of one answer, at most."""

_REASONING = re.compile("<(/?)(?:think|thinking|reasoning)>", re.IGNORECASE | re.ASCII)

_QUOTED = re.compile(_REASONING.pattern + r"(?=[^\S\n]*\S)", _REASONING.flags)
"""A tag that does not end its line."""

_SEARCH = re.compile(r"<{5,9} ?SEARCH\s*")
_MIDDLE = re.compile(r"={5,9}\s*")
_REPLACE = re.compile(r">{5,9} ?REPLACE\s*")

_PADS = ("", " " * 4, " " * 8)
"""Models leave out the indentation of a function's body: a block that stands nowhere is tried further right."""

Edit = tuple[str, str]
"""A text that stands exactly once in the program, as whole lines, and what takes its place."""


class _Unusable(ValueError):
    """The answer makes no program; the message says why in this module's own words."""


def program_of(answer: str) -> str:
    """The program that an answer holds: the field of a JSON object, the last fenced block, or all of it."""
    if len(answer) > LONGEST_ANSWER:
        return f"# the answer has {len(answer)} characters; {LONGEST_ANSWER} are read\n"
    text = strip_reasoning(answer.replace("\r\n", "\n"))
    program = _object(text).get("program")
    if isinstance(program, str):
        text = _storable(program)
    # A field that begins with no fence is the program: those in its docstrings are its own.
    if not isinstance(program, str) or text.lstrip().startswith("```"):
        text = program_in(text)
    return text.strip("\n") + "\n"


def patched(parent: str, answer: str) -> str:
    """`parent` with the answer's edits, in their order. An answer without edits may be a whole program."""
    if len(answer) > LONGEST_ANSWER:
        return program_of(answer)
    text, program = strip_reasoning(answer.replace("\r\n", "\n")), parent.removesuffix("\n") + "\n"
    try:
        edits = _listed_edits(text) or list(_blocks(text, parent))
        if len(edits) > MOST_EDITS:
            raise _Unusable(f"the answer has {len(edits)} edits; {MOST_EDITS} are made")
        for number, edit in enumerate(edits, start=1):
            program = _replaced(program, edit, number)
    except _Unusable as reason:
        return f"# {reason}\n"
    return program if edits else program_of(answer)


def strip_reasoning(text: str) -> str:
    """``text`` behind the last closing reasoning tag (many servers leave out the opening one).

    Tags within code are part of it. At the end of a line they count even there: reasoning can leave a block open.
    """
    if text.lstrip().startswith("{"):  # a JSON object, and any tag is in its texts
        return text
    quoted = {tag.start() for start, end in blocks_in(text) for tag in _QUOTED.finditer(text, start, end)}
    tags = [tag for tag in _REASONING.finditer(text) if tag.start() not in quoted]
    closing = [tag.end() for tag in tags if tag[1]]
    if closing:
        return text[closing[-1] :]
    # Reasoning that never ended: what stands inside it is not the answer.
    return text[: tags[0].start()] if tags else text


def _object(text: str) -> dict[str, Any]:
    """The JSON object that the text or its last fenced block is; empty if there is none."""
    for part in (text, program_in(text)):
        if part.lstrip().startswith("{"):
            try:
                found = json.loads(part)
            except (ValueError, RecursionError):
                continue
            if isinstance(found, dict):
                return found
    return {}


def _listed_edits(text: str) -> list[Edit]:
    edits = _object(text).get("edits")
    found = []
    for edit in edits if isinstance(edits, list) else []:
        parts = [edit.get(part) for part in ("search", "replace")] if isinstance(edit, dict) else []
        if not parts or not all(isinstance(part, str) for part in parts):
            raise _Unusable("an edit needs the texts search and replace")
        found.append((_storable(str(parts[0])).strip("\n"), _storable(str(parts[1])).strip("\n")))
    return found


def _storable(text: str) -> str:
    """Text out of JSON, which can write lone surrogates and any line ends, as one that has a form in UTF-8."""
    return text.encode("utf-8", "replace").decode().replace("\r\n", "\n")


def _blocks(text: str, parent: str) -> Iterator[Edit]:
    """The blocks of a text, whatever stands between them.

    Either part may hold a line ======= of its own: of several the last one counts before which all stands in the
    parent, of none such the first.
    """
    block: list[str] | None = None
    lines = f"\n{parent}\n"
    for line in text.split("\n"):
        if _SEARCH.fullmatch(line):
            if block is not None:
                raise _Unusable("a SEARCH block begins within another")
            block = []
        elif block is not None and _REPLACE.fullmatch(line):
            middles = [number for number, part in enumerate(block) if _MIDDLE.fullmatch(part)]
            if not middles:
                raise _Unusable("a SEARCH block has no line =======")
            parts = block  # what stands there as far as one of them stands there as far as those before
            standing = bisect_left(
                middles, True, key=lambda number: "\n".join(["", *parts[:number], ""]) not in lines
            )
            middle = middles[max(0, standing - 1)]
            yield "\n".join(block[:middle]), "\n".join(block[middle + 1 :])
            block = None
        elif block is not None:
            block.append(line)
    if block is not None:
        raise _Unusable("the last SEARCH block does not end")


def _replaced(program: str, edit: Edit, number: int) -> str:
    """The program, whose last line ends, with one edit made.

    Where a search text stands nowhere it is looked for without spaces at line ends, then further right.
    """
    search, replacement = edit
    if not search.strip():
        raise _Unusable(f"edit {number} searches for nothing")
    for pad in _PADS:
        bare = ("\n".join(line.rstrip() for line in text.split("\n")) for text in (program, search))
        for text, wanted in ((program, search), tuple(bare)):
            # Line ends on both sides: only whole lines are found.
            lines, sought = f"\n{text}", f"\n{indent(wanted, pad)}\n"
            place = lines.find(sought)
            if place < 0:
                continue
            if lines.find(sought, place + 1) >= 0:
                raise _Unusable(f"what edit {number} searches for stands more than once")
            first, new = lines.count("\n", 0, place), indent(replacement, pad)
            kept = program.split("\n")  # spaces at the ends of other lines can belong to a text
            kept[first : first + sought.count("\n") - 1] = new.split("\n") if new else []
            return "\n".join(kept)
    raise _Unusable(f"what edit {number} searches for does not stand in the program")
