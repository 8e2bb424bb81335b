"""Where completions end."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from atlas_gym.agents.engines.engine import LINES, Sampling, cut


@given(st.text("ab\n"), st.sampled_from(sorted(LINES)))
def test_lines_are_counted_by_their_breaks(text, stop):
    kept, ended = cut(text, stop)
    lines = text.splitlines(keepends=True)[: LINES[stop]]
    assert kept == "".join(lines)
    assert ended == (kept.count("\n") == LINES[stop])


@pytest.mark.parametrize(
    ("stop", "limit", "banned"),
    [("line", 5, "#"), ("new line", 5, "#"), ("2 lines", 9, "#"), ("4 lines", 9, "#"), ("function", 9, "")],
)
def test_limits_and_bans_follow_the_end(stop, limit, banned):
    sampling = Sampling(max_new_tokens=5, max_function_tokens=9)
    assert (sampling.limit(stop), sampling.banned(stop)) == (limit, banned)
