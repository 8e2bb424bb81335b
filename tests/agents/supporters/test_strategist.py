"""The strategist's bounds, for any proposal, and each rule of its rule-based form."""

import json
import math
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from atlas_gym.agents.supporters.strategist import (
    RANGES,
    FineTuningStrategist,
    TuningControls,
    bounded_advice,
    fired_rules,
)
from tests.agents.supporters.samples import TELEMETRY

_CONTROLS = st.builds(
    TuningControls,
    beta=st.floats(1e-4, 10),
    score_threshold=st.floats(0, 1),
    epochs=st.integers(1, 20),
    learning_rate=st.floats(1e-9, 1),
)

_NUMBER = st.floats() | st.integers(-(10**6), 10**6).map(float)


def assert_within(before: TuningControls, after: TuningControls) -> None:
    for name, limits in RANGES.items():
        old, new = getattr(before, name), getattr(after, name)
        assert math.isfinite(new)
        assert min(limits.low, old) <= new <= max(limits.high, old)
        if old > 0:
            assert old / limits.factor * (1 - 1e-12) <= new <= old * limits.factor * (1 + 1e-12)
    assert isinstance(after.epochs, int)


@given(_CONTROLS, st.dictionaries(st.sampled_from(sorted(RANGES)), _NUMBER))
def test_any_proposal_is_bounded(controls, values):
    advice = bounded_advice(controls, values, "r")
    assert_within(controls, advice.controls)
    differ = {name for name in RANGES if getattr(advice.controls, name) != getattr(controls, name)}
    assert set(advice.changed) == differ <= set(values)


FIRES = {
    "few pairs": ({"pairs": 10}, {"score_threshold": -1}),
    "many pairs": ({"pairs": 1000}, {"score_threshold": 1}),
    "too far": ({"kl": 0.6}, {"beta": 1, "learning_rate": -1, "epochs": -1}),
    "head-room": ({"kl": 0.04}, {"learning_rate": 1, "epochs": 1}),
    "repetition": ({"distinct_share": 0.1}, {"beta": 1, "score_threshold": -1}),
    "sinking": ({"chosen_shift": -12.0}, {"beta": 1, "learning_rate": -1}),
    "memorised": ({"losses": (0.69, 0.4, 0.2, 0.1)}, {"epochs": -1}),
    "not learning": ({"accuracies": (0.5, 0.5, 0.6, 0.5)}, {"score_threshold": 1, "learning_rate": -1}),
    "plateau": ({"best_scores": (-0.1, -0.1, -0.1, -0.1)}, {"score_threshold": 1}),
}
"""Of each rule, telemetry that fires it, and which way it moves the controls."""

CALM = replace(
    TELEMETRY, controls=TuningControls(epochs=2), kl=0.22, target_kl=0.2, max_kl=0.5, accuracies=(0.5, 0.7, 0.8, 0.8),
    chosen_shift=0.5,
)  # fmt: skip

RECORDED = json.loads((Path(__file__).parent / "telemetry.json").read_text(encoding="utf-8"))
"""What phases of real runs reported, and what a strategist should make of it."""


def test_nothing_stands_out():
    answer = FineTuningStrategist().consult(CALM)
    assert answer.advice.changed == ()
    assert answer.advice.reason == "nothing stands out"


@pytest.mark.parametrize("name", FIRES)
def test_rule_fires_alone_and_moves_what_it_says(name):
    changes, effects = FIRES[name]
    answer = FineTuningStrategist().consult(replace(CALM, **changes))
    before, after = vars(CALM.controls), vars(answer.advice.controls)
    assert {name: 1 if after[name] > before[name] else -1 for name in answer.advice.changed} == effects
    assert answer.advice.reason.split(":")[0] == name
    assert ";" not in answer.advice.reason


@pytest.mark.parametrize("name", RECORDED)
def test_phases_of_real_runs_get_the_advice_they_needed(name):
    recorded = RECORDED[name]["telemetry"].items()
    told = {key: tuple(value) if isinstance(value, list) else value for key, value in recorded}
    assert [rule.name for rule in fired_rules(replace(CALM, **told))] == RECORDED[name]["rules"]


def test_rules_add_up_within_the_bounds():
    telemetry = replace(CALM, kl=0.6, distinct_share=0.1)
    after = FineTuningStrategist().consult(telemetry).advice.controls
    assert_within(telemetry.controls, after)
    assert after.beta == pytest.approx(telemetry.controls.beta * 1.5)  # 1.25 · 1.4, bounded
    assert after.epochs == 1
