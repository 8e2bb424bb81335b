"""Memory and time: using more than allowed, refusing to stop, raising the limits."""

from atlas_gym.evaluation import Status
from tests.hostile.attack import FAILED, HARMLESS, Attack

_CATEGORY = "memory and time"
_OUT_OF_MEMORY = frozenset({Status.MEMORY, Status.CRASHED})
_OUT_OF_TIME = frozenset({Status.TIMEOUT})


def _attack(name, code, statuses, when="first"):
    return Attack(name, _CATEGORY, code, statuses, when)


ATTACKS = (
    _attack("one large buffer", "DONE.append(bytearray(1 << 30))\nboast(len(DONE[-1]))", _OUT_OF_MEMORY),
    _attack("one large array", "DONE.append(np.ones(1 << 27))\nboast(DONE[-1].nbytes)", _OUT_OF_MEMORY),
    _attack(
        "a list that grows",
        """
        while len(DONE) < 100_000:
            DONE.append('x' * 10_000)
        boast('a gigabyte')
        """,
        FAILED,
    ),
    _attack(
        "a list that grows and catches its errors",
        """
        while len(DONE) < 100_000:
            try:
                DONE.append('x' * 10_000)
            except MemoryError:
                break
        if len(DONE) == 100_000: boast('a gigabyte')
        """,
        HARMLESS,
    ),
    _attack(
        "memory from C",
        """
        libc = ctypes.CDLL(None)
        libc.malloc.restype = ctypes.c_void_p
        block = libc.malloc(ctypes.c_size_t(1 << 30))
        if block:
            ctypes.memset(block, 1, 1 << 30)
            boast('a gigabyte')
        raise MemoryError
        """,
        _OUT_OF_MEMORY,
    ),
    _attack("anonymous mappings", "import mmap\nDONE.append(mmap.mmap(-1, 1 << 30))\nboast()", FAILED),
    _attack("a file in memory", "os.ftruncate(os.memfd_create('x'), 1 << 30)\nboast('a file')", FAILED),
    _attack("pipes as memory", "for _ in range(100): os.pipe()\nboast('pipes')", FAILED),
    _attack("a text that explodes", "DONE.append(('x' * 1000) * 1_000_000)\nboast()", _OUT_OF_MEMORY),
    _attack(
        "recursion without end",
        "sys.setrecursionlimit(10 ** 9)\ndef deeper(): return deeper() + 1\nreturn deeper()",
        FAILED,
    ),
    _attack(
        "recursion in C without end",
        """
        nested = []
        for _ in range(200_000):
            nested = [nested]
        sys.setrecursionlimit(10 ** 9)
        return len(repr(nested))
        """,
        FAILED,
    ),
    _attack("an endless loop", "while True: pass", _OUT_OF_TIME),
    _attack("an endless loop while it is loaded", "while True: pass", _OUT_OF_TIME, when="load"),
    _attack("an endless sleep", "time.sleep(10 ** 6)", _OUT_OF_TIME),
    _attack(
        "an endless loop that catches everything",
        """
        while True:
            try:
                time.sleep(10)
            except BaseException:
                pass
        """,
        _OUT_OF_TIME,
    ),
    _attack(
        "an endless loop deaf to signals",
        """
        for number in range(1, 65):
            try:
                signal.signal(number, signal.SIG_IGN)
            except (OSError, ValueError):
                pass
        signal.pthread_sigmask(signal.SIG_BLOCK, range(1, 65))
        while True: pass
        """,
        _OUT_OF_TIME,
    ),
    _attack("a core given away for ever", "while True: os.sched_yield()", _OUT_OF_TIME),
    _attack("a power that takes for ever", "return 7 ** (10 ** 9) % 3", _OUT_OF_TIME | _OUT_OF_MEMORY),
    _attack("a pattern that backtracks", "import re\nre.match('(a+)+$', 'a' * 60 + 'b')", _OUT_OF_TIME),
    _attack("waiting for input", "return sys.stdin.readline() or time.sleep(10 ** 6)", _OUT_OF_TIME),
    _attack("waiting for a lock", "lock = threading.Lock()\nlock.acquire()\nlock.acquire()", _OUT_OF_TIME),
    _attack("waiting for itself", "import select\nselect.select([], [], [])", _OUT_OF_TIME),
    _attack(
        "a finaliser that never ends",
        """
        class Slow:
            def __del__(self):
                while True: pass
        Slow()
        """,
        _OUT_OF_TIME,
    ),
    _attack(
        "raise its own limits",
        """
        import resource
        for name in ('RLIMIT_AS', 'RLIMIT_CPU', 'RLIMIT_FSIZE', 'RLIMIT_NPROC'):
            number = getattr(resource, name)
            before = resource.getrlimit(number)
            try:
                resource.setrlimit(number, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
            except (OSError, ValueError):
                pass
            if resource.getrlimit(number) != before: boast(name)
        """,
        HARMLESS,
    ),
    _attack(
        "take precedence over others",
        """
        for act in (lambda: os.nice(-5), lambda: os.sched_setaffinity(0, {0}),
                    lambda: os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(1))):
            try:
                act()
                DONE.append('did it')
            except OSError:
                pass
        if 'did it' in DONE: boast('precedence')
        """,
        HARMLESS,
    ),
    _attack("memory and time at once", "while True: DONE.append(bytearray(1 << 20))", FAILED),
)
