"""The search: W&B's notation read into Optuna's, its choices, its early termination."""

import json
import math
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from optuna.distributions import CategoricalDistribution, FloatDistribution, IntDistribution

from atlas_gym.experiments.studies.search import RunWatch, Search
from atlas_gym.experiments.studies.sweep_file import load_sweep, parse_parameter
from atlas_gym.trainers.store.plain import SettingsError
from atlas_gym.trainers.store.store import RunStore

HEAD = "metric: {name: score/best, goal: maximize}\n"


@pytest.fixture
def search_of(tmp_path):
    """A search from the text of a sweep file; asked again, the same one continued."""
    opened = []

    def open_(text, seed=0, folder="s"):
        path = tmp_path / "sweep.yaml"
        path.write_text(HEAD + text)
        for search in opened:
            search.close()
        opened.append(Search(load_sweep(path), tmp_path / folder, seed))
        return opened[-1]

    yield open_
    for search in opened:
        search.close()


def choices(*values):
    return CategoricalDistribution(tuple(json.dumps(value) for value in values))


@pytest.mark.parametrize(
    ("entry", "parameter"),
    [
        ({"value": 3}, choices(3)),
        ({"values": ["a", None, [1, 2]]}, choices("a", None, [1, 2])),
        ({"min": 1, "max": 4}, IntDistribution(1, 4)),
        ({"min": 1.0, "max": 4}, FloatDistribution(1.0, 4)),
        ({"distribution": "log_uniform_values", "min": 1e-3, "max": 1}, FloatDistribution(1e-3, 1, log=True)),
        ({"distribution": "q_uniform", "min": 0.1, "max": 1, "q": 0.25}, FloatDistribution(0.25, 1, step=0.25)),
        ({"distribution": "q_uniform", "min": 5, "max": 31, "q": 10}, IntDistribution(10, 30, step=10)),
    ],
)  # fmt: skip
def test_parameters_mean_to_optuna_what_they_mean_to_wandb(entry, parameter):
    assert parse_parameter("x", entry) == parameter


@pytest.mark.parametrize(
    ("entry", "complaint"),
    [
        (3, "must be a mapping"), ({"min": 1}, "`min` and `max`"),
        ({"min": 2, "max": 1}, "2.*1"), ({"values": []}, "choices"),
        ({"distribution": "normal", "min": 0, "max": 1}, "not supported"),
        ({"distribution": "log_uniform_values", "min": 0, "max": 1}, "low.*log"),
        ({"values": [1, 2], "probabilities": [3, 1]}, "repeat a value"),
        ({"min": 0.1, "max": 1, "distributon": "log_uniform_values"}, "did you mean distribution"),
        ({"values": "abc"}, "values must be a list"),
        ({"distribution": "q_uniform", "min": 0, "max": 1, "q": 0}, "division"),
    ],
)  # fmt: skip
def test_what_cannot_be_read_is_refused_with_the_parameters_name(entry, complaint):
    with pytest.raises(SettingsError, match=complaint) as caught:
        parse_parameter("beta", entry)
    assert "parameters.beta" in str(caught.value)


@given(st.integers(1, 20), st.integers(0, 40), st.integers(1, 7))
def test_steps_are_counted_from_zero(low, more, q):
    inside = [value for value in range(low, low + more + 1) if value % q == 0]
    entry = {"distribution": "q_uniform", "min": low, "max": low + more, "q": q}
    if not inside:
        with pytest.raises(SettingsError):
            parse_parameter("x", entry)
    else:
        found = parse_parameter("x", entry)
        assert (found.low, found.high, found.step) == (inside[0], inside[-1], q)


def test_a_grid_is_every_combination_once_and_goes_on_where_it_was(search_of):
    text = "method: grid\nparameters: {a: {values: [x, y]}, b: {min: 1, max: 3}, c: {value: 7}}"
    search = search_of(text)
    found = [search.settings(search.next()) for _ in range(2)]
    search = search_of(text)
    while (trial := search.next()) is not None:
        found.append(search.settings(trial))
    assert [tuple(cell.values()) for cell in found] == [(a, b, 7) for a in "xy" for b in (1, 2, 3)]


def test_random_choices_follow_from_seed_and_number_alone(search_of):
    text = "method: random\nparameters: {a: {min: 0.0, max: 1.0}}"
    drawn = [search_of(text, 1, "a").next().params for _ in range(3)]  # continued each time
    search = search_of(text, 1, "b")
    assert [search.next().params for _ in range(3)] == drawn
    assert len({found["a"] for found in drawn}) == 3
    assert search_of(text, 2, "c").next().params != drawn[0]


@pytest.mark.parametrize(
    "method",
    [
        "method: random\nrun_cap: 2\nparameters: {a: {min: 0.0, max: 1.0}, k: {value: 3}, b: {min: 1, max: 9}}",
        "method: grid\nparameters: {a: {values: [1, 2]}, b: {value: 3}}",
    ],
)
@pytest.mark.parametrize("cut", [0, 9])
def test_killed_at_any_line_of_its_journal_or_within_it_goes_on_the_same(search_of, tmp_path, method, cut):
    def chosen(folder):
        search = search_of(method, folder=folder)
        trials = [*search.interrupted(), *iter(search.next, None)]
        for trial in trials:
            search.study.tell(trial, 0.0)
        return [search.settings(trial) for trial in search.trials()]

    wanted = chosen("whole")
    journal = (tmp_path / "whole" / "sweep.journal").read_bytes().splitlines(keepends=True)
    for lines in range(1, len(journal) + 1):
        (tmp_path / f"{lines}").mkdir()
        left = b"".join(journal[:lines])
        (tmp_path / f"{lines}" / "sweep.journal").write_bytes(left[: len(left) - cut])
        assert chosen(f"{lines}") == wanted


@pytest.mark.parametrize("goal", ["maximize", "minimize"])
def test_bayes_finds_what_it_is_asked_for(tmp_path, goal):
    path = tmp_path / "bayes.yaml"
    path.write_text(
        f"method: bayes\nmetric: {{name: m, goal: {goal}}}\n"
        "parameters: {x: {min: 0.0, max: 10.0}, n: {min: 1, max: 5}, kind: {values: [[1, 2], good]}}"
    )
    search = Search(load_sweep(path), tmp_path / "s", 5)
    sign = 1 if goal == "maximize" else -1
    for _ in range(9):
        trial = search.next()
        drawn = search.settings(trial)
        assert isinstance(drawn["n"], int)
        value = -((drawn["x"] - 7) ** 2) - abs(drawn["n"] - 2) - 20 * (drawn["kind"] != "good")
        search.study.tell(trial, sign * value)
    assert sign * search.best().value > -3
    search.close()


@pytest.mark.parametrize(
    ("entry", "rule"),
    [("min_iter: 3", (3, 3)), ("max_iter: 27, s: 2", (3, 3)), ("min_iter: 2, eta: 2", (2, 2))],
)  # fmt: skip
def test_early_termination_is_read(search_of, entry, rule):
    text = f"method: random\nearly_terminate: {{type: hyperband, {entry}}}\nparameters: {{a: {{value: 1}}}}"
    found = search_of(text).sweep.early_terminate
    assert (found.first, found.eta) == rule


def test_of_the_runs_that_have_come_as_far_the_best_share_goes_on(search_of):
    search = search_of(
        "method: random\nearly_terminate: {type: hyperband, min_iter: 2, eta: 2}\nparameters: {a: {value: 1}}"
    )
    stopped = []
    for value in (5.0, 4.0, 6.0, 5.5):
        trial = search.next()
        trial.report(0.0, 1)
        assert not trial.should_prune(), "no round is judged before the first"
        trial.report(value, 2)
        stopped.append(trial.should_prune())
    assert stopped == [False, True, False, False]


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("method: grid\nparameters: {a: {min: 0.0, max: 1.0}}", "parameters.a.*continuous"),
        ("method: grid\nparameters: {a: {min: 0, max: 999999999}}", r"parameters.a.*1,000,000,000 values"),
        (
            "method: grid\nparameters: {a: {min: 1, max: 200}, b: {min: 1, max: 200}}",
            "a grid of 40,000 runs.*method: random",
        ),
        ("method: anneal\nparameters: {a: {value: 1}}", "method must be"),
        ("method: random\nparameters: {a: {value: 1}}\nimage_uri: x", "image_uri"),
        ("method: random", "parameters is needed"),
        ("method: random\nparameters: {}", "parameters are missing"),
        ("method: random\nparameters: {a: {value: 1}}\nrun_cap: 0", "run_cap"),
        (
            "method: random\nparameters: {a: {value: 1}}\nearly_terminate: {type: envelope}",
            "one of hyperband",
        ),
        ("method: random\nparameters: {a: {value: 1}}\nearly_terminate: {type: hyperband}", "needs min_iter"),
    ],
)
def test_what_would_be_ignored_is_refused(search_of, text, complaint):
    with pytest.raises(SettingsError, match=complaint):
        search_of(text)


def test_a_sweep_without_metric_has_no_best_run(tmp_path):
    path = tmp_path / "s.yaml"
    path.write_text("method: random\nparameters: {a: {value: 1}}")
    with pytest.raises(SettingsError, match="metric is needed"):
        load_sweep(path)
    with pytest.raises(SettingsError, match="cannot be read"):
        load_sweep(Path("nowhere.yaml"))


def test_a_run_whose_metric_is_no_number_came_to_nothing(tmp_path, monkeypatch):
    path = tmp_path / "s.yaml"
    path.write_text("method: random\nmetric: {name: improvement}\nparameters: {a: {value: 1}}")
    search = Search(load_sweep(path), tmp_path / "s", 0)
    RunStore(tmp_path / "run").close()
    monkeypatch.setattr(
        "atlas_gym.experiments.studies.search.final_row", lambda store: {"improvement": math.nan}
    )
    assert RunWatch(search.next(), tmp_path / "run", search.sweep).value() is None
    search.close()


def test_a_run_that_is_damaged_under_way_does_not_end_the_sweep(tmp_path):
    path = tmp_path / "s.yaml"
    path.write_text("method: random\nmetric: {name: improvement}\nparameters: {a: {value: 1}}")
    search = Search(load_sweep(path), tmp_path / "s", 0)
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "config.yaml").write_text("seed: 0")
    RunStore(tmp_path / "run").close()
    with closing(sqlite3.connect(tmp_path / "run" / "run.sqlite")) as damaged, damaged:
        damaged.execute("DROP TABLE candidates")
    watch = RunWatch(search.next(), tmp_path / "run", search.sweep)
    assert not watch.is_hopeless()
    assert watch.value() is None
    search.close()
