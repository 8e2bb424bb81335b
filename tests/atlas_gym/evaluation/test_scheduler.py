"""The rules by which work survives its evaluator, on evaluators that fail as told."""

import queue
import threading
from concurrent.futures import CancelledError, Future

import pytest

from atlas_gym.evaluation import Evaluation, EvaluatorError, InfrastructureError, Status, scheduler
from atlas_gym.evaluation.local import longest_s
from atlas_gym.evaluation.scheduler import ATTEMPTS, Backlog, Lost, Silent, Slot, Work
from tests.atlas_gym.evaluation.toy import ToyTask

TASK = ToyTask()


class FakeRemote:
    """Answers each program with its number in the order of evaluation, or does what the script says."""

    def __init__(self, cluster):
        self.cluster = cluster
        self.killed = threading.Event()

    def ready(self, wait_s):
        if self.killed.is_set():
            raise Lost("killed")
        self.cluster.act("ready", self)

    def evaluate(self, program, task, wait_s):
        self.cluster.calls.append(program)
        self.cluster.waits.append(wait_s)
        self.cluster.act(program, self)
        return Evaluation(Status.OK, float(len(self.cluster.calls)), detail=program)

    def kill(self):
        self.killed.set()


class FakeCluster:
    """What happens at each `ready` and at each evaluation of a program: a list to be used up, then nothing."""

    def __init__(self, **script):
        self.script = {name: queue.SimpleQueue() for name in script}
        for name, steps in script.items():
            for step in steps:
                self.script[name].put(step)
        self.calls, self.waits, self.remotes = [], [], []

    def launch(self):
        self.remotes.append(FakeRemote(self))
        return self.remotes[-1]

    def act(self, name, remote):
        try:
            step = self.script[name].get_nowait()
        except (KeyError, queue.Empty):
            return
        if isinstance(step, Exception):
            raise step
        step(remote)


@pytest.fixture(autouse=True)
def no_pauses(monkeypatch):
    monkeypatch.setattr(scheduler, "_PAUSE_S", 0.0)


@pytest.fixture
def start():
    """Starts slots on a cluster; ends them afterwards."""
    running = []

    def start(cluster, count=1):
        backlog = Backlog(count)
        running.append((backlog, [Slot(i, backlog, cluster.launch, 7.0, 9.0) for i in range(count)]))
        return backlog

    yield start
    for backlog, started in running:
        backlog.close()
        for slot in started:
            slot.stop()
        for slot in started:
            slot.join()


def submit(backlog, *programs):
    futures = [Future() for _ in programs]
    for program, future in zip(programs, futures, strict=True):
        assert backlog.put(Work(program, TASK, future))
    return futures


def outcomes(futures):
    return [future.result(timeout=30) for future in futures]


def test_work_of_a_lost_evaluator_is_done_once_by_its_successor(start):
    cluster = FakeCluster(b=[Lost("node gone")])
    backlog = start(cluster)
    results = outcomes(submit(backlog, "a", "b", "c"))
    assert [r.detail for r in results] == ["a", "b", "c"]
    assert cluster.calls == ["a", "b", "b", "c"]  # what was lost goes first
    assert [remote.killed.is_set() for remote in cluster.remotes] == [True, False]


def test_silence_counts_as_loss_after_limit_and_patience(start):
    cluster = FakeCluster(a=[Silent("…")])
    (result,) = outcomes(submit(start(cluster), "a"))
    assert result.ok
    assert cluster.waits == [longest_s(TASK.limits) + 7.0] * 2
    assert result.retries == 1


def test_another_slot_takes_over_before_the_replacement_is_up(start):
    lost, replaced = threading.Event(), threading.Event()

    def lose(remote):
        lost.set()
        raise Lost("node gone")

    def only_now(remote):
        if lost.is_set():
            assert replaced.wait(30)

    cluster = FakeCluster(a=[lose], ready=[lambda _: None, lambda _: None, only_now])
    (future,) = submit(start(cluster, count=2), "a")
    assert future.result(timeout=30).ok  # though the third evaluator is not up yet
    replaced.set()


@pytest.mark.parametrize("loss", [Lost("node gone"), Silent("node gone")])
def test_a_program_that_loses_every_evaluator_has_no_evaluation(start, loss):
    cluster = FakeCluster(a=[loss] * ATTEMPTS)
    lost, other = submit(start(cluster), "a", "b")
    with pytest.raises(
        InfrastructureError, match=r"3 evaluators were lost, .* node gone.*The machine is to blame"
    ):
        lost.result(timeout=30)
    assert other.result(timeout=30).ok
    assert cluster.calls == ["a"] * ATTEMPTS + ["b"]


def test_an_evaluator_that_died_while_idle_costs_no_attempt(start, monkeypatch):
    monkeypatch.setattr(scheduler, "_IDLE_S", -1.0)  # ask before every evaluation
    cluster = FakeCluster(ready=[lambda _: None, *[Lost("died"), lambda _: None] * (2 * ATTEMPTS)])
    (result,) = outcomes(submit(start(cluster), "a"))
    assert result.ok
    assert cluster.calls == ["a"]
    assert len(cluster.remotes) == 2 * ATTEMPTS + 1


def test_an_error_of_the_evaluator_reaches_the_caller_and_costs_no_evaluator(start):
    cluster = FakeCluster(a=[EvaluatorError("no landlock here")])
    failed, fine = submit(start(cluster), "a", "b")
    with pytest.raises(EvaluatorError, match="no landlock here"):
        failed.result(timeout=30)
    assert fine.result(timeout=30).ok
    assert len(cluster.remotes) == 1


def test_work_fails_with_the_reason_when_no_slot_can_start():
    backlog = Backlog(2)
    (future,) = submit(backlog, "a")
    backlog.down(0, Lost("no node"))
    assert not future.done()  # the other slot may still come up
    backlog.down(1, Lost("no node either"))
    with pytest.raises(InfrastructureError, match="no node either"):
        future.result(timeout=0)


def test_a_cluster_that_can_never_serve_is_no_failure_of_a_moment():
    backlog = Backlog(1)
    (future,) = submit(backlog, "a")
    backlog.down(0, EvaluatorError("the node has atlas-gym 9"))
    with pytest.raises(EvaluatorError, match="no evaluator could be started: the node has atlas-gym 9"):
        future.result(timeout=0)


def test_a_slot_tries_again_until_there_is_an_evaluator():
    cluster = FakeCluster(ready=[Lost("no node"), Lost("no node")])
    backlog = Backlog(2)  # as if a second slot were still hopeful
    slot = Slot(0, backlog, cluster.launch, 7.0, 9.0)
    (future,) = submit(backlog, "a")
    assert future.result(timeout=30).ok
    assert [remote.killed.is_set() for remote in cluster.remotes] == [True, True, False]
    backlog.close()
    slot.stop()
    slot.join()


def test_closing_cancels_what_waits_and_breaks_off_what_runs():
    began = threading.Event()

    def hang(remote):
        began.set()
        assert remote.killed.wait(30)
        raise Lost("killed")

    cluster = FakeCluster(a=[hang])
    backlog = Backlog(1)
    slot = Slot(0, backlog, cluster.launch, 7.0, 9.0)
    running, waiting = submit(backlog, "a", "b")
    assert began.wait(30)
    backlog.close()
    slot.stop()
    slot.join()
    with pytest.raises(EvaluatorError, match="closed"):
        running.result(timeout=0)
    with pytest.raises(CancelledError):
        waiting.result(timeout=0)
    assert not backlog.put(Work("c", TASK, Future()))
    assert cluster.calls == ["a"]


def test_a_cancelled_program_is_not_evaluated():
    cluster = FakeCluster()
    backlog = Backlog(1)
    cancelled, kept = submit(backlog, "a", "b")
    cancelled.cancel()
    slot = Slot(0, backlog, cluster.launch, 7.0, 9.0)
    assert kept.result(timeout=30).ok
    assert cluster.calls == ["b"]
    backlog.close()
    slot.stop()
    slot.join()
