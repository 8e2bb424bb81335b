"""How far a patch may lie from the program it patches.

A supporter perturbs what the agent wrote; it does not hand in a program of its own. The bound that makes this
true is checked on the finished patch, whoever made it: the line edit distance to the parent, and the amount
of new text.
"""

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
        small = new_characters(parent, child) <= self.characters
        return small and line_distance(parent, child, limit) <= limit


def new_characters(parent: str, child: str) -> int:
    """Total length of the lines of ``child`` that ``parent`` does not have (counted as often as they are
    new)."""
    extra = Counter(child.splitlines()) - Counter(parent.splitlines())
    return sum(len(line) * count for line, count in extra.items())


def line_distance(parent: str, child: str, limit: int) -> int:
    """Least number of lines to insert, delete or replace to get from one text to the other.

    Anything above ``limit`` is reported as ``limit + 1``; the cost is O(lines × limit), so long hostile texts
    are cheap (E. Ukkonen, Algorithms for approximate string matching, 1985).
    """
    old, new = parent.splitlines(), child.splitlines()
    # By how many lines of `new` are dealt with beyond those of `old`: the most lines of `old` that can be.
    reached = {0: 0}
    for distance in range(limit + 1):
        following: dict[int, int] = {}
        for surplus, line in reached.items():
            while line < len(old) and line + surplus < len(new) and old[line] == new[line + surplus]:
                line += 1
            if line == len(old) and line + surplus == len(new):
                return distance
            # The next line is replaced, deleted, or inserted.
            for other, after in ((surplus, line + 1), (surplus - 1, line + 1), (surplus + 1, line)):
                if after <= len(old) and after + other <= len(new):
                    following[other] = max(after, following.get(other, 0))
        reached = following
    return limit + 1
