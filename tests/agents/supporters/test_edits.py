"""The bound that keeps a patch near its parent."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from atlas_gym.agents.supporters.exploration import line_distance, within
from atlas_gym.agents.supporters.settings import EditBound

_TEXT = st.lists(st.sampled_from(["a", "b", "c", "  d", ""]), max_size=9).map("\n".join)


def brute_force(old: list[str], new: list[str]) -> int:
    """Levenshtein distance over lines, the textbook recursion as a table."""
    table = [[max(i, j) if 0 in (i, j) else 0 for j in range(len(new) + 1)] for i in range(len(old) + 1)]
    for i in range(1, len(old) + 1):
        for j in range(1, len(new) + 1):
            same = table[i - 1][j - 1] + (old[i - 1] != new[j - 1])
            table[i][j] = min(same, table[i - 1][j] + 1, table[i][j - 1] + 1)
    return table[-1][-1]


@given(_TEXT, _TEXT, st.integers(1, 8))
def test_distance_equals_brute_force(old, new, limit):
    exact = brute_force(old.splitlines(), new.splitlines())
    assert line_distance(old, new, limit) == min(exact, limit + 1)


def test_long_texts_are_cheap():
    """With the full table this would be 10^10 steps."""
    many = "x\n" * 100_000
    assert line_distance(many, many + "y\n", 3) == 1
    assert line_distance(many, many + "y\n" * 5, 3) == 4


def test_bound():
    parent = "\n".join(f"line {i}" for i in range(10))
    bound = EditBound(lines=3, characters=40)
    assert within(bound, parent, parent)
    assert within(bound, parent, parent.replace("line 1", "other 1").replace("line 5", "other 5"))
    assert not within(bound, parent, parent.replace("line", "l"))
    assert not within(bound, parent, parent.replace("line 1", "x" * 41))
    assert not within(bound, parent, "def policy(c, h, t):\n    return 0")


def test_short_programs_may_change_half_their_lines():
    assert EditBound(lines=6, share=0.5).allowed_lines("a\n\nb\nc\nd\n") == 2
    assert EditBound().allowed_lines("a") == 1


def test_bound_refuses_nonsense():
    for wrong in ({"lines": 0}, {"characters": 0}, {"share": 0.0}, {"share": 1.5}):
        with pytest.raises(ValueError):
            EditBound(**wrong)
