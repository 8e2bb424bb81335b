"""Phases over several runs: differences paired by run, runs without a phase left out."""

import pandas as pd
import pytest
from scipy import stats

from atlas_gym.experiments.studies.over_runs import main, over_runs

ROWS = pd.DataFrame([
    {"run": "s0", "variant": "base model", "nats": -46.0},
    {"run": "s0", "variant": "own", "nats": -50.0, "validity, base": 0.2, "validity": 0.3},
    {"run": "s0", "variant": "taught", "nats": -20.0, "validity, base": 0.2, "validity": 0.5},
    {"run": "s1", "variant": "base model", "nats": -46.0},
    {"run": "s1", "variant": "own"},
    {"run": "s1", "variant": "taught", "nats": -30.0, "validity, base": 0.2, "validity": 0.6},
    {"run": "s2", "variant": "base model", "nats": -40.0},
    {"run": "s2", "variant": "own", "nats": -42.0, "validity, base": 0.4, "validity": 0.4},
    {"run": "s2", "variant": "taught", "nats": -34.0, "validity, base": 0.4, "validity": 0.4},
])  # fmt: skip


def interval(*differences: float) -> str:
    mean = sum(differences) / len(differences)
    low, high = stats.t.interval(0.95, len(differences) - 1, loc=mean, scale=stats.sem(differences))
    return f"{mean:+.3f} [{low:+.3f}, {high:+.3f}] ({len(differences)} runs)"


def test_differences_are_paired_by_run_and_runs_without_a_phase_do_not_count() -> None:
    lines = {row[:2]: row[2:] for row in over_runs(ROWS).rows}
    assert lines["nats", "taught"] == ("-44.000", "-28.000", interval(26, 16, 6), interval(30, 8))
    assert lines["nats", "own"] == ("-44.000", "-46.000", interval(-4, -2), "")
    assert lines["validity", "taught"][2:] == (interval(0.3, 0.4, 0.0), interval(0.2, 0.0))


def test_a_variant_that_is_not_there_and_data_that_are_not_are_one_line(tmp_path) -> None:
    with pytest.raises(ValueError, match="no variant 'other'; there are own, taught"):
        over_runs(ROWS, "other")
    for rows in (ROWS[ROWS.variant == "base model"], ROWS[ROWS.variant == "own"]):
        with pytest.raises(ValueError, match="rows of the base model and of a variant"):
            over_runs(rows)
    with pytest.raises(SystemExit, match="replays --output"):
        main([str(tmp_path / "replays.csv")])
    (tmp_path / "replays.csv").write_text("a,b\n1,2\n")
    with pytest.raises(SystemExit, match=r"is not what .*replays --output"):
        main([str(tmp_path / "replays.csv")])
