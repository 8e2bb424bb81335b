"""The search: W&B's notation, its choices, its early termination; a function of nothing but the runs."""

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from experiments.studies.hyperband import Hyperband
from experiments.studies.parameters import Choice, Number, SweepError, parse_parameter
from experiments.studies.search import Trial, next_parameters
from experiments.studies.sweep_file import load_sweep

HEAD = "metric: {name: explore/best, goal: maximize}\n"


def sweep_of(tmp_path, text):
    path = tmp_path / "sweep.yaml"
    path.write_text(HEAD + text)
    return load_sweep(path)


@pytest.mark.parametrize(
    ("entry", "parameter"),
    [
        ({"value": 3}, Choice((3,), (1.0,))),
        ({"values": ["a", None]}, Choice(("a", None), (0.5, 0.5))),
        ({"values": [1, 2], "probabilities": [3, 1]}, Choice((1, 2), (0.75, 0.25))),
        ({"min": 1, "max": 4}, Number(1, 4, integer=True)),
        ({"min": 1.0, "max": 4}, Number(1.0, 4)),
        ({"distribution": "log_uniform_values", "min": 1e-3, "max": 1}, Number(1e-3, 1, log=True)),
        ({"distribution": "q_uniform", "min": 0, "max": 1, "q": 0.25}, Number(0, 1, step=0.25)),
    ],
)
def test_parameters_are_read_as_wandb_writes_them(entry, parameter):
    assert parse_parameter("x", entry) == parameter


@pytest.mark.parametrize(
    ("entry", "complaint"),
    [
        (3, "must be a mapping"), ({"parameters": {}}, "write its members as"), ({"min": 1}, "`min` and `max`"),
        ({"min": 2, "max": 1}, "span nothing"), ({"values": []}, "at least one value"),
        ({"distribution": "normal", "min": 0, "max": 1}, "not supported"),
        ({"distribution": "log_uniform_values", "min": 0, "max": 1}, "positive"),
    ],
)  # fmt: skip
def test_what_cannot_be_read_is_refused_with_the_parameters_name(entry, complaint):
    with pytest.raises(SweepError, match=complaint) as caught:
        parse_parameter("beta", entry)
    assert "parameters.beta" in str(caught.value)


numbers = st.builds(
    Number, st.floats(0.01, 1), st.floats(1, 100), st.booleans(), st.none() | st.sampled_from([0.5, 0.25])
)


@given(numbers, st.integers(0, 1000))
def test_samples_lie_between_the_bounds(number, seed):
    assert number.low <= number.sample(np.random.default_rng(seed)) <= number.high


def test_equal_ratios_are_equally_likely_on_a_log_scale():
    rng, number = np.random.default_rng(0), Number(1e-4, 1, log=True)
    below = np.mean([number.sample(rng) < 1e-2 for _ in range(4000)])
    assert below == pytest.approx(0.5, abs=0.04)


def test_a_grid_is_every_combination_once(tmp_path):
    sweep = sweep_of(
        tmp_path, "method: grid\nparameters: {a: {values: [x, y]}, b: {min: 1, max: 3}, c: {value: 7}}"
    )
    found, trials = [], []
    while (cell := next_parameters(sweep, trials, 0)) is not None:
        found.append(tuple(cell.values()))
        trials.append(Trial(cell, "ended", 0.0))
    assert sorted(found) == [(a, b, 7) for a in "xy" for b in (1, 2, 3)]


def test_random_choices_follow_from_seed_and_number_alone(tmp_path):
    sweep = sweep_of(tmp_path, "method: random\nparameters: {a: {min: 0.0, max: 1.0}}")
    first = next_parameters(sweep, [], 1)
    assert next_parameters(sweep, [], 1) == first
    assert next_parameters(sweep, [], 2) != first
    assert next_parameters(sweep, [Trial(first, "running", None)], 1) != first


@pytest.mark.parametrize("goal", ["maximize", "minimize"])
def test_bayes_finds_what_it_is_asked_for(tmp_path, goal):
    path = tmp_path / "bayes.yaml"
    path.write_text(
        f"method: bayes\nmetric: {{name: m, goal: {goal}}}\n"
        "parameters: {x: {min: 0.0, max: 10.0}, n: {min: 1, max: 5}, kind: {values: [[1, 2], good]}}"
    )
    sweep = load_sweep(path)
    sign = 1 if goal == "maximize" else -1
    trials = []
    for _ in range(9):
        drawn = next_parameters(sweep, trials, 5)
        value = -((drawn["x"] - 7) ** 2) - abs(drawn["n"] - 2) - 20 * (drawn["kind"] != "good")
        assert isinstance(drawn["n"], int)
        trials.append(Trial(drawn, "ended", sign * value))
    assert max(sign * trial.value for trial in trials) > -3
    under_way = [
        *trials,
        Trial(trials[-1].parameters, "running", None),
        Trial(trials[0].parameters, "failed", None),
    ]
    assert next_parameters(sweep, under_way, 5) == next_parameters(sweep, under_way, 5)


def test_hyperband_bands_are_wandbs():
    assert Hyperband.parse({"type": "hyperband", "min_iter": 3}).bands[:4] == (3, 9, 27, 81)
    assert Hyperband.parse({"type": "hyperband", "max_iter": 27, "s": 2}).bands == (3, 9)
    assert Hyperband.parse({"type": "hyperband", "min_iter": 2, "eta": 1.5}).bands[:4] == (2, 3, 4, 6)
    for wrong in (
        {"type": "envelope"},
        {"type": "hyperband"},
        {"type": "hyperband", "min_iter": 3, "strict": True},
    ):
        with pytest.raises(SweepError):
            Hyperband.parse(wrong)


def test_hyperband_lets_the_best_share_go_on():
    rule = Hyperband((2, 4), eta=2)
    histories = [[1, 5], [1, 4], [1, 3], [1, 2]]

    def stopped(maximize, sign=1):
        signed = [[sign * v for v in h] for h in histories]
        return [rule.stops(h, signed[:i] + signed[i + 1 :], maximize) for i, h in enumerate(signed)]

    assert stopped(True) == [False, False, True, True]
    assert stopped(False, -1) == [False, False, True, True]
    assert not rule.stops([0], histories, True), "no band is reached yet"
    assert not rule.stops([0, 0], [], True), "the first at a band goes on"
    assert not rule.stops([0, 9, 0, 0], histories, True), "nobody else is at the second band"


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("method: grid\nparameters: {a: {min: 0.0, max: 1.0}}", "parameters.a.*continuous"),
        ("method: anneal\nparameters: {a: {value: 1}}", "method must be"),
        ("method: random\nparameters: {a: {value: 1}}\nimage_uri: x", "image_uri"),
        ("method: random", "parameters are missing"),
        ("method: random\nparameters: {a: {value: 1}}\nrun_cap: 0", "run_cap"),
    ],
)
def test_what_would_be_ignored_is_refused(tmp_path, text, complaint):
    with pytest.raises(SweepError, match=complaint):
        sweep_of(tmp_path, text)


def test_a_sweep_without_metric_has_no_best_run(tmp_path):
    path = tmp_path / "s.yaml"
    path.write_text("method: random\nparameters: {a: {value: 1}}")
    with pytest.raises(SweepError, match="metric needs a name"):
        load_sweep(path)
    with pytest.raises(SweepError, match="cannot be read"):
        load_sweep(Path("nowhere.yaml"))
