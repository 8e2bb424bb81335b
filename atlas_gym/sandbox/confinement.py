"""Puts the confinement layers on: first the fork server's own, then each worker's.

| layer | put on | effect |
|---|---|---|
| capabilities | fork server | root keeps its uid but none of its powers |
| no_new_privs | fork server | no set-uid program can give powers back |
| landlock | fork server, worker | reads only below the roots, no TCP, no signals or ptrace to others |
| rlimits | worker | memory, CPU time, file size 0, no new processes, few descriptors, no core dump |
| seccomp | worker | only the system calls of `seccomp.import_filter`, then of `seccomp.program_filter` |

A layer that the machine does not give is left out and its reason kept. Whether the rest is enough is not
decided here: `held_layers` reports what really holds, and the evaluator compares that with its minimum.
"""

import ctypes
import errno
import os
import signal
import socket
import sys
import traceback
from collections.abc import Callable, Collection, Sequence
from typing import TYPE_CHECKING

try:
    import resource
except ModuleNotFoundError:
    raise ImportError(
        "programs are evaluated in Unix processes with resource limits, which this system does not have: use Linux "
        "(on Windows its Subsystem for Linux), or macOS with the unconfined evaluator"
    ) from None

if TYPE_CHECKING:
    from seccompy import Filter

ALL_LAYERS = ("capabilities", "no_new_privs", "landlock", "rlimits", "seccomp")
"""Every layer, in the order in which they are put on."""

_PR_SET_PDEATHSIG, _PR_SET_DUMPABLE, _PR_CAPBSET_DROP = 1, 4, 24
_PR_SET_NO_NEW_PRIVS, _PR_GET_NO_NEW_PRIVS = 38, 39
_CAPABILITY_VERSION_3 = 0x20080522
_DESCRIPTORS = 64
_STACK_BYTES = 8 * 2**20


class Confinement:
    """The layers of one fork server and of the workers it forks."""

    def __init__(self, wanted: Collection[str], read_roots: Sequence[str]) -> None:
        self.missing: dict[str, str] = {}
        """Reason by layer, for the wanted layers that could not be prepared."""
        self._wanted = wanted
        self._read_roots = read_roots
        self._address_space = 0
        self._filters: list[Filter] = []
        self._in_landlock = False

    def enter(self) -> None:
        """Confine the fork server and prepare what its workers put on. Call it once, after all imports."""
        steps: dict[str, Callable[[], object]] = {
            "rlimits": self._note_address_space,
            "seccomp": self._compile_filters,  # imports, so it goes before Landlock
            "capabilities": drop_capabilities,
            "no_new_privs": lambda: _prctl(_PR_SET_NO_NEW_PRIVS, 1),
            "landlock": self._enter_landlock,
        }
        for layer, put_on in steps.items():
            try:
                if layer in self._wanted:
                    put_on()
            except (OSError, ImportError) as error:
                self.missing[layer] = str(error) or type(error).__name__

    def confine_worker(self, memory_mb: int, cpu_s: int) -> None:
        """Confine the calling worker for good. Raises if a prepared layer cannot be put on.

        It can still read below the roots, which importing needs; `seal` ends that.
        """
        if self._address_space:
            _set_limits(self._address_space + memory_mb * 2**20, cpu_s)
        if (
            self._in_landlock
        ):  # a domain per worker: its signals reach neither the fork server nor other workers
            from landlockpy import AccessFS, Ruleset, Scope

            scope = Scope.SIGNAL | Scope.ABSTRACT_UNIX_SOCKET
            with Ruleset(handled_fs=AccessFS.EXECUTE, scoped=scope) as rules:
                rules.restrict()
        if self._filters:
            self._filters[0].load()

    def seal(self) -> None:
        """From here on the calling worker can open and look up no file. Call it before the program runs."""
        if self._filters:
            self._filters[1].load()

    def _note_address_space(self) -> None:
        """The memory budget counts from here. Read now: /proc is out of sight later."""
        with open("/proc/self/statm") as statm:
            self._address_space = int(statm.read().split()[0]) * resource.getpagesize()

    def _enter_landlock(self) -> None:
        from landlockpy import AccessFS, Ruleset

        with Ruleset() as rules:
            for root in self._read_roots:
                listing = AccessFS.READ_DIR if os.path.isdir(root) else AccessFS.NONE
                rules.allow_path(root, AccessFS.READ_FILE | listing)
            rules.restrict()
        self._in_landlock = True

    def _compile_filters(self) -> None:
        from seccompy import supported

        from atlas_gym.sandbox.seccomp import import_filter, program_filter

        if not supported():
            raise OSError("this kernel has no seccomp filters")
        filters = [import_filter(), program_filter()]
        for rules in filters:
            _ = rules.program  # compiled here, once, rather than in every worker
        self._filters = filters


def die_with_parent(by: int = signal.SIGKILL) -> None:
    """Ask the kernel to send this process a signal when the thread that started it ends (Linux only)."""
    if sys.platform == "linux":
        _prctl(_PR_SET_PDEATHSIG, by)


def refuse_debuggers() -> None:
    """Make this process's memory unreadable for other processes of the same user (Linux only)."""
    if sys.platform == "linux":
        _prctl(_PR_SET_DUMPABLE, 0)


def drop_capabilities() -> None:
    """Give up every capability, also those a later program start could regain. Raises `OSError`."""
    libc = ctypes.CDLL(None, use_errno=True)
    for capability in range(64):
        if libc.prctl(_PR_CAPBSET_DROP, *map(ctypes.c_ulong, (capability, 0, 0, 0))) != 0:
            break  # past the last capability, or an ordinary user, who has none to drop
    nothing = (ctypes.c_uint32 * 6)()  # effective, permitted, inheritable; two words each
    if libc.capset(_capability_header(), nothing) != 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))


def has_capabilities() -> bool:
    """Whether this process holds any capability, or cannot tell."""
    held = (ctypes.c_uint32 * 6)()
    if sys.platform != "linux" or ctypes.CDLL(None).capget(_capability_header(), held) != 0:
        return True
    return any(held)


def has_no_new_privs() -> bool:
    """Whether no program this process starts can gain privileges."""
    if sys.platform != "linux":
        return False
    nothing = map(ctypes.c_ulong, (0, 0, 0, 0))
    return bool(ctypes.CDLL(None).prctl(_PR_GET_NO_NEW_PRIVS, *nothing) == 1)


def _capability_header() -> ctypes.Array[ctypes.c_uint32]:
    return (ctypes.c_uint32 * 2)(_CAPABILITY_VERSION_3, 0)


def _prctl(option: int, value: int) -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(option, *map(ctypes.c_ulong, (value, 0, 0, 0))) != 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))


def _set_limits(address_space: int, cpu_s: int) -> None:
    limits = {
        resource.RLIMIT_AS: address_space,
        resource.RLIMIT_STACK: _STACK_BYTES,
        resource.RLIMIT_NOFILE: _DESCRIPTORS,
        resource.RLIMIT_FSIZE: 0,
        resource.RLIMIT_CORE: 0,
        resource.RLIMIT_NPROC: 0,
        resource.RLIMIT_MEMLOCK: 0,
        resource.RLIMIT_CPU: cpu_s,  # ends in SIGKILL: a signal before it could be ignored, and time be won
    }
    for name, wanted in limits.items():
        present = resource.getrlimit(name)[1]
        lower = wanted if present == resource.RLIM_INFINITY else min(wanted, present)
        resource.setrlimit(name, (lower, lower))


def held_layers(confinement: Confinement) -> tuple[list[str], int]:
    """The layers that hold in a worker of this fork server, and how large such a worker is (`ru_maxrss`).

    A child puts them on and tries to break each: kernels and container runtimes may accept a call without effect.
    """
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
