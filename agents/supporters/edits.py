"""How far a patch may lie from the program it patches.

A supporter perturbs what the agent wrote; it does not hand in a program of its own. The bound that makes this
true is checked on the finished patch, whoever made it: the line edit distance to the parent, and the amount
of new text.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass


@dataclass(frozen=True)
class EditBound:
    """The most that a patch may change."""

    lines: int = 6
    """Lines inserted, deleted or replaced (edit distance over lines)."""
    characters: int = 400
    """Total length of the lines that the parent does not have, characters."""
    share: float = 0.5
    """Lines changed as a share of the parent's non-empty lines; the smaller bound counts, at least one
    line."""

    def __post_init__(self) -> None:
        if self.lines < 1 or self.characters < 1 or not 0 < self.share <= 1:
            raise ValueError("lines and characters must be positive, and share must lie in (0, 1]")

    def allowed_lines(self, parent: str) -> int:
        """Lines of ``parent`` that a patch may change."""
        written = sum(bool(line.strip()) for line in parent.splitlines())
        return max(1, min(self.lines, int(self.share * written)))

    def allows(self, parent: str, child: str) -> bool:
        """Whether ``child`` is a patch of ``parent`` within this bound."""
        limit = self.allowed_lines(parent)
        return (
            new_characters(parent, child) <= self.characters and line_distance(parent, child, limit) <= limit
        )


def new_characters(parent: str, child: str) -> int:
    """Total length of the lines of ``child`` that ``parent`` does not have (counted as often as they are
    new)."""
    extra = Counter(child.splitlines()) - Counter(parent.splitlines())
    return sum(len(line) * count for line, count in extra.items())


def line_distance(parent: str, child: str, limit: int) -> int:
    """Least number of lines to insert, delete or replace to get from one text to the other.

    Anything above ``limit`` is reported as ``limit + 1``; the cost is O(lines × limit), so long hostile texts
    are cheap.
    """
    old, new = parent.splitlines(), child.splitlines()
    if abs(len(old) - len(new)) > limit:
        return limit + 1
    far = limit + 1
    # Row i of the edit-distance table, kept within `limit` of the diagonal: index k means j = i + k - limit.
    width = 2 * limit + 1
    row = [max(0, k - limit) if k >= limit else far for k in range(width)]
    for i, line in enumerate(old, start=1):
        row = _next_row(row, i, line, new, limit)
        if min(row) > limit:
            return far
    return min(far, row[len(new) - len(old) + limit])


def _next_row(row: list[int], i: int, line: str, new: list[str], limit: int) -> list[int]:
    far = limit + 1
    following = [far] * len(row)
    for k in range(len(row)):
        j = i + k - limit
        if not 0 <= j <= len(new):
            continue
        deleted = row[k + 1] + 1 if k + 1 < len(row) else far
        inserted = following[k - 1] + 1 if k > 0 and j > 0 else far
        replaced = row[k] + (line != new[j - 1]) if j > 0 else far
        following[k] = min(far, deleted, inserted, replaced)
    return following
