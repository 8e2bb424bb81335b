import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from atlas_gym.trainers.dpo.gate import gate_decision, gate_warnings, propose
from atlas_gym.trainers.dpo.settings import GateSettings
from tests.agents.constants import with_constants

SETTINGS = with_constants(GateSettings, min_gain=0.01, max_kl=0.2, kl_penalty=0.1)


def test_equation_4_trades_score_against_divergence():
    scores, kls = [-0.16, -0.12, -0.11], [0.01, 0.05, 0.19]
    assert propose(scores, kls, with_constants(GateSettings, kl_penalty=0.0)) == 2
    assert propose(scores, kls, SETTINGS) == 1
    assert propose(scores, kls, with_constants(GateSettings, kl_penalty=10.0)) == 0


def test_only_what_has_numbers_and_is_within_the_budget_is_proposed_else_the_nearest():
    assert propose([math.nan, -3.0], [0.0, 0.1], SETTINGS) == 1
    assert propose([5.0, -3.0], [math.nan, 0.1], SETTINGS) == 1
    assert propose([5.0, -3.0], [0.3, 0.1], SETTINGS) == 1
    assert propose([5.0, -3.0], [0.4, 0.3], SETTINGS) == 1
    assert propose([math.nan] * 3, [0.1, 0.05, math.nan], SETTINGS) == 1


@pytest.mark.parametrize(
    ("gain", "kl", "promote"),
    [
        (0.01, 0.2, True),
        (0.0099, 0.2, False),
        (0.01, 0.201, False),
        (math.nan, 0.1, False),
        (0.5, math.nan, False),
    ],
)
def test_equation_5_includes_its_bounds_and_refuses_nan(gain, kl, promote):
    decision = gate_decision(gain, kl, SETTINGS)
    assert decision.promote is promote
    assert decision.reason.startswith("promoted" if promote else "kept")


def test_a_frozen_gate_says_so_at_once():
    decision = gate_decision(0.5, 0.9, SETTINGS, all_kls=[0.3, 0.9])
    assert decision.frozen
    assert any("FROZEN" in text and "0.3" in text for text in gate_warnings([decision]))
    escapable = gate_decision(0.5, 0.9, SETTINGS, all_kls=[0.1, 0.9])
    assert gate_warnings([escapable]) == []


def test_refusals_in_a_row_are_counted_from_the_last_promotion():
    good, bad = gate_decision(0.1, 0.1, SETTINGS), gate_decision(-0.1, 0.1, SETTINGS)
    assert gate_warnings([]) == []
    assert gate_warnings([bad, bad]) == []
    assert gate_warnings([bad, bad, bad, good]) == []
    (text,) = gate_warnings([good, bad, bad, bad, bad])
    assert "REFUSED 4 phases" in text


@pytest.mark.parametrize(
    ("gain", "error", "promote"),
    [
        (0.0201, 0.01, True),  # more than two standard errors
        (0.02, 0.01, False),
        (0.02, 0.011, False),
        (0.0, 0.0, False),  # nothing was found by either policy
        (0.02, 0.0, True),
        (0.02, math.nan, False),  # a single prompt has no standard error
        (math.nan, 0.01, False),
    ],
)
def test_a_promotion_asks_for_its_standard_errors(gain, error, promote):
    decision = gate_decision(gain, 0.1, GateSettings(standard_errors=2.0), gain_error=error)
    assert decision.promote is promote
    assert decision.reason.startswith("promoted" if promote else "kept: gain")


@given(st.floats(1e-6, 1.0), st.integers(2, 40))
def test_one_prompt_alone_promotes_nothing(size, prompts):
    """Its gain is one standard error of itself, whatever its size."""
    gains = np.zeros(prompts)
    gains[-1] = size
    error = gains.std(ddof=1) / math.sqrt(prompts)
    assert not gate_decision(gains.mean(), 0.1, GateSettings(), gain_error=error).promote
