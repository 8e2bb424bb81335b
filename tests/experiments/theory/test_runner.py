"""The study end to end, and the comparison it has to show."""

import csv
import subprocess
import sys
from dataclasses import replace

import pytest

from atlas_gym.experiments.theory import __main__ as command_line
from atlas_gym.experiments.theory.runner import run_cell, run_plan, slope
from atlas_gym.experiments.theory.settings import make_plan, rows

HORIZONS = (500, 1000, 2000, 4000, 8000)


QUICK = make_plan("quick")


def tiny_plan(*groups):
    """A plan of seconds: the quick one at toy sizes, with the grid's lines that figures need (or those groups)."""
    kept = [
        setting
        for setting in QUICK.settings
        if (not groups or setting.group.startswith(groups))
        and (setting.learner.beta == 1.0 or setting.learner.window.phases in (2, 16))
    ]
    return replace(
        QUICK,
        seeds=2,
        horizons=(60, 120),
        long_horizons=(240,),
        sweep_horizon=60,
        settings=tuple(kept),
        lemma_batches=1,
        broken_instances=2,
    )


def test_the_moving_reference_is_sublinear_where_the_fixed_one_is_not():
    """Item 1 of the study: floor 0.05, β = 1, rotation by 4π, T from 500 to 8000, ten seeds."""
    main = {setting.name: setting for setting in rows("main")}
    dpo, stale, evo = (
        slope({horizon: run_cell(main[name], horizon, 10)[0] for horizon in HORIZONS})
        for name in (
            "DPO, fixed uniform reference",
            "DPO, fixed stale reference",
            "EvoDPO, reference every phase",
        )
    )
    assert evo.high < 0.75 < dpo.low < stale.low


def test_the_plans_hold_what_the_tables_need():
    quick, full = make_plan("quick"), make_plan("full")
    assert quick.seeds >= 10
    assert quick.horizons == full.horizons == HORIZONS
    assert set(quick.settings) < set(full.settings)
    for plan in (quick, full):
        assert 25 * plan.lemma_batches >= 1000
        names = [(setting.group, setting.name) for setting in plan.settings]
        assert len(set(names)) == len(names)


def test_the_command_writes_tables_and_figures(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr("atlas_gym.experiments.theory.settings.make_plan", lambda name: tiny_plan())
    assert command_line.main(["--quick", "--jobs", "1", "--out", str(tmp_path)]) == 0
    assert "slope of log R over log T" in capsys.readouterr().out
    written = {path.name for path in tmp_path.iterdir()}
    assert {"tables.md", "cells.csv", "slopes.csv", "lemmas.csv", "broken.csv"} <= written
    assert sum(name.endswith(".png") for name in written) == 6
    with (tmp_path / "cells.csv").open(encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    plan = tiny_plan()
    assert len(rows) == sum(len(plan.horizons_of(setting)) for setting in plan.settings)
    assert all(float(row["decomposition_gap"]) < 1e-9 for row in rows)
    report = (tmp_path / "tables.md").read_text(encoding="utf-8")
    assert "python -m atlas_gym.experiments.theory --quick" in report
    assert "nan" not in report


def test_threads_are_limited_before_numpy_reads_how_many():
    code = "import atlas_gym.experiments.theory.__main__, sys; sys.exit('numpy' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0


@pytest.mark.slow
def test_the_number_of_jobs_changes_nothing():
    one, two = (run_plan(tiny_plan("main", "control"), jobs) for jobs in (1, 2))
    for setting in one.plan.settings:
        for horizon, cell in one.cells[setting].items():
            assert cell.regret.equals(two.cells[setting][horizon].regret)
    assert one.on_instances.equals(two.on_instances)
