"""A run whose supporter teaches, from beginning to end, with a model of random weights."""

import math
from dataclasses import replace

import pytest

from atlas_gym.agents.supporters.exploration import ExplorationSupporter
from atlas_gym.trainers.loop.atlas import AtlasRun
from atlas_gym.trainers.store.store import RunStore
from tests.trainers.whole_run import Watcher, config, contents, menu, run

assert config, menu  # fixtures


@pytest.fixture(scope="module")
def taught(config):
    """Two phases, each taught; in exploration the agent alone writes."""
    layout = replace(config.exploration, writers={"agent": 1.0})
    return replace(config, teaching=True, taught_per_prompt=3, exploration=layout, start="inlined")


@pytest.fixture(scope="module")
def whole(taught, tmp_path_factory):
    folder = tmp_path_factory.mktemp("taught")
    return folder, run(taught, folder)


def lessons(folder):
    with RunStore.open_readonly(folder) as store:
        return store.taught(9)


def test_lessons_become_pairs_beside_the_agents_own(whole):
    candidates, pairs, phases, _, calls = contents(whole[0])
    assert {c.origin for c in candidates} == {"seed", "agent"}
    by_id = {lesson.id: lesson for lesson in lessons(whole[0])}
    assert by_id
    assert any(pair.chosen_id in by_id for _, pair in pairs)
    for _, pair in pairs:
        assert all(
            by_id[id_].prompt == pair.prompt for id_ in (pair.chosen_id, pair.rejected_id) if id_ in by_id
        )
    assert not phases[-1].get("skipped")
    for phase in [phase for phase in phases if not phase.get("skipped")]:
        own = [pair.chosen_id for number, pair in pairs if number == phase["phase"]]
        counts = {
            "supporter": sum(id_ in by_id for id_ in own),
            "agent": sum(id_ not in by_id for id_ in own),
        }
        assert phase["chosen_from"] == {origin: count for origin, count in counts.items() if count}
    assert ("exploration", 1) in {(role, phase) for _, phase, role in calls}
    assert (None, "exploration") not in {(phase, role) for _, phase, role in calls}  # no share, nobody asked


def test_lessons_are_evaluations_and_join_the_islands(taught, whole):
    candidates, *_ = contents(whole[0])
    written = [c for c in (*candidates, *lessons(whole[0])) if c.origin != "seed" and c.evaluated]
    assert whole[1]["candidates"] == len(written)
    assert whole[1]["evaluated"] == len([c for c in written if c.duplicate_of is None])
    best = max((c for c in (*candidates, *lessons(whole[0])) if c.passed), key=lambda c: c.score)
    assert whole[1]["best"]["score"] == best.score
    with RunStore(whole[0]) as store, AtlasRun(taught, store) as again:
        again.run()  # read from the store
        known = {key for island in range(3) for key in again.cache.keys(island)}
        assert known >= {lesson.program_key for lesson in lessons(whole[0])}
        assert again.agent.best_score == best.score
        assert not any(
            again.agent.islands[lesson.island].add(lesson) for lesson in lessons(whole[0])
        )  # has it


def killed_while_teaching(monkeypatch, after):
    asked = []

    def consult(self, request, consult=ExplorationSupporter.consult):
        asked.append(request.key)
        if len(asked) > after:
            raise KeyboardInterrupt
        return consult(self, request)

    monkeypatch.setattr(ExplorationSupporter, "consult", consult)


def test_a_run_killed_while_it_is_taught_and_after_ends_as_if_it_had_not_been(
    taught, whole, tmp_path, monkeypatch
):
    with monkeypatch.context() as patch:
        killed_while_teaching(patch, after=1)
        with pytest.raises(KeyboardInterrupt):
            run(taught, tmp_path)
    assert lessons(tmp_path) == []
    with pytest.raises(KeyboardInterrupt):  # lessons are stored, the phase is not
        run(taught, tmp_path, Watcher(interrupt_at=("exam", 2)))
    assert lessons(tmp_path)
    assert run(taught, tmp_path) == whole[1]
    assert contents(tmp_path) == contents(whole[0])
    assert lessons(tmp_path) == lessons(whole[0])


def test_a_gate_on_likelihood_sees_every_phase_move_and_is_redone_alike(taught, tmp_path):
    exam = replace(taught, gate_score="likelihood", taught_per_prompt=8)
    with pytest.raises(KeyboardInterrupt):  # the second phase is tuned again
        run(exam, tmp_path / "killed", Watcher(interrupt_at=("exam", 2)))
    run(exam, tmp_path / "killed")
    run(exam, tmp_path / "whole")
    assert contents(tmp_path / "killed") == contents(tmp_path / "whole")
    phases = [phase for phase in contents(tmp_path / "whole")[2] if not phase.get("skipped")]
    assert phases
    for phase in phases:
        score, decision = phase["reference_score"], phase["decision"]
        # The logarithm of a small gain; on some machines no answer to the few prompts of G_k improves.
        assert (score < 0 and decision["gain"] != 0) or (math.isnan(score) and not decision["promote"])
