"""Every way a program can end gets its status, under confinement."""

import pytest

import atlas_gym
from atlas_gym.evaluation import Limits, Status
from tests.atlas_gym.evaluation.toy import HONEST, LAZY, ToyTask

TASK = ToyTask(limits=Limits(wall_s=1.0, cpu_s=5.0, memory_mb=128))

CASES = {
    "honest": (HONEST, Status.OK, ""),
    "lazy": (LAZY, Status.OK, ""),
    "unparsable": ("def guess(:", Status.INVALID, "line 1: invalid syntax"),
    "no function": ("x = 1", Status.INVALID, "it does not define guess"),
    "too long": ("#" * 70_000, Status.INVALID, "65536 are allowed"),
    "not unicode": ("x = '\ud800'", Status.INVALID, "not valid Unicode"),
    "null character": ("x = 1\0", Status.INVALID, "null bytes"),
    "raises at load": ("1 / 0", Status.ERROR, "line 1, in <module>: 1 / 0\nZeroDivisionError: div"),
    "raises later": ("def guess(hint, t):\n    return 1 / t", Status.ERROR, "line 2, in guess: return 1 / t"),
    "raises behind a form feed": (
        "x = '\u2028'\n\f\n1 / 0",
        Status.ERROR,
        "line 3, in <module>: 1 / 0\nZeroDivision",
    ),
    "wrong type": ("def guess(hint, t): return 'a'", Status.ERROR, "could not convert"),
    "not finite": ("def guess(hint, t): return float('nan')", Status.ERROR, "the guess is not finite"),
    "an import that exits, never reached": (f"if 0 > 1:\n    import venv.__main__\n{HONEST}", Status.OK, ""),
    "sys.exit": ("import sys\nsys.exit(3)", Status.ERROR, "called sys.exit(3)"),
    "os._exit": ("import os\nos._exit(0)", Status.CRASHED, "exit code 0"),
    "endless": ("while True: pass", Status.TIMEOUT, "no answer within 1 s"),
    "big": ("x = bytearray(1 << 30)", Status.MEMORY, "MemoryError"),
    "null pointer": ("import ctypes\nctypes.string_at(0)", Status.CRASHED, "SIGSEGV"),
    "write": ("open('/tmp/atlas-gym-marker', 'w')", Status.VIOLATION, "PermissionError"),
    "read": ("open('/etc/passwd')", Status.VIOLATION, "PermissionError"),
    "fork": ("import os\nos.fork()", Status.VIOLATION, "PermissionError"),
    "signal": ("import os\nos.kill(os.getppid(), 9)", Status.VIOLATION, "forbidden system call"),
    "thread": ("import threading\nthreading.Thread(target=print).start()", Status.VIOLATION, "new thread"),
}


DRIBBLING = """
import os, struct
def priority(item, bins):
    for descriptor in range(3, 64):
        try:
            os.write(descriptor, struct.pack("<BxxxI", 0, 8 * 2**20))
            break
        except OSError:
            pass
    while True:
        os.write(descriptor, bytes(1))
"""
"""It announces a long answer and computes; the judge, on the same core, always has a byte to read."""


@pytest.mark.parametrize("name", CASES)
def test_each_end_has_its_status(evaluator, name):
    program, status, text = CASES[name]
    evaluation = evaluator.evaluate(program, TASK)
    assert evaluation.status is status, evaluation.detail
    assert text in evaluation.detail
    assert (evaluation.score is not None) == evaluation.ok == (status is Status.OK)


def test_a_program_cannot_stop_its_clock(evaluator):
    task = atlas_gym.make_task(
        "ATLAS-BinPacking-v0", items=40, count=2, limits={"wall_s": 1.0, "cpu_s": 30.0}
    )
    evaluation = evaluator.evaluate(DRIBBLING, task)
    assert evaluation.status is Status.TIMEOUT, evaluation.detail
    assert evaluation.cpu_s < 2.0
