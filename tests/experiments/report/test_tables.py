"""Tables: the numbers are the runs' own, and every format holds all of them."""

import csv
import io
from dataclasses import replace

import pytest
from scipy.stats import sem

from atlas_gym.experiments.report.comparison import group_runs
from atlas_gym.experiments.report.data import read_run
from atlas_gym.experiments.report.table_formats import Table, as_csv, as_markdown, write_tables
from atlas_gym.experiments.report.tables import all_tables
from tests.experiments.report.synthetic import Layout, make_run


@pytest.fixture(scope="module")
def runs(several_runs):
    return [read_run(folder) for folder in several_runs]


def table(name, runs):
    return next(t for t in all_tables(group_runs(runs)) if t.name == name)


def test_final_scores_are_means_over_held_out_seeds(runs):
    rows = {row[0]: row for row in table("final_scores", runs).rows}
    assert set(rows) == {"atlas", "evotune"}
    finals = [sum(r.held_out_scores(r.best)) / 4 for r in runs if r.setting("method") == "atlas"]
    assert rows["atlas"][1:3] == (runs[0].setting("env"), "3")
    assert rows["atlas"][4] == f"{sum(finals) / 3:.4f} ± {sem(finals):.4f}"


def test_final_scores_of_several_instances_are_their_means(tmp_path):
    run = read_run(make_run(tmp_path / "run", Layout(instances=3)))
    (row,) = table("final_scores", [run]).rows
    bests = {str(best.id) for _, best in run.ends}
    assert len(bests) == 3
    assert table("best_programs", [run]).rows[0][1] in bests
    lifted = [best.score - 0.002 + 0.0045 for _, best in run.ends]
    assert row[4] == f"{sum(lifted) / 3:.4f}"
    initial = run.initial.score + 0.0025
    assert row[5] == f"{100 * (1 - sum(lifted) / 3 / initial):.1f} %"


def test_an_unconfirmed_run_shows_training_scores_and_says_so(runs):
    found = table("final_scores", [replace(runs[0], held_out={})])
    (row,) = found.rows
    assert row[4] == f"{runs[0].best.score:.4f}"
    assert row[1].endswith("training seeds")
    assert found.note.startswith("Training seeds")


def test_interventions_count_phases_in_which_a_control_changed(runs):
    row = table("interventions_by_run", runs[:1]).rows[0]
    phases = len(runs[0].tuned_phases)
    assert row[3:6] == (f"0/{phases}", f"{phases}/{phases}", f"{phases}/{phases}")
    rates = table("interventions", runs[:1]).rows[0]
    assert rates[2:5] == (str(phases), "0%", "100%")


def test_a_phases_row_says_whose_completions_its_pairs_choose(runs):
    phases = runs[0].tuned_phases
    assert {row[3:5] for row in table("phases", runs[:1]).rows} == {("64", "24")}
    alone = replace(runs[0], phases=tuple({**phase, "chosen_from": {"agent": 64}} for phase in phases))
    assert {row[4] for row in table("phases", [alone]).rows} == {"0"}
    unknown = replace(
        runs[0], phases=tuple({k: v for k, v in p.items() if k != "chosen_from"} for p in phases)
    )
    assert "Taught" not in table("phases", [unknown]).columns
    assert {row[4] for row in table("phases", [unknown, runs[1]]).rows} == {"–", "24"}


def test_columns_of_phases_that_nobody_measured_are_left_out(runs):
    assert {"Valid", "New", "Improving"} <= set(table("phases", runs).columns)
    bare = table("phases", [replace(run, exams={}) for run in runs])
    assert not {"Valid", "New", "Improving"} & set(bare.columns)
    assert "Pairs" in bare.columns


def test_the_ablation_needs_methods_that_differ_in_nothing_else(runs):
    assert [row[0] for row in table("ablation", runs).rows] == ["atlas", "evotune"]
    other = replace(runs[0], config={**runs[0].config, "phase": {"beta": 0.2}})
    assert "ablation" not in {t.name for t in all_tables(group_runs([*runs, other]))}


NASTY = Table(
    "t", "50% of_it", ("a", "b|c"), (("x & y_1", "1,5"), ('say "hi" \\ {}', "−1 ± 2\n→")), "note #1"
)


def test_csv_keeps_every_cell():
    rows = list(csv.reader(io.StringIO(as_csv(NASTY))))
    assert [tuple(row) for row in rows] == [NASTY.columns, *NASTY.rows]


def test_markdown_has_one_row_a_line_and_escaped_pipes():
    lines = [line for line in as_markdown(NASTY).splitlines() if line.startswith("|")]
    assert len(lines) == 4
    assert "b\\|c" in lines[0]


def test_every_table_is_written_in_every_format(runs, tmp_path):
    tables = all_tables(group_runs(runs))
    paths = write_tables(tables, tmp_path / "tables")
    assert {path.name for path in paths} == {f"{t.name}{e}" for t in tables for e in (".csv", ".md")}
    assert all(path.stat().st_size for path in paths)
