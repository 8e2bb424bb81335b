"""Tables of a report: the numbers are the runs' own."""

from collections import Counter
from dataclasses import replace

import pytest
from scipy.stats import sem

from atlas_gym.experiments.report import tables
from atlas_gym.experiments.report.comparison import group_runs
from atlas_gym.experiments.report.data import read_run
from atlas_gym.trainers.store.store import RunStore
from tests.experiments.report.synthetic import Layout, make_run


@pytest.fixture(scope="module")
def runs(several_runs):
    return [read_run(folder) for folder in several_runs]


def scores(runs):
    return tables.score_table(group_runs(runs)).set_index("Runs")


def test_scores_are_means_over_held_out_seeds(runs):
    found = scores(runs)
    finals = [sum(r.held_out_scores(r.best)) / 4 for r in runs if r.setting("method") == "atlas"]
    assert found.loc["atlas", "Seeds"] == 3
    assert found.loc["atlas", "Best"] == f"{sum(finals) / 3:.4f} ± {sem(finals):.4f}"


def test_scores_of_several_instances_are_their_means(tmp_path):
    run = read_run(make_run(tmp_path / "run", Layout(instances=3)))
    found = scores([run]).loc["atlas"]
    lifted = [best.score - 0.002 + 0.0045 for _, best in run.ends]
    assert found["Best"] == f"{sum(lifted) / 3:.4f}"
    initial = run.ends[0][0].score + 0.0025
    assert found["Improvement, %"] == f"{100 * (1 - sum(lifted) / 3 / initial):.1f}"


def test_an_unconfirmed_run_shows_training_scores_and_says_so(runs):
    found = scores([replace(runs[0], held_out={})]).loc["atlas"]
    assert found["Best"] == f"{runs[0].best.score:.4f}"
    assert found["Scored on"] == "training seeds"


def test_a_phase_has_its_pairs_its_changes_and_both_sides_of_the_gate(runs):
    (phase,) = runs[0].tuned_phases
    (row,) = tables.phase_table(runs[0]).to_dict("records")
    decision = phase["decision"]
    said = row["Pairs"], row["Pairs the supporter taught"], row["Strategist changed"]
    assert said == (64, 24, "beta, epochs")
    assert row["KL (budget)"] == f"{phase['kl']:.3f} ({decision['max_kl']:.2g})"
    assert row["Gain"] == f"{phase['gain']:+.4f} ± 0.0100"
    assert row["Reference"] == ("promoted" if phase["promoted"] else "kept")
    ungated = replace(runs[0], phases=({**phase, "decision": None, "gain": None},))
    assert "Gain" not in tables.phase_table(ungated), "nothing empty"
    assert tables.phase_table(replace(runs[0], phases=({"phase": 1, "round": 4, "skipped": "idle"},))).empty


def test_supporters_authors_and_failures_are_counted_over_all_candidates(runs, monkeypatch):
    with RunStore.open_readonly(runs[0].folder) as store:
        records = list(store.candidates())
    authors = tables.author_table(runs[0]).set_index("Written by")
    assert set(authors.index) == {"agent", "supporter"}
    for origin in authors.index:
        own = [c for c in records if c.origin == origin and c.duplicate_of is None]
        assert authors.loc[origin, "Evaluated"] == len(own)
        assert authors.loc[origin, "Best score"] == f"{max(c.score for c in own if c.passed):.4f}"
    failures = tables.failure_table(runs[0])
    errors = Counter(c.detail for c in records if c.status == "error").most_common(1)
    assert list(failures.loc[0, ["Ended in", "Message", "Programs"]]) == ["error", *errors[0]]
    numbered = runs[0].tried.assign(status="error", message=[f"size {n}" for n in range(len(runs[0].tried))])
    (reason,) = tables.failure_table(replace(runs[0], tried=numbered)).to_dict("records")
    assert (reason["Message"], reason["Programs"], reason["Share"]) == ("size 0", len(numbered), "100.0%")
    calls = tables.caller_table(runs[0]).set_index("Supporter")
    assert list(calls.loc["exploration", ["Calls", "Answered"]]) == [1, 0]
    assert list(calls.loc["strategist", ["Calls", "Answered", "Tokens"]]) == [1, 1, 10]
