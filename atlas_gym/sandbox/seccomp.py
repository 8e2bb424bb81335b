"""The system calls a worker may make, as two seccomp filters: while it imports, and while the program runs.

Allow lists: whatever is not named here fails with EPERM, which a program sees as `PermissionError`. Calls
that no honest program makes by accident (attacks on other processes, starting programs) kill the worker.
Everything a numpy or torch computation needs is there: private memory, time, its own signals, and the two
pipes. Threads and processes are not. Nor, while the program runs, are files and their names: whatever a
program can look up, read or map, another one can notice later or beside it (access times, cached pages,
cached names, shared locks), so it could be written on.
"""

import errno
import os

from seccompy import Action, ArgCmp, CmpOp, Filter, syscall_nr

_ALWAYS = """
    brk munmap mprotect mremap getrandom gettimeofday time times nanosleep
    getpid getppid gettid getuid geteuid getgid getegid uname getcpu getcwd
    rt_sigaction rt_sigprocmask rt_sigreturn sigaltstack set_robust_list rseq restart_syscall exit exit_group
    read readv pread64 write writev close lseek fstat poll ppoll select pselect6
"""
_FILES = """
    newfstatat fstatat stat lstat statx access faccessat faccessat2 readlink readlinkat getdents64
"""
_KILLED = """
    ptrace process_vm_readv process_vm_writev kill tkill rt_sigqueueinfo rt_tgsigqueueinfo pidfd_open
    pidfd_send_signal pidfd_getfd execve execveat io_uring_setup bpf perf_event_open userfaultfd mount unshare
    setns keyctl add_key request_key init_module finit_module kexec_load reboot
"""
_WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND | getattr(os, "O_TMPFILE", 0)
_FCNTL_READS = (1, 2, 3, 1030)
"""F_GETFD, F_SETFD, F_GETFL, F_DUPFD_CLOEXEC: what Python's file objects use."""
_ADVICE = (4, 8, 14, 15, 16)
"""DONTNEED, FREE, HUGEPAGE, NOHUGEPAGE, DONTDUMP: what allocators use. None of them moves a file's pages."""
_FUTEX_PRIVATE = 128
_MAP_TYPE, _MAP_PRIVATE, _MAP_ANONYMOUS = 0x0F, 0x02, 0x20
_SET_NO_NEW_PRIVS = 38
_LAST_OWN_CLOCK = 11
"""CLOCK_TAI. Greater numbers, taken as unsigned, are other processes' CPU times and devices."""


def import_filter() -> Filter:
    """The filter under which a program is compiled and its imports are met; not yet loaded."""
    rules = _computing()
    for name in filter(_exists, _FILES.split()):
        rules.allow(name)
    for name, flags in (("open", 1), ("openat", 2)):
        if _exists(name):  # reading only; Landlock says where
            rules.allow(name, args=[ArgCmp(flags, CmpOp.MASKED_EQ, 0, _WRITING & ~os.O_DIRECTORY)])
    rules.allow("mmap", args=[ArgCmp(3, CmpOp.MASKED_EQ, _MAP_PRIVATE, _MAP_TYPE)])
    rules.allow("prctl", args={0: _SET_NO_NEW_PRIVS})  # this and the next: to load the second filter
    rules.allow("seccomp")
    return rules


def program_filter() -> Filter:
    """The filter for the program itself, loaded on top of the other: no file can be opened or looked up."""
    rules = _computing()
    private = _MAP_PRIVATE | _MAP_ANONYMOUS
    rules.allow("mmap", args=[ArgCmp(3, CmpOp.MASKED_EQ, private, _MAP_TYPE | _MAP_ANONYMOUS)])
    return rules


def _computing() -> Filter:
    rules = Filter(default=int(Action.ERRNO) | errno.EPERM)
    for name in filter(_exists, _ALWAYS.split()):
        rules.allow(name)
    rules.allow("futex", args=[ArgCmp(1, CmpOp.MASKED_EQ, _FUTEX_PRIVATE, _FUTEX_PRIVATE)])
    for advice in _ADVICE:
        rules.allow("madvise", args={2: advice})
    for name in ("clock_gettime", "clock_getres", "clock_nanosleep"):
        rules.allow(name, args=[ArgCmp(0, CmpOp.LE, _LAST_OWN_CLOCK)])
    rules.allow("sched_getaffinity", args={0: 0})
    for command in _FCNTL_READS:
        rules.allow("fcntl", args={1: command})
    rules.allow("prlimit64", args={0: 0, 2: 0})  # reading its own limits
    # It seems to work and does nothing: time that a program waits for a core does not count, so one that gave its core
    # away again and again would never run out of time, and the machine would be blamed.
    rules.errno("sched_yield", 0)
    rules.errno("ioctl", errno.ENOTTY)  # what isatty() expects of something that is not a terminal
    rules.errno("clone3", errno.ENOSYS)  # makes libc fall back to clone, which is refused
    for name in filter(_exists, _KILLED.split()):
        rules.kill(name)
    return rules


def _exists(name: str) -> bool:
    """Whether this architecture has the call (64-bit ARM, for one, has no `open`)."""
    try:
        syscall_nr(name)
    except ValueError:
        return False
    return True
