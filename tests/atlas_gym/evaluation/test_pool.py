"""The pool of processes: order, isolation of programs from each other, survival, and that nothing is left behind."""

import contextlib
import gc
import multiprocessing
import os
import signal
import subprocess
import sys
import textwrap
import threading
import time
from concurrent.futures import CancelledError
from dataclasses import replace
from pathlib import Path

import pytest

from atlas_gym.evaluation import EvaluatorError, EvaluatorPool, Limits, server
from tests.atlas_gym.evaluation.processes import alive, descendants, die_out, open_descriptors
from tests.atlas_gym.evaluation.toy import HONEST, ToyTask, play_bare

TASK = ToyTask(limits=Limits(wall_s=2.0, cpu_s=5.0))
ENDLESS = "while True: pass"


@pytest.fixture(scope="module")
def shared_pool():
    with EvaluatorPool(2) as pool:
        yield pool


def processes_of(pool):
    """Process ids of the evaluators and of all below them."""
    evaluators = {remote.pid for remote in pool._crew._remotes.values()}
    return evaluators.union(*map(descendants, evaluators))


def test_results_keep_the_order_and_an_endless_program_holds_one_evaluator_only(shared_pool):
    endless = shared_pool.submit(ENDLESS, replace(TASK, limits=Limits(wall_s=4.0, cpu_s=30.0)))
    programs = [f"def guess(hint, t): return {k}.0 * hint" for k in range(12)]
    scores = [evaluation.score for evaluation in shared_pool.map(programs, TASK)]
    assert scores == [play_bare(program, TASK) for program in programs]
    assert endless.result().status == "timeout"


@pytest.fixture
def kept(monkeypatch):
    """The cores that `own_core` chose, of two that nobody else has."""
    kept = []
    monkeypatch.setattr(server, "usable_cores", lambda: [3, 5])
    monkeypatch.setattr(server.os, "sched_setaffinity", lambda _, cores: kept.append(cores), raising=False)
    monkeypatch.setattr(server, "_NAME", f"a test's {os.getpid()}")
    return kept


def test_evaluators_of_all_pools_spread_over_the_cores(kept):
    with contextlib.ExitStack() as first:
        for _ in range(3):
            first.enter_context(server.own_core(0, 1))
    with server.own_core(0, 1):  # their names are free again
        pass
    assert kept == [{3}, {5}, {3}, {3}]


def test_close_breaks_off_what_runs_cancels_what_waits_and_leaves_nothing():
    descriptors, threads = open_descriptors(), threading.active_count()
    pool = EvaluatorPool(1)
    pool.map([HONEST, "1 / 0", "import os\nos._exit(1)", HONEST], TASK)
    endless = replace(TASK, limits=Limits(wall_s=60.0, cpu_s=60.0))
    running, waiting = pool.submit(ENDLESS, endless), pool.submit(HONEST, TASK)
    while not running.running():
        time.sleep(0.01)
    everything = processes_of(pool)
    pool.close()
    pool.close()
    with pytest.raises(EvaluatorError, match="closed"):
        running.result()
    with pytest.raises(CancelledError):
        waiting.result()
    with pytest.raises(RuntimeError, match="closed"):
        pool.submit(HONEST, TASK)
    assert alive(everything) == set()
    assert (open_descriptors(), threading.active_count()) == (descriptors, threads)


def test_a_forgotten_pool_closes_itself():
    pool = EvaluatorPool(1)
    pool.evaluate(HONEST, TASK)
    everything = processes_of(pool)
    del pool
    gc.collect()
    assert alive(everything) == set()


SCRIPT = """
import os, time
from atlas_gym.evaluation import EvaluatorPool, Limits
from tests.atlas_gym.evaluation.toy import HONEST, ToyTask
pool = EvaluatorPool(2)
assert all(e.ok for e in pool.map([HONEST] * 4, ToyTask()))
"""


def test_the_interpreter_may_end_without_close():
    done = subprocess.run([sys.executable, "-c", SCRIPT], capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_nothing_survives_a_killed_owner():
    code = SCRIPT + textwrap.dedent("""
    if os.fork() == 0:  # a copy that holds the sockets open
        time.sleep(60)
    future = pool.submit("while True: pass", ToyTask(limits=Limits(wall_s=60, cpu_s=60)))
    while not future.running():
        time.sleep(0.01)
    print("ready", flush=True)
    time.sleep(60)
    """)
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE) as owner:
        assert owner.stdout.readline() == b"ready\n"
        below = descendants(owner.pid)
        command = {pid: Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0") for pid in below}
        copy = {pid for pid, words in command.items() if b"-c" in words}
        owner.kill()
        assert len(copy) == 1
        assert len(below - copy) >= 3  # two evaluators, at least one fork server
        assert die_out(below - copy)
        os.kill(*copy, signal.SIGKILL)


def _evaluate_in_daemon(results):
    with EvaluatorPool(1) as pool:
        results.put(pool.evaluate(HONEST, TASK).score)


def test_pools_work_in_daemonic_processes():
    context = multiprocessing.get_context("spawn")
    results = context.Queue()
    process = context.Process(target=_evaluate_in_daemon, args=(results,), daemon=True)
    process.start()
    assert results.get(timeout=60) == play_bare(HONEST, TASK)
    process.join()


def test_a_fork_of_the_owner_is_refused(shared_pool):
    child = os.fork()
    if child == 0:
        code = 1
        try:
            shared_pool.submit(HONEST, TASK)
        except RuntimeError:
            code = 0
        finally:
            os._exit(code)
    assert os.waitpid(child, 0)[1] == 0
    assert shared_pool.evaluate(HONEST, TASK).ok
