"""Open files: what an evaluation needs, what its worker gets to hold, and that none is left."""

import os
import subprocess
import sys
import textwrap

import pytest

from atlas_gym.evaluation import ConfinedEvaluator
from tests.atlas_gym.evaluation.toy import ToyTask

TASK = ToyTask()


def test_without_a_descriptor_for_the_next_worker_an_evaluation_keeps_its_outcome():
    code = """
    import os, resource
    from tests.atlas_gym.evaluation.toy import HONEST, ToyTask
    from atlas_gym.evaluation import ConfinedEvaluator, InfrastructureError
    with ConfinedEvaluator() as evaluator:
        evaluator.evaluate(HONEST, ToyTask())
        resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64))
        taken = []
        try:
            while True:
                taken.append(os.open(os.devnull, os.O_RDONLY))
        except OSError:
            print(evaluator.evaluate(HONEST, ToyTask()).status)
        os.close(taken.pop())  # with those of the last worker, three: too few for two pipes
        try:
            evaluator.evaluate(HONEST, ToyTask())
        except InfrastructureError as error:
            print("Too many open files" in str(error))
        os.close(taken.pop())
        print(evaluator.evaluate(HONEST, ToyTask()).status)
    """
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code)], capture_output=True, text=True, check=False
    )
    assert (done.stdout, done.stderr) == ("ok\nTrue\nok\n", "")


SCAN = """
import fcntl
found = []
for descriptor in range(2000):
    try:
        fcntl.fcntl(descriptor, fcntl.F_GETFD)
        found.append(descriptor)
    except OSError:
        pass
raise ValueError(found)
"""


@pytest.mark.parametrize("inheritable", [False, True])
def test_a_worker_holds_its_pipes_and_nothing_else_however_many_files_are_open(inheritable):
    open_files = [os.open(os.devnull, os.O_RDONLY) for _ in range(500)]
    for descriptor in open_files:
        os.set_inheritable(descriptor, inheritable)
    try:
        with ConfinedEvaluator() as evaluator:
            detail = evaluator.evaluate(SCAN, TASK).detail
    finally:
        for descriptor in open_files:
            os.close(descriptor)
    held = [int(number) for number in detail.partition("[")[2].rstrip("]").split(",")]
    assert held[:3] == [0, 1, 2]
    assert len(held) == 5, detail
