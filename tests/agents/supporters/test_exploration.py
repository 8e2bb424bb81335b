"""What a language model's exploration reply may and may not do to a program."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from atlas_gym.agents.supporters.exploration import is_near, line_distance
from atlas_gym.agents.supporters.messages import ReplyError
from atlas_gym.agents.supporters.program_rules import SUGGESTION_FACTOR, bounded_value
from atlas_gym.program_text import syntax_error
from tests.agents.records import record
from tests.agents.supporters.samples import BANDIT, EXPLORATION, MODELS, patch, reply


def programs(**fields) -> list[str]:
    return [p.program for p in MODELS.exploration.interpret(EXPLORATION, reply(**fields)).patches]


def test_edits_become_patches():
    edited = programs(patches=[patch(("window = 50", "window = 20"), ("lam = 1.0", "lam = 0.1"))])
    assert edited == [BANDIT.replace("window = 50", "window = 20").replace("lam = 1.0", "lam = 0.1")]


@pytest.mark.parametrize(
    "wrong",
    [
        patch(("theta", "x")),  # stands more than once
        patch(("    ", "x")),
        patch(("window = 50", "window = 50  # fifty")),  # nothing but a comment
        patch(("window = 50", "window = (")),
        patch(("def policy(", "def other(")),
        patch(("window = 50", "window = 5\u202e0")),
        patch(("window = 50", "window = 5\ud8000")),
        patch(("window = 50", "window = 50; " + "k = 1; " * 100)),
        patch(("window = 50", "window = 20"), ("not in there", "x")),
        patch(),
    ],
)
def test_unusable_edits_are_left_out(wrong):
    good = patch(("alpha = 1.0", "alpha = 0.3"))
    assert programs(patches=[wrong, good]) == [BANDIT.replace("alpha = 1.0", "alpha = 0.3")]


def test_suggestions_are_bounded_and_become_patches():
    wanted = [
        {"name": name, "value": value}
        for name, value in (("window", 20), ("lam", 1e9), ("lamda", 1), ("alpha", -1), ("alpha", 1.0))
    ]
    advice = MODELS.exploration.interpret(EXPLORATION, reply(suggestions=wanted))
    assert [p.kind for p in advice.patches] == ["suggestion"] * 3
    changed = [set(p.program.split("\n")) - set(BANDIT.split("\n")) for p in advice.patches]
    assert changed == [{"    window = 20", "    lam = 10.0"}, {"    window = 20"}, {"    lam = 10.0"}]


def test_program_that_does_not_parse_can_still_be_edited():
    broken = BANDIT.replace("window = 50", "window = (50")
    request = replace(EXPLORATION, parent=record(broken, None))
    advice = MODELS.exploration.interpret(request, reply(patches=[patch(("(50", "50"))]))
    assert [p.program for p in advice.patches] == [BANDIT]


def test_critique_is_required_and_cut():
    assert len(MODELS.exploration.interpret(EXPLORATION, reply(critique="long " * 1000)).critique) <= 800
    with pytest.raises(ReplyError, match="critique"):
        MODELS.exploration.interpret(EXPLORATION, '{"patches": []}')


@given(st.lists(st.tuples(st.sampled_from(BANDIT.splitlines()), st.text(max_size=80)), max_size=5))
def test_whatever_the_edits_patches_are_bounded_and_parse(edits):
    for program in programs(patches=[patch(*edits)]):
        assert syntax_error(program, "policy") is None
        assert is_near(BANDIT, program)


@given(st.integers(1, 10**6) | st.floats(1e-9, 1e9), st.floats(), st.sampled_from([1, -1]))
def test_bounded_value(size, proposed, sign):
    current = sign * size
    value = bounded_value(current, proposed)
    if value is not None:
        assert value != current
        assert type(value) is type(current)
        assert 1 / SUGGESTION_FACTOR * (1 - 1e-12) <= value / current <= SUGGESTION_FACTOR * (1 + 1e-12)


_TEXT = st.lists(st.sampled_from(["a", "b", "c", "  d", ""]), max_size=9).map("\n".join)


@given(_TEXT, _TEXT, st.integers(1, 8))
def test_distance_equals_brute_force(old, new, limit):
    """Levenshtein distance over lines, the textbook recursion as a table."""
    before, after = old.splitlines(), new.splitlines()
    table = [[max(i, j) if 0 in (i, j) else 0 for j in range(len(after) + 1)] for i in range(len(before) + 1)]
    for i in range(1, len(before) + 1):
        for j in range(1, len(after) + 1):
            same = table[i - 1][j - 1] + (before[i - 1] != after[j - 1])
            table[i][j] = min(same, table[i - 1][j] + 1, table[i][j - 1] + 1)
    assert line_distance(old, new, limit) == min(table[-1][-1], limit + 1)
