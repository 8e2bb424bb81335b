"""What the machine does wrong is no program's fault: it is tried again, counted, and raised in the end."""

import contextlib
import os
import signal
import time
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from atlas_gym.evaluation import (
    ConfinedEvaluator,
    EvaluatorPool,
    InfrastructureError,
    Limits,
    Status,
    evaluator,
    workers,
)
from atlas_gym.evaluation.workers import Exit, ForkServerHandle, failure_from_exit
from atlas_gym.sandbox.wire import KILLED_BY_WATCHDOG, KILLED_ON_REQUEST, KILLERS, NOT_KILLED
from tests.atlas_gym.evaluation.processes import descendants
from tests.atlas_gym.evaluation.toy import HONEST, ToyTask, play_bare

TASK = ToyTask()
SLEEPING = "import time\ntime.sleep(1000)\n"


@dataclass(frozen=True)
class OutOfMemoryTask(ToyTask):
    """As if the machine ran out of memory: the workers of this process are killed, the first `kills` times."""

    kills: int = 1
    counted_in: str = ""

    def judge(self, channel):
        with open(self.counted_in, "a") as file:
            file.write("x")
        if os.path.getsize(self.counted_in) <= self.kills:
            for worker in set().union(*map(descendants, descendants())):
                with contextlib.suppress(ProcessLookupError):  # it has ended with the one before
                    os.kill(worker, signal.SIGKILL)
        return super().judge(channel)


@dataclass(frozen=True)
class StoppedTask(ToyTask):
    """Its evaluator is stopped, as by Ctrl-Z or a batch system that suspends jobs."""

    written_to: str = ""

    def judge(self, channel):
        with open(self.written_to, "w") as file:
            file.write(f"{os.getpid()}\n")
        os.kill(os.getpid(), signal.SIGSTOP)
        return super().judge(channel)


@pytest.fixture
def confined(monkeypatch):
    monkeypatch.setattr(evaluator, "_PAUSE_S", 0.0)
    with ConfinedEvaluator() as one:
        yield one


def test_a_worker_killed_from_outside_is_tried_again(confined, tmp_path):
    evaluation = confined.evaluate(HONEST, OutOfMemoryTask(kills=2, counted_in=str(tmp_path / "calls")))
    assert (evaluation.score, evaluation.retries) == (play_bare(HONEST, TASK), 2)


def test_a_machine_without_memory_raises_after_a_few_attempts(confined, tmp_path):
    task = OutOfMemoryTask(kills=99, counted_in=str(tmp_path / "calls"))
    with pytest.raises(InfrastructureError, match="killed from outside"):
        confined.evaluate(HONEST, task)
    assert os.path.getsize(task.counted_in) == 3


@pytest.mark.parametrize(
    ("started", "error", "said"),
    [
        ("subprocess.Popen", OSError(11, "Resource temporarily unavailable"), "no worker .*unavailable"),
        ("threading.Thread.start", RuntimeError("can't start new thread"), "no thread .*new thread"),
    ],
)
def test_no_process_or_thread_to_be_had_is_no_fault_of_the_program(
    started, error, said, confined, monkeypatch
):
    def refuse(*_, **__):
        raise error

    monkeypatch.setattr(started, refuse)
    with pytest.raises(InfrastructureError, match=said):
        confined.evaluate(HONEST, TASK)


def test_a_worker_that_never_says_ready_is_no_fault_of_the_program(confined, monkeypatch):
    prepare = ForkServerHandle.prepare

    def prepare_dead(self):
        worker = prepare(self)
        while not (forked := descendants(self.pid)):
            time.sleep(0.01)
        for pid in forked:
            os.kill(pid, signal.SIGKILL)
        return worker

    monkeypatch.setattr(ForkServerHandle, "prepare", prepare_dead)
    with pytest.raises(InfrastructureError, match="a worker ended early"):
        confined.evaluate(HONEST, TASK)


def test_time_in_which_an_evaluator_was_stopped_is_not_the_programs(tmp_path):
    limits = Limits(wall_s=2.0)
    task = StoppedTask(limits=limits, written_to=str(tmp_path / "evaluator"))
    program = HONEST.replace("    return", "    if t == 19:\n        time.sleep(0.3)\n    return")
    with EvaluatorPool(1) as pool:
        future = pool.submit(f"import time\n{program}", task)
        while not (pid := written(tmp_path / "evaluator")) or state(pid) != "T":
            time.sleep(0.01)
        time.sleep(1.2 * limits.wall_s)
        os.kill(int(pid), signal.SIGCONT)
        assert future.result().status is Status.OK


def written(path):
    return path.read_text() if path.exists() else ""


def state(pid):
    return Path(f"/proc/{int(pid)}/stat").read_text().rpartition(")")[2].split()[0]


@pytest.mark.parametrize(
    ("number", "killed", "status"),
    [
        (signal.SIGRTMIN + 3, NOT_KILLED, Status.CRASHED),
        (signal.SIGSEGV, NOT_KILLED, Status.CRASHED),
        *((signal.SIGSYS, killed, Status.VIOLATION) for killed in KILLERS),
        (signal.SIGKILL, KILLED_BY_WATCHDOG, Status.TIMEOUT),
        (signal.SIGKILL, KILLED_ON_REQUEST, Status.CRASHED),
    ],
)
def test_what_a_worker_dies_of_counts_more_than_who_told_it_to_die_meanwhile(number, killed, status):
    assert failure_from_exit(Exit(int(number), killed, 0.0, 0), Limits(), 0).status is status


# --- a busy machine -------------------------------------------------------------------------------------------


def test_a_machine_too_busy_for_anything_is_no_fault_of_the_program(confined, monkeypatch):
    monkeypatch.setattr(workers, "STARVED", 0.005)  # as if everything had been waited for
    with pytest.raises(InfrastructureError, match=r"the machine is too busy|a worker ended early"):
        confined.evaluate(SLEEPING, replace(TASK, limits=Limits(wall_s=100.0)))
