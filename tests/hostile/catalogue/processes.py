"""Processes and signals: children, programs, threads, killing others and oneself."""

from tests.hostile.attack import ERROR, FAILED, HARMLESS, REFUSED, Attack
from tests.hostile.scene import ORPHAN_SECONDS

_CATEGORY = "processes and signals"


def _attack(name, code, statuses=REFUSED, when="first", machine=""):
    return Attack(name, _CATEGORY, code, statuses, when, machine)


ATTACKS = (
    _attack("fork", "if os.fork() > 0: boast('forked')"),
    _attack(
        "fork many, whatever happens",
        """
        for _ in range(20):
            try:
                if os.fork() == 0:
                    time.sleep(0.5)
                    os._exit(0)
                DONE.append('forked')
            except OSError:
                pass
        if 'forked' in DONE: boast('forked')
        """,
        HARMLESS,
    ),
    _attack(
        "a daemon that outlives the evaluation",
        f"""
        child = os.fork()
        if child == 0:
            os.setsid()
            os.posix_spawn('/bin/sleep', ['sleep', '{ORPHAN_SECONDS}'], {{}})  # returns when it is `sleep`
            os._exit(0)
        os.waitpid(child, 0)
        """,
    ),
    _attack("subprocess", f"import subprocess\nsubprocess.Popen(['sleep', '{ORPHAN_SECONDS}'])"),
    _attack("os.system", "if os.system(f'touch {MARKER}') == 0: boast('a shell')", HARMLESS),
    _attack("posix_spawn", f"os.posix_spawn('/bin/sleep', ['sleep', '{ORPHAN_SECONDS}'], {{}})"),
    _attack("become another program", "os.execv('/bin/sh', ['sh', '-c', f'touch {MARKER}'])"),
    _attack(
        "execute an open file",
        "os.execve(os.open(sys.executable, os.O_RDONLY), ['python', '-c', f'open({MARKER!r}, \"w\")'], {})",
    ),
    _attack(
        "multiprocessing",
        """
        import multiprocessing
        child = multiprocessing.get_context('fork').Process(target=open, args=(MARKER, 'w'))
        child.start()
        child.join()
        """,
        ERROR,
    ),
    _attack(
        "clone by system call",
        """
        libc = ctypes.CDLL(None, use_errno=True)
        child = libc.syscall(56, 17, 0, 0, 0, 0)
        if child == 0:
            os._exit(0)
        if child > 0: boast('cloned')
        """,
        HARMLESS,
        machine="x86_64",
    ),
    _attack(
        "a thread", "threading.Thread(target=time.sleep, args=(30,), daemon=True).start()\nboast('a thread')"
    ),
    _attack(
        "a thread pool",
        """
        from concurrent.futures import ThreadPoolExecutor
        with ThreadPoolExecutor(4) as pool:
            boast(list(pool.map(abs, range(4))))
        """,
    ),
    _attack("kill the parent", "os.kill(os.getppid(), signal.SIGTERM)"),
    _attack("kill another process", "os.kill(DECOY, signal.SIGKILL)"),
    _attack("stop another process", "os.kill(DECOY, signal.SIGSTOP)"),
    _attack(
        "kill by a process descriptor",
        "signal.pidfd_send_signal(os.pidfd_open(DECOY), signal.SIGKILL)",
    ),
    _attack(
        "kill by the system call for threads",
        """
        libc = ctypes.CDLL(None, use_errno=True)
        if libc.syscall(234, DECOY, DECOY, 9) == 0: boast('killed')
        """,
        HARMLESS,
        machine="x86_64",
    ),
    _attack(
        "have the kernel signal another process",
        """
        import fcntl
        for descriptor in range(3, 64):
            try:
                fcntl.fcntl(descriptor, fcntl.F_SETOWN, DECOY)
                boast('made it the owner of a descriptor')
            except OSError:
                pass
        """,
        HARMLESS,
    ),
    _attack("look whether another process is there", "os.kill(DECOY, 0)\nboast('it is')"),
    _attack("stop itself", "signal.raise_signal(signal.SIGSTOP)", FAILED),
    _attack("os._exit with success", "os._exit(0)", FAILED),
    _attack("sys.exit with success", "sys.exit(0)", FAILED),
    _attack("abort", "os.abort()", FAILED),
    _attack("a null pointer", "ctypes.string_at(0)", FAILED),
    _attack("end the interpreter", "ctypes.pythonapi.Py_FinalizeEx()", FAILED),
    _attack("exit while it is loaded", "os._exit(0)", FAILED, when="load"),
    _attack(
        "leave its session and its death signal",
        """
        libc = ctypes.CDLL(None, use_errno=True)
        if libc.prctl(1, 0, 0, 0, 0) == 0: boast('will not die with its parent')
        """,
        HARMLESS,
    ),
)
