"""The rules by which work survives its evaluator, on evaluators that fail as told."""

import queue
import subprocess
import sys
import threading
from concurrent.futures import CancelledError, Future

import pytest

from atlas_gym.evaluation import Evaluation, EvaluatorError, InfrastructureError, Status, scheduler
from atlas_gym.evaluation.protocols import ATTEMPTS, Lost
from atlas_gym.evaluation.scheduler import Supervisor, longest_s
from atlas_gym.evaluation.work_queue import Work, WorkQueue
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
    """Starts supervisors on a cluster; ends them afterwards."""
    running = []

    def start(cluster, count=1):
        work_queue = WorkQueue(count)
        running.append((work_queue, [Supervisor(i, work_queue, cluster.launch) for i in range(count)]))
        return work_queue

    yield start
    for work_queue, started in running:
        work_queue.close()
        for supervisor in started:
            supervisor.stop()
        for supervisor in started:
            supervisor.join()


def submit(work_queue, *programs):
    futures = [Future() for _ in programs]
    for program, future in zip(programs, futures, strict=True):
        assert work_queue.put(Work(program, TASK, future))
    return futures


def outcomes(futures):
    return [future.result(timeout=30) for future in futures]


def test_work_of_a_lost_evaluator_is_done_once_by_its_successor(start):
    cluster = FakeCluster(b=[Lost("node gone")])
    work_queue = start(cluster)
    results = outcomes(submit(work_queue, "a", "b", "c"))
    assert [r.detail for r in results] == ["a", "b", "c"]
    assert cluster.calls == ["a", "b", "b", "c"]  # what was lost goes first
    assert [remote.killed.is_set() for remote in cluster.remotes] == [True, False]


def test_silence_counts_as_loss_after_limit_and_patience(start):
    cluster = FakeCluster(a=[Lost("…")])
    (result,) = outcomes(submit(start(cluster), "a"))
    assert result.ok
    assert cluster.waits == [longest_s(TASK.limits) + scheduler._PATIENCE_S] * 2
    assert result.retries == 1


def test_another_supervisor_takes_over_before_the_replacement_is_up(start):
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


def test_work_fails_with_the_reason_when_no_supervisor_can_start():
    work_queue = WorkQueue(2)
    (future,) = submit(work_queue, "a")
    work_queue.down(0, Lost("no node"))
    assert not future.done()  # the other supervisor may still come up
    work_queue.down(1, Lost("no node either"))
    with pytest.raises(InfrastructureError, match="no node either"):
        future.result(timeout=0)


def test_a_cluster_that_can_never_serve_is_no_failure_of_a_moment():
    work_queue = WorkQueue(1)
    (future,) = submit(work_queue, "a")
    work_queue.down(0, EvaluatorError("the node has atlas-gym 9"))
    with pytest.raises(EvaluatorError, match="no evaluator could be started: the node has atlas-gym 9"):
        future.result(timeout=0)


def test_a_supervisor_tries_again_until_there_is_an_evaluator():
    cluster = FakeCluster(ready=[Lost("no node"), Lost("no node")])
    work_queue = WorkQueue(2)  # as if a second supervisor were still hopeful
    supervisor = Supervisor(0, work_queue, cluster.launch)
    (future,) = submit(work_queue, "a")
    assert future.result(timeout=30).ok
    assert [remote.killed.is_set() for remote in cluster.remotes] == [True, True, False]
    work_queue.close()
    supervisor.stop()
    supervisor.join()


def test_a_system_that_refuses_a_process_for_a_moment_fails_nothing(start):
    cluster = FakeCluster(ready=[OSError("no process")] * (ATTEMPTS - 1))
    (result,) = outcomes(submit(start(cluster), "a"))
    assert (result.ok, result.retries) == (True, 0)


def test_a_system_that_refuses_every_process_is_to_blame(start):
    class Refusing(FakeCluster):
        def launch(self):
            raise OSError("no process")

    (future,) = submit(start(Refusing()), "a")
    with pytest.raises(InfrastructureError, match=r"no evaluator could be started: no process\. The machine"):
        future.result(timeout=30)


def test_closing_cancels_what_waits_and_breaks_off_what_runs():
    began = threading.Event()

    def hang(remote):
        began.set()
        assert remote.killed.wait(30)
        raise Lost("killed")

    cluster = FakeCluster(a=[hang])
    work_queue = WorkQueue(1)
    supervisor = Supervisor(0, work_queue, cluster.launch)
    running, waiting = submit(work_queue, "a", "b")
    assert began.wait(30)
    work_queue.close()
    supervisor.stop()
    supervisor.join()
    with pytest.raises(EvaluatorError, match="closed"):
        running.result(timeout=0)
    with pytest.raises(CancelledError):
        waiting.result(timeout=0)
    assert not work_queue.put(Work("c", TASK, Future()))
    assert cluster.calls == ["a"]


def test_a_cancelled_program_is_not_evaluated():
    cluster = FakeCluster()
    work_queue = WorkQueue(1)
    cancelled, kept = submit(work_queue, "a", "b")
    cancelled.cancel()
    supervisor = Supervisor(0, work_queue, cluster.launch)
    assert kept.result(timeout=30).ok
    assert cluster.calls == ["b"]
    work_queue.close()
    supervisor.stop()
    supervisor.join()


def test_a_pool_without_a_thread_for_each_evaluator_leaves_none(monkeypatch):
    cluster = FakeCluster()
    begin = threading.Thread.start
    started = []

    def start_one(thread):
        if started:
            raise RuntimeError("can't start new thread")
        started.append(thread)
        begin(thread)

    monkeypatch.setattr(threading.Thread, "start", start_one)
    with pytest.raises(RuntimeError, match="can't start new thread"):
        scheduler.Pool([cluster.launch] * 2)
    assert not started[0].is_alive()
    assert all(remote.killed.is_set() for remote in cluster.remotes)


HANGS_UP = """
import signal, socket
from atlas_gym.evaluation.scheduler import Pool
from atlas_gym.evaluation.protocols import Lost
from tests.atlas_gym.evaluation.test_scheduler import TASK, FakeCluster, FakeRemote

def send_to_nobody(remote):
    ours, theirs = socket.socketpair()
    theirs.close()
    try:
        ours.sendall(b"x")
    except BrokenPipeError:
        raise Lost("it hung up")

signal.signal(signal.SIGPIPE, signal.SIG_DFL)
with Pool([FakeCluster(program=[send_to_nobody]).launch]) as pool:
    print(pool.evaluate("program", TASK).retries)
"""


def test_an_evaluator_that_hangs_up_is_lost_also_where_sigpipe_ends_the_process():
    done = subprocess.run([sys.executable, "-c", HANGS_UP], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, "1\n")
