"""Exploration: exact order, exact ids, exact resumption."""

import random
from collections import Counter
from dataclasses import replace

import pytest

from atlas_gym.agents.population.candidate import WRITERS
from atlas_gym.agents.supporters.build import build_supporters
from atlas_gym.agents.supporters.settings import SupporterSettings
from atlas_gym.trainers.store.plain import SettingsError
from atlas_gym.trainers.store.store import RunStore
from tests.trainers.exploring import ROUNDS, SETTINGS, START, Evaluator, Writer, explore, explorer_of, stored

RULES = build_supporters(SupporterSettings(), 5).exploration
ALL = {"writers": dict.fromkeys(WRITERS, 1.0), "supporter": RULES}


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    folder = tmp_path_factory.mktemp("whole")
    evaluator = explore(folder)
    return stored(folder), evaluator


def test_what_is_evaluated_runs_is_new_and_no_more_than_asked_for(whole):
    records, evaluator = whole
    evaluated = [r for r in records if r.origin == "agent" and r.evaluated]
    assert evaluated
    assert {r.status for r in evaluated} == {"ok"}
    assert max(Counter((r.round, r.island) for r in evaluated).values()) <= SETTINGS.samples
    assert len({r.program_key for r in evaluated}) == len(evaluated)
    assert sorted(evaluator.programs) == sorted([START, *(r.program for r in evaluated)])


def test_what_failed_its_smoke_run_is_kept_as_a_failure_and_not_evaluated(whole):
    records, evaluator = whole
    failed = [r for r in records if not r.evaluated]
    assert {r.status for r in failed} == {"invalid"}
    assert all(r.score is None and r.prompt for r in failed)
    assert not {r.program for r in failed} & set(evaluator.programs)
    assert sorted(r.id for r in records) == [r.id for r in records]


def test_several_sites_of_a_parent_are_asked_and_resumed_as_one(tmp_path):
    settings = replace(SETTINGS, sites=2)
    explore(tmp_path / "whole", settings=settings)
    with pytest.raises(KeyboardInterrupt):
        explore(tmp_path / "killed", dies_after=18, settings=settings)
    explore(tmp_path / "killed", settings=settings)
    records = stored(tmp_path / "whole")
    assert stored(tmp_path / "killed") == records
    with RunStore(tmp_path / "whole") as store:
        asked = store.asked(ROUNDS)
        assert len(asked) == ROUNDS * settings.islands * 2
        assert len(set(asked)) == len(asked)
        for record in records:
            if record.origin == "agent":  # each has the prompt that it was written for
                proposal = store.proposal(record.round, record.island, record.prompt)
                assert (proposal.site, proposal.assemble(record.completion)) == (record.site, record.program)


def test_copies_are_recognised(whole):
    records, _ = whole
    by_id = {r.id: r for r in records}
    for record in records:
        if record.parent_id is not None and record.program_key is not None:
            assert record.is_copy == (by_id[record.parent_id].program_key == record.program_key)


@pytest.fixture(scope="module")
def shared(tmp_path_factory):
    """A run in which every writer has its share."""
    folder = tmp_path_factory.mktemp("shared")
    explore(folder, **ALL)
    return folder


def test_writers_share_each_rounds_evaluations(shared):
    records = stored(shared)
    evaluated = Counter((r.round, r.island) for r in records if r.evaluated and r.round)
    assert max(evaluated.values()) <= SETTINGS.samples
    assert {r.origin for r in records if r.evaluated} == {"seed", *WRITERS}
    assert len({r.id for r in records}) == len(records)
    with RunStore(shared) as store:
        tallies = [summary["writers"] for summary in store.round_summaries()[1:]]
        assert not any(prompt == "" for *_, prompt in store.asked(ROUNDS))
    for name, writer in [("edit_line", "agent"), *((writer, writer) for writer in WRITERS[1:])]:
        own = [r for r in records if r.origin == writer and r.evaluated]
        assert sum(tally.get(name, [0])[0] for tally in tallies) == len(own)


def test_what_a_writer_cannot_deliver_is_written_by_others(tmp_path):
    class Silent(Writer):
        def stream(self, requests, on_completion):
            pass

    with RunStore(tmp_path) as store:
        explorer = explorer_of(store, Evaluator(), Silent(), **ALL)
        explorer.seed([START])
        summaries = list(explorer.rounds(1, 2))
    asked = SETTINGS.islands * SETTINGS.samples
    assert all("edit_line" not in summary["writers"] for summary in summaries)
    assert summaries[0]["samples"] > 0.7 * asked


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("everybody", [False, True], ids=["agent alone", "all writers"])
def test_killed_anywhere_and_resumed_is_the_same_run(whole, shared, tmp_path, seed, everybody):
    rng, writers = random.Random(seed), ALL if everybody else {}
    for _ in range(4):
        try:
            explore(tmp_path, dies_after=rng.randrange(1, 60), **writers)
        except KeyboardInterrupt:
            continue
    explore(tmp_path, **writers)
    assert stored(tmp_path) == (stored(shared) if everybody else whole[0])


def test_a_failing_start_is_an_error(tmp_path):
    with RunStore(tmp_path) as store:
        explorer = explorer_of(store, Evaluator(), Writer())
        with pytest.raises(SettingsError, match="starting program fails"):
            explorer.seed(["def f(x:\n"])
