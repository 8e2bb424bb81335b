"""The system calls a worker may make, as a seccomp filter.

An allow list: whatever is not named here fails with EPERM, which a program sees as `PermissionError`. Calls
that no honest program makes by accident (attacks on other processes, starting programs) kill the worker.
Everything a numpy or torch computation needs is there: memory, time, reading files that Landlock lets it
see, its own signals, and the two pipes. Threads and processes are not.
"""

import errno
import os

from seccompy import Action, ArgCmp, CmpOp, Filter, syscall_nr

_COMPUTE = """
    brk mmap munmap mprotect mremap madvise futex futex_waitv sched_yield getrandom
    clock_gettime clock_getres clock_nanosleep nanosleep gettimeofday time times getrusage
    getpid getppid gettid getuid geteuid getgid getegid uname sysinfo getcpu sched_getaffinity
    rt_sigaction rt_sigprocmask rt_sigreturn sigaltstack set_robust_list rseq restart_syscall exit exit_group
"""
_FILES = """
    read readv pread64 write writev close lseek fstat newfstatat fstatat stat lstat statx
    access faccessat faccessat2 readlink readlinkat getdents64 getcwd poll ppoll select pselect6
"""
_KILLED = """
    ptrace process_vm_readv process_vm_writev kill tkill rt_sigqueueinfo rt_tgsigqueueinfo pidfd_open
    pidfd_send_signal pidfd_getfd execve execveat io_uring_setup bpf perf_event_open userfaultfd mount unshare
    setns keyctl add_key request_key init_module finit_module kexec_load reboot
"""
_WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND | getattr(os, "O_TMPFILE", 0)
_FCNTL_READS = (1, 2, 3, 1030)
"""F_GETFD, F_SETFD, F_GETFL, F_DUPFD_CLOEXEC: what Python's file objects use."""


def worker_filter() -> Filter:
    """The filter for this machine's architecture, not yet loaded."""
    rules = Filter(default=int(Action.ERRNO) | errno.EPERM)
    for name in filter(_exists, (_COMPUTE + _FILES).split()):
        rules.allow(name)
    for name, flags in (("open", 1), ("openat", 2)):
        if _exists(name):  # reading only; Landlock says where
            rules.allow(name, args=[ArgCmp(flags, CmpOp.MASKED_EQ, 0, _WRITING & ~os.O_DIRECTORY)])
    for command in _FCNTL_READS:
        rules.allow("fcntl", args={1: command})
    rules.allow("prlimit64", args={0: 0, 2: 0})  # reading its own limits
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
