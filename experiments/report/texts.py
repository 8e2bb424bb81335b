"""Thousands of programs that differ in a line each, small enough for one page.

Each different line is stored once; a text is the list of its lines' numbers. Five thousand line edits of a
program of twenty lines take a few hundred kilobytes instead of ten megabytes, and remain readable JSON.
"""

LINE_CHARS, TEXT_LINES = 2000, 1500


class TextTable:
    """Collects texts; equal texts and equal lines are stored once."""

    def __init__(self) -> None:
        self._lines: dict[str, int] = {}
        self._texts: dict[tuple[int, ...], int] = {}

    def add(self, text: str) -> int:
        """The number of a text. What is too long to look at is cut, and says so."""
        parts = text.split("\n", TEXT_LINES)
        lines = [_cut(line) for line in parts[:TEXT_LINES]]
        if len(parts) > TEXT_LINES:
            lines.append(f"… ({len(parts[-1])} more characters on further lines; the run store has them)")
        numbers = tuple(self._lines.setdefault(line, len(self._lines)) for line in lines)
        return self._texts.setdefault(numbers, len(self._texts))

    def as_dict(self) -> dict[str, list]:
        """The table for the page: `lines`, and per text the numbers of its lines."""
        return {"lines": list(self._lines), "texts": [list(numbers) for numbers in self._texts]}


def _cut(line: str) -> str:
    if len(line) <= LINE_CHARS:
        return line
    return f"{line[:LINE_CHARS]}… ({len(line) - LINE_CHARS} more characters; the run store has them)"
