"""The counterpart: the same attacks against a plain `exec` in the evaluator's own process.

`python -m tests.hostile.plain ENV_ID` prints, as JSON, what each attack achieved. Every attack gets a
sacrificial evaluator (a process of its own, in a session and mount namespace of its own) and a sacrificial
parent for it; what is bounded in the catalogue is bounded here by nothing else.
"""

import contextlib
import ctypes
import json
import os
import resource
import select
import signal
import sys
from collections.abc import Callable, Sequence
from functools import partial
from typing import NoReturn

from atlas_gym.evaluation import Evaluation, Status
from tests.hostile.attack import Attack, Seat
from tests.hostile.catalogue import ATTACKS
from tests.hostile.scene import Scene, orphans
from tests.hostile.seats import SEATS

LIMIT_S = 0.3
_ADDRESS_SPACE = 4 * 2**30
_SURVIVED = 42

Play = Callable[[str], tuple[float | None, str]]


def run(seat: Seat, play: Play | None = None, attacks: Sequence[Attack] = ATTACKS) -> dict[str, list[str]]:
    """What every attack achieved against plain calls, by the attack's name.

    `play`: score and error text of a program, in place of plain calls: another evaluator that confines nothing.
    """
    achieved = {}
    with Scene() as scene:
        honest = seat.play_bare(seat.honest, seat.task)
        for attack in filter(lambda attack: attack.works_here, attacks):
            evaluation, disasters = _evaluate(seat, attack, scene, play or partial(_play, seat))
            achieved[attack.name] = disasters + scene.harm(evaluation, honest, LIMIT_S)
            for pid in orphans(patience_s=0.0):
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
    return achieved


def _evaluate(seat: Seat, attack: Attack, scene: Scene, play: Play) -> tuple[Evaluation, list[str]]:
    read_fd, write_fd = os.pipe()
    parent = os.fork()
    if parent == 0:
        _be_parent(seat.program(attack, scene), play, write_fd)
    os.close(write_fd)
    hung = not _ends_within(parent, 2 * LIMIT_S)
    left = ["left a process behind"] if not hung and orphans(patience_s=0.0) else []
    with contextlib.suppress(ProcessLookupError):
        os.killpg(parent, signal.SIGKILL)
    _, status = os.waitpid(parent, 0)
    report = _read(read_fd)
    disasters = left
    if hung:
        disasters.append("hung the evaluator")
    elif os.waitstatus_to_exitcode(status) != _SURVIVED:
        disasters.append("took the evaluator down")
    try:
        score, detail = json.loads(report) if report else (None, "")
    except ValueError:
        score, detail = None, ""
        disasters.append("forged the report")
    ok = isinstance(score, float)
    evaluation = Evaluation(Status.OK if ok else Status.ERROR, score if ok else None, str(detail))
    return evaluation, disasters


def _be_parent(program: str, play: Play, write_fd: int) -> NoReturn:
    """The process that an attack may kill by killing its parent."""
    os.setsid()
    child = os.fork()
    if child == 0:
        _be_evaluator(program, play, write_fd)
    _, status = os.waitpid(child, 0)
    code = os.waitstatus_to_exitcode(status)
    os._exit(code if code >= 0 else 1)


def _be_evaluator(program: str, play: Play, write_fd: int) -> NoReturn:
    null = os.open("/dev/null", os.O_RDWR)
    for standard in (0, 1, 2):
        os.dup2(null, standard)
    os.closerange(3, write_fd)
    os.closerange(write_fd + 1, 256)
    if os.getuid() == 0:  # an attack that mounts something mounts it in a namespace of its own
        libc = ctypes.CDLL(None)
        if libc.unshare(0x20000) != 0 or libc.mount(b"none", b"/", None, 0x44000, None) != 0:
            os._exit(_SURVIVED)
    resource.setrlimit(resource.RLIMIT_AS, (_ADDRESS_SPACE, _ADDRESS_SPACE))
    exit_code = 1
    try:
        report = play(program)
        os.write(write_fd, json.dumps(report).encode())
        exit_code = _SURVIVED
    finally:
        os._exit(exit_code)


def _play(seat: Seat, program: str) -> tuple[float | None, str]:
    """Score and error text. An evaluator without confinement catches what `except Exception` catches."""
    try:
        return seat.play_bare(program, seat.task), ""
    except Exception as error:  # noqa: BLE001 - the program's mistakes
        return None, str(error)


def _ends_within(pid: int, seconds: float) -> bool:
    descriptor = os.pidfd_open(pid)
    try:
        return bool(select.select([descriptor], [], [], seconds)[0])
    finally:
        os.close(descriptor)


def _read(descriptor: int) -> bytes:
    os.set_blocking(descriptor, False)
    with open(descriptor, "rb", buffering=0) as pipe:
        return pipe.read(1 << 20) or b""


if __name__ == "__main__":
    print(json.dumps(run(SEATS[sys.argv[1]]())))
