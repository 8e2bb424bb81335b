"""Which layers really hold: a child of the fork server puts them on and tries to break each of them.

What an evaluation reports as its layers is this observation, not a list of calls that were made: kernels
and container runtimes may accept a call and not enforce it.
"""

import errno
import os
import resource
import socket
import traceback
from collections.abc import Callable

from atlas_gym.sandbox.confinement import Confinement, has_capabilities, has_no_new_privs


def held_layers(confinement: Confinement) -> tuple[list[str], int]:
    """The layers that hold in a worker of this fork server, and how large such a worker is (`ru_maxrss`)."""
    read_fd, write_fd = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            os.write(write_fd, " ".join(_observe(confinement)).encode())
        except Exception:  # noqa: BLE001 - a child must not fall back into the fork server's code
            os.write(2, traceback.format_exc().encode())
        finally:
            os._exit(0)
    os.close(write_fd)
    with open(read_fd) as answer:
        held = answer.read().split()
    _, _, usage = os.wait4(pid, 0)
    return sorted(held), usage.ru_maxrss


def _observe(confinement: Confinement) -> list[str]:
    # These two must be looked at before the filter forbids looking.
    held = [] if has_capabilities() else ["capabilities"]
    held += ["no_new_privs"] if has_no_new_privs() else []
    confinement.confine_worker(memory_mb=64, cpu_s=5)
    checks: dict[str, Callable[[], bool]] = {
        "rlimits": lambda: resource.getrlimit(resource.RLIMIT_FSIZE)[1] == 0,
        "landlock": lambda: _refused_with(errno.EACCES, lambda: os.listdir("/")),
    }
    held += [layer for layer, holds in checks.items() if holds()]
    confinement.seal()  # the filter would hide whether Landlock refuses
    sealed = (socket.socket, lambda: os.stat("/"), lambda: os.open(os.devnull, os.O_RDONLY))
    return held + ["seccomp"] * all(_refused_with(errno.EPERM, attempt) for attempt in sealed)


def _refused_with(code: int, attempt: Callable[[], object]) -> bool:
    try:
        attempt()
    except OSError as error:
        return error.errno == code
    return False
