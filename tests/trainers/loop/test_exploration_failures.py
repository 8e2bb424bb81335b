"""A machine that fails: nothing is learned from what it did not evaluate."""

from concurrent.futures import Future

import pytest

from atlas_gym.evaluation import InfrastructureError
from atlas_gym.trainers.data.rollouts import ProgramCache, again, fresh_samples
from atlas_gym.trainers.store.store import RunStore
from tests.trainers.exploring import ROUNDS, SPEC, START, Evaluator, Writer, explorer_of


class Failing(Evaluator):
    """An evaluator on a machine that fails with every `every`-th program."""

    def __init__(self, every):
        super().__init__()
        self.every = every

    def submit(self, program, task):
        future = super().submit(program, task)
        if len(self.programs) > 1 and len(self.programs) % self.every == 0:
            future = Future()
            future.set_exception(InfrastructureError("out of memory"))
        return future


def explore_on(folder, evaluator):
    with RunStore(folder) as store:
        explorer = explorer_of(store, evaluator, Writer())
        explorer.seed([START])
        return list(explorer.rounds(1, ROUNDS)), store.candidate_counts()


def test_a_program_that_the_machine_failed_is_no_candidate(tmp_path):
    plain, _ = explore_on(tmp_path / "plain", Evaluator())
    failing, _ = explore_on(tmp_path / "failing", Failing(every=5))
    assert all(own["lost"] == 0 for own in plain)
    assert sum(own["lost"] for own in failing) > 0
    again, _ = explore_on(tmp_path / "failing", Evaluator())  # from the store
    assert again == failing


def test_a_machine_that_fails_with_every_program_ends_the_run(tmp_path):
    with pytest.raises(InfrastructureError, match="out of memory"):
        explore_on(tmp_path, Failing(every=1))


def test_a_lost_evaluation_is_not_joined_but_made_again(tmp_path):
    with RunStore(tmp_path) as store:
        failing = Failing(every=2)
        cache = ProgramCache(failing, [SPEC], store)
        cache.submit("def f(x):\n    return 1\n")
        lost = cache.submit("def f(x):\n    return 2\n")
        assert isinstance(lost.exception(), InfrastructureError)
        assert cache.submit("def f(x):\n    return 2\n").result().ok


def test_fresh_samples_leave_out_what_the_machine_failed(tmp_path):
    with RunStore(tmp_path) as store:
        explorer = explorer_of(store, Evaluator(), Writer())
        explorer.seed([START])
        (proposal,) = explorer.agent.propose(1, 0, *explorer.agent.parents(1, 0), {"edit_line": 4})
        asked = [again(proposal, 0, store.start())]
        cache = ProgramCache(Failing(every=3), [SPEC], store)
        (group,) = fresh_samples(Writer(), cache, asked, 12, [0])
        assert 0 < len(group) < 12
        with pytest.raises(InfrastructureError):
            fresh_samples(Writer(), ProgramCache(AlwaysFailing(), [SPEC], store), asked, 3, [1])


class AlwaysFailing(Evaluator):
    def submit(self, program, task):
        future = Future()
        future.set_exception(InfrastructureError("out of memory"))
        return future
