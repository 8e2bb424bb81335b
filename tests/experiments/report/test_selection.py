"""Long runs: the page shows a selection, and counts everything."""

import pytest

from atlas_gym.experiments.report import selection
from atlas_gym.experiments.report.comparison import group_runs
from atlas_gym.experiments.report.coverage import ROUNDS_SHOWN, coverage
from atlas_gym.experiments.report.data import read_run
from atlas_gym.experiments.report.payload import build_payload
from atlas_gym.experiments.report.tables import run_row
from atlas_gym.experiments.report.write import render_page
from atlas_gym.experiments.studies.rows import origin_rows, round_rows
from atlas_gym.trainers.store.store import RunStore
from tests.experiments.report.long_run import SyntheticRun, fill, write_config


@pytest.fixture(scope="module")
def long_run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("long")
    run = SyntheticRun(1500)
    write_config(folder, run)
    with RunStore(folder) as store:
        fill(store, run)
    return folder


@pytest.fixture(scope="module")
def thinned(long_run):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(selection, "SHOWN", 100)
        patch.setattr(selection, "DRAWN", 50)
        return read_run(long_run)


def test_a_selection_counts_everything_and_shows_what_matters(long_run, thinned):
    whole = read_run(long_run)
    assert whole.census.candidates == len(whole.candidates) == thinned.census.candidates
    assert len(thinned.candidates) < len(whole.candidates) / 2
    assert (thinned.initial, thinned.best) == (whole.initial, whole.best)
    assert (thinned.census.rounds, thinned.census.curve) == (whole.census.rounds, whole.census.curve)
    written = [c for c in whole.candidates if c.origin != "seed"]
    assert thinned.written == {
        "candidates": len(written),
        "evaluated": sum(c.duplicate_of is None for c in written),
        "valid_share": sum(c.status == "ok" for c in written) / len(written),
    }
    assert 0 < len(written) < whole.census.candidates
    shown = {c.id: c for c in thinned.candidates}
    at = thinned.best
    while at.parent_id is not None:
        at = shown[at.parent_id]
    position = {c.id: n for c, n in zip(whole.candidates, whole.census.numbers, strict=True)}
    assert thinned.census.numbers == tuple(position[c.id] for c in thinned.candidates)


def test_tables_and_studies_count_what_is_not_shown_too(long_run, thinned):
    whole = read_run(long_run)
    assert run_row(thinned, held_out=False) == run_row(whole, held_out=False)
    assert list(round_rows(thinned)) == list(round_rows(whole))
    assert list(origin_rows(thinned)) == list(origin_rows(whole))
    assert sum(row["candidates"] for row in origin_rows(thinned)) == thinned.written["candidates"]


def test_evaluations_are_numbered_by_different_programs(long_run):
    whole = read_run(long_run)
    number = 0
    for record, found in zip(whole.candidates, whole.census.numbers, strict=True):
        number += record.duplicate_of is None
        assert found == number
    assert number == whole.census.evaluated


def test_coverage_is_that_of_all_candidates(long_run, thinned):
    assert coverage(thinned) == coverage(read_run(long_run))


def test_a_long_runs_rounds_are_put_together(long_run, monkeypatch):
    from atlas_gym.experiments.report import coverage as module
    from atlas_gym.experiments.report.payload import _rounds

    run = read_run(long_run)
    apart = _rounds(run)
    monkeypatch.setattr(module, "ROUNDS_SHOWN", 8)
    together = _rounds(run)
    assert len(apart) == run.census.rounds
    assert len(together) <= 8
    assert sum(r["samples"] for r in together) == sum(r["samples"] for r in apart)
    assert coverage(run)["rounds"][-1] == run.census.rounds
    assert ROUNDS_SHOWN == 400


def test_the_page_says_what_it_leaves_out(thinned):
    payload = build_payload(group_runs([thinned]), [], {})
    run = payload["runs"][0]
    assert run["total"] == thinned.census.candidates > len(run["candidates"]["id"])
    assert "are shown" in render_page(payload, "x")
