"""Evaluators and the processes below them: what is replaced, what is left behind, what dies with whom."""

import os
import signal
import socket
import subprocess
import sys
import textwrap
import time

import pytest

from atlas_gym.evaluation import ConfinedEvaluator, Limits, workers
from atlas_gym.sandbox import wire
from tests.atlas_gym.evaluation.processes import alive, descendants, die_out, open_descriptors
from tests.atlas_gym.evaluation.toy import HONEST, ToyTask

TASK = ToyTask()


@pytest.fixture
def evaluator():
    with ConfinedEvaluator() as evaluator:
        yield evaluator


def test_close_leaves_no_process_and_no_descriptor():
    processes, descriptors = descendants(), open_descriptors()
    evaluator = ConfinedEvaluator()
    for program in (HONEST, "1 / 0", "import os\nos._exit(1)"):
        evaluator.evaluate(program, TASK)
    evaluator.close()
    evaluator.close()
    assert alive(descendants() - processes) == set()
    assert open_descriptors() == descriptors
    with evaluator:
        assert evaluator.evaluate(HONEST, TASK).ok  # it starts anew


def kill(server):
    os.kill(server.pid, signal.SIGKILL)


def kill_the_next_worker(server):
    while not (spares := descendants(server.pid)):
        time.sleep(0.01)
    for spare in spares:
        os.kill(spare, signal.SIGKILL)


def send_nonsense(server):
    server.request(99, 0)
    assert die_out({server.pid})


@pytest.mark.parametrize("what", [kill, kill_the_next_worker, send_nonsense])
def test_dead_fork_servers_and_workers_are_replaced(evaluator, what):
    evaluator.evaluate(HONEST, TASK)
    (server,) = evaluator._servers.values()
    what(server)
    assert evaluator.evaluate(HONEST, TASK).ok


def test_a_forked_copy_of_an_evaluator_gets_its_own_workers(evaluator):
    wanted = evaluator.evaluate(HONEST, TASK).score
    child = os.fork()
    if child == 0:
        code = 1
        try:
            code = 0 if evaluator.evaluate(HONEST, TASK).score == wanted else 2
            evaluator.close()
        finally:
            os._exit(code)
    assert os.waitpid(child, 0)[1] == 0
    assert evaluator.evaluate(HONEST, TASK).score == wanted


HANGS_UP = """
import os, sys, time

def guess(hint, t):
    frame = sys._getframe()
    while "pipe" not in frame.f_locals:
        frame = frame.f_back
    pipe = frame.f_locals["pipe"]
    os.close(pipe._read_fd)
    pipe.send(bytes(16))
    time.sleep(60)
"""


@pytest.mark.parametrize(
    "disposition",
    ["pthread_sigmask(SIG_BLOCK, valid_signals())", "signal(SIGCHLD, SIG_IGN)", "signal(SIGPIPE, SIG_DFL)"],
)
def test_whatever_the_process_does_about_signals(disposition):
    code = f"""
    from signal import *
    from tests.atlas_gym.evaluation.test_lifecycle import HANGS_UP, HONEST, TASK, ConfinedEvaluator
    {disposition}
    before = [pthread_sigmask(SIG_BLOCK, ()), getsignal(SIGCHLD), getsignal(SIGPIPE)]
    with ConfinedEvaluator() as evaluator:
        print(*(evaluator.evaluate(program, TASK).status for program in (HONEST, HANGS_UP, HONEST)))
    print(before == [pthread_sigmask(SIG_BLOCK, ()), getsignal(SIGCHLD), getsignal(SIGPIPE)])
    """
    command = [sys.executable, "-c", textwrap.dedent(code)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.stdout, done.stderr) == ("ok crashed ok\nTrue\n", "")


def test_a_fork_server_that_falls_silent_is_replaced(evaluator, monkeypatch):
    evaluator.evaluate(HONEST, TASK)
    (silent,) = evaluator._servers.values()
    os.kill(silent.pid, signal.SIGSTOP)
    monkeypatch.setattr(workers, "_ANSWER_S", 0.5)
    assert evaluator.evaluate(HONEST, ToyTask(limits=Limits(wall_s=0.5))).ok
    assert silent not in evaluator._servers.values()


@pytest.mark.parametrize(
    "said", [b"\0", bytes(200), b"x" + wire.EXITED.pack(wire.EXIT_MARK, 1, 0, 0, 0.1, 1)]
)
def test_what_a_fork_server_cannot_have_said_is_its_death(evaluator, monkeypatch, said):
    evaluator.evaluate(HONEST, TASK)
    (server,) = evaluator._servers.values()
    monkeypatch.setattr(workers, "_ANSWER_S", 0.5)
    ours, theirs = socket.socketpair()
    with ours, theirs, monkeypatch.context() as patch:
        patch.setattr(server, "_control", ours)
        theirs.sendall(said)
        with pytest.raises(workers.ForkServerFailed):
            server.end(server.prepare())
