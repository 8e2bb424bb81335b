"""Open files: what an evaluation needs, what its worker gets to hold, and that none is left."""

import os

import pytest

from atlas_gym.evaluation import ConfinedEvaluator
from tests.atlas_gym.evaluation.toy import ToyTask

TASK = ToyTask()


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
