"""Where completions end."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from atlas_gym.agents.engines.engine import Sampling, cut


@given(st.text("ab\n"))
def test_a_line_ends_with_its_break(text):
    kept, ended = cut(text, "line")
    assert kept == "".join(text.splitlines(keepends=True)[:1])
    assert ended == ("\n" in text)


@pytest.mark.parametrize(("stop", "limit", "banned"), [("line", 5, "#"), ("function", 9, "")])
def test_limits_and_bans_follow_the_end(stop, limit, banned):
    sampling = Sampling(max_new_tokens=5, max_function_tokens=9)
    assert (sampling.limit(stop), sampling.banned(stop)) == (limit, banned)
