"""Exploration: exact order, exact ids, exact resumption."""

import random
from dataclasses import replace

import pytest

from atlas_gym.agents.research_agent import ResearchAgent
from atlas_gym.agents.settings import AgentSettings
from atlas_gym.trainers.data.rollouts import ProgramCache
from atlas_gym.trainers.loop.exploration import Explorer
from atlas_gym.trainers.store.plain import SettingsError
from atlas_gym.trainers.store.store import RunStore
from tests.trainers.exploring import ROUNDS, SETTINGS, SPEC, Evaluator, Writer, explore, stored


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    folder = tmp_path_factory.mktemp("whole")
    evaluator = explore(folder)
    return stored(folder), evaluator


def test_every_candidate_is_there_once(whole):
    records, _ = whole
    sampled = [r for r in records if r.origin == "agent"]
    assert len(sampled) == ROUNDS * SETTINGS.islands * SETTINGS.samples
    assert sorted(r.id for r in records) == [r.id for r in records]
    assert {(r.round, r.island) for r in sampled} == {(r, i) for r in range(1, ROUNDS + 1) for i in range(3)}


def test_a_program_is_evaluated_once_and_its_duplicates_say_so(whole):
    records, evaluator = whole
    parsed = [r.program for r in records if r.program_key]
    assert len({r.program_key for r in records if r.program_key}) == len(
        [p for p in evaluator.programs if p in set(parsed)]
    )
    first: dict[str, int] = {}
    for record in records:
        if record.program_key is None:
            assert record.duplicate_of is None
        elif record.duplicate_of is not None:
            assert next(r for r in records if r.id == record.duplicate_of).score == record.score
        else:
            assert record.program_key not in first
            first[record.program_key] = record.id


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


@pytest.mark.parametrize("seed", range(6))
def test_killed_anywhere_and_resumed_is_the_same_run(whole, tmp_path, seed):
    rng = random.Random(seed)
    for _ in range(4):
        try:
            explore(tmp_path, dies_after=rng.randrange(1, 60))
        except KeyboardInterrupt:
            continue
    explore(tmp_path)
    assert stored(tmp_path) == whole[0]


def test_a_failing_start_is_an_error(tmp_path):
    with RunStore(tmp_path) as store:
        agent = ResearchAgent(SPEC, AgentSettings(), seed=5)
        explorer = Explorer(SETTINGS, agent, Writer, ProgramCache(Evaluator(), [None], store), store)
        with pytest.raises(SettingsError, match="starting program fails"):
            explorer.seed(["def f(x:\n"])
