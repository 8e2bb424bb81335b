"""Exploration on several instances of a task, and on a task that changes."""

from concurrent.futures import Future
from dataclasses import replace

import pytest

from atlas_gym.agents.research_agent import ResearchAgent
from atlas_gym.agents.settings import AgentSettings
from atlas_gym.trainers.data.rollouts import ProgramCache
from atlas_gym.trainers.loop.exploration import Explorer
from atlas_gym.trainers.store.store import RunStore
from tests.trainers.exploring import ROUNDS, SETTINGS, SPEC, START, Evaluator, Writer, stored


class Scaled(Evaluator):
    """An evaluator whose task is a factor."""

    def submit(self, program, task):
        future = super().submit(program, task)
        found = future.result()
        if found.score is None:
            return future
        scaled: Future = Future()
        scaled.set_result(replace(found, score=found.score * task))
        return scaled


def test_each_island_searches_on_its_own_instance(tmp_path):
    with RunStore(tmp_path) as store:
        store.set_instances(2)
        agent = ResearchAgent(SPEC, AgentSettings(migrate_every=1), seed=5, instances=2)
        explorer = Explorer(SETTINGS, agent, Writer, ProgramCache(Scaled(), [1.0, -1.0], store), store)
        explorer.notes = [["up"], ["down"]]
        explorer.seed([START, START.replace("a = 1", "a = 4")])
        list(explorer.rounds(1, ROUNDS))
        records = list(store.candidates())
        starts = [store.start(island=island).score for island in range(3)]
        assert starts == [4.0, -10.0, 4.0]
        assert records[2].duplicate_of == records[0].id  # two islands share the first instance
        assert max(r.score for r in records if r.island == 1 and r.score is not None) <= 0
        assert all(("# down" in r.prompt) == (r.island == 1) for r in records if r.origin == "agent")
        ids = {r.id: r for r in records}
        twins = [(r, ids[r.duplicate_of]) for r in records if r.duplicate_of is not None]
        assert twins
        assert all(one.island % 2 == other.island % 2 for one, other in twins)
        bests = store.best_scores(0, ROUNDS)
        assert agent.best_score == pytest.approx((bests[0] + bests[1]) / 2)
        (down,) = store.best_candidates(1, island=1)
        assert (down.island, down.score) == (1, bests[1])
        (best,) = store.best_candidates(1)
        assert best.score - starts[best.island] == max(bests[0] - 4.0, bests[1] + 10.0)


def explore_drifting(folder, dies_after=None):
    """Like `explore`, but after three rounds the task turns round."""
    evaluator, writer = Scaled(), Writer(dies_after)
    with RunStore(folder) as store:
        agent = ResearchAgent(SPEC, AgentSettings(migrate_every=2), seed=5)
        explorer = Explorer(SETTINGS, agent, lambda: writer, ProgramCache(evaluator, [1.0], store), store)
        explorer.seed([START])
        list(explorer.rounds(1, 3))
        kept = {i: [r.program for r in island.population[:1]] for i, island in agent.islands.items()}
        explorer.change_tasks([-1.0])
        list(explorer.rounds(4, ROUNDS))
        return kept, store.task_began(3), store.task_began(), store.start().score, store.best_candidates(1)[0]


def test_a_changed_task_scores_the_islands_best_again_and_forgets_the_rest(tmp_path):
    best, before, began, start, winner = explore_drifting(tmp_path)
    records = stored(tmp_path)
    carried = [r for r in records if r.round == 4]
    assert (before, began) == (0, 4)
    assert {r.origin for r in carried} == {"carried"}
    for island in range(3):
        own = [r for r in carried if r.island == island]
        assert own[0].program == START
        assert set(best[island]) <= {r.program for r in own}
        assert len(own) <= SETTINGS.carried
    old = {r.id: r for r in records if r.round < 4}
    assert all(r.score == -old[r.parent_id].score for r in carried)
    assert all(r.duplicate_of is None or r.duplicate_of >= carried[0].id for r in records if r.round >= 4)
    assert all(r.parent_id >= carried[0].id for r in records if r.round > 4)
    assert start == -4.0
    assert winner.round >= 4
    assert winner.score == max(r.score for r in records if r.round >= 4 and r.score is not None)


@pytest.mark.parametrize("dies_after", [0, 13, 40, 43, 50])
def test_a_drifting_run_killed_anywhere_ends_the_same(tmp_path, dies_after):
    explore_drifting(tmp_path / "whole")
    with pytest.raises(KeyboardInterrupt):
        explore_drifting(tmp_path / "killed", dies_after)
    explore_drifting(tmp_path / "killed")
    assert stored(tmp_path / "killed") == stored(tmp_path / "whole")
