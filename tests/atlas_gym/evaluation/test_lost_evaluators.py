"""The rules by which a program survives its evaluator, on evaluators that fail as told."""

import queue
import threading

import pytest

from atlas_gym.evaluation import Evaluation, EvaluatorError, InfrastructureError, Status, pool
from atlas_gym.evaluation.pool import Lost, Pool
from atlas_gym.evaluation.result import ATTEMPTS
from tests.atlas_gym.evaluation.toy import ToyTask

TASK = ToyTask()


class FakeRemote:
    """Answers each program with its number in the order of evaluation, or does what the script says."""

    def __init__(self, cluster):
        self.cluster = cluster
        self.killed = threading.Event()

    def ready(self, wait_s):
        self.cluster.act("ready", self)

    def evaluate(self, program, task, wait_s):
        self.cluster.calls.append(program)
        self.cluster.act(program, self)
        return Evaluation(Status.OK, float(len(self.cluster.calls)), detail=program)

    def stop(self):
        self.killed.set()

    kill = stop


class FakeCluster:
    """What happens at each `ready` and at each evaluation of a program: a list to be used up, then nothing."""

    def __init__(self, **script):
        self.script = {name: queue.SimpleQueue() for name in script}
        for name, steps in script.items():
            for step in steps:
                self.script[name].put(step)
        self.calls, self.remotes = [], []

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
    monkeypatch.setattr(pool, "_PAUSE_S", 0.0)


@pytest.fixture
def start():
    """Starts pools on a cluster; closes them afterwards."""
    running = []

    def start(cluster, count=1):
        running.append(Pool([cluster.launch] * count))
        return running[-1]

    yield start
    for started in running:
        started.close()


def submit(pool, *programs):
    return [pool.submit(program, TASK) for program in programs]


def outcomes(futures):
    return [future.result(timeout=30) for future in futures]


def test_the_program_of_a_lost_evaluator_is_done_once_by_its_successor(start):
    cluster = FakeCluster(b=[Lost("node gone")])
    results = outcomes(submit(start(cluster), "a", "b", "c"))
    assert [(r.detail, r.retries) for r in results] == [("a", 0), ("b", 1), ("c", 0)]
    assert cluster.calls == ["a", "b", "b", "c"]  # what was lost goes first
    assert [remote.killed.is_set() for remote in cluster.remotes] == [True, False]


def test_another_evaluator_takes_over_before_the_replacement_is_up(start):
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


def test_a_program_that_loses_every_evaluator_has_no_evaluation(start):
    cluster = FakeCluster(a=[Lost("node gone")] * ATTEMPTS)
    lost, other = submit(start(cluster), "a", "b")
    with pytest.raises(InfrastructureError, match="node gone"):
        lost.result(timeout=30)
    assert other.result(timeout=30).ok
    assert cluster.calls == ["a"] * ATTEMPTS + ["b"]


def test_programs_wait_while_one_may_still_come_up_and_fail_when_none_can(start, monkeypatch):
    monkeypatch.setattr(pool, "_PAUSE_S", 0.05)
    hopeful = threading.Event()

    class NoNodes(FakeCluster):
        def act(self, name, remote):
            if remote is self.remotes[0]:
                assert hopeful.wait(30)
            raise Lost("no node")

    (future,) = submit(start(NoNodes(), count=2), "a")
    with pytest.raises(TimeoutError):
        future.result(timeout=0.2)
    hopeful.set()
    with pytest.raises(InfrastructureError, match="no node"):
        future.result(timeout=30)


def test_a_cluster_that_can_never_serve_is_no_failure_of_a_moment(start):
    def other_version(remote):
        raise EvaluatorError("the node has atlas-gym 9")

    (future,) = submit(start(FakeCluster(ready=[other_version] * 10_000)), "a")
    with pytest.raises(EvaluatorError, match="no evaluator could be started: the node has atlas-gym 9"):
        future.result(timeout=30)


def test_a_system_that_refuses_a_process_for_a_moment_fails_nothing(start):
    cluster = FakeCluster(ready=[OSError("no process")] * (ATTEMPTS - 1))
    (result,) = outcomes(submit(start(cluster), "a"))
    assert (result.ok, result.retries) == (True, 0)
    assert [remote.killed.is_set() for remote in cluster.remotes] == [True, True, False]


def test_a_cancelled_program_is_not_evaluated(start):
    up = threading.Event()
    cluster = FakeCluster(ready=[lambda _: up.wait(30) and None])
    cancelled, kept = submit(start(cluster), "a", "b")
    cancelled.cancel()
    up.set()
    assert kept.result(timeout=30).ok
    assert cluster.calls == ["b"]
