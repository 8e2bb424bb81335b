"""Marks: leaving something outside the worker that another program can notice, later or at the same time."""

from tests.hostile.attack import REFUSED, Attack

_CATEGORY = "marks for other programs"


def _attack(name, code, statuses=REFUSED):
    return Attack(name, _CATEGORY, code, statuses)


def _system_call(name, x86_64, arguments, before=""):
    """An attack by a system call, by its number. A result of -1 is a refusal, which an honest library reports."""
    code = f"""
import errno, platform
if platform.machine() != 'x86_64': raise PermissionError('other numbers on this architecture')
libc = ctypes.CDLL(None, use_errno=True)
word = ctypes.c_uint32(0)
room = ctypes.create_string_buffer(4096)
{before}
if libc.syscall({x86_64}, {arguments}) == -1 and ctypes.get_errno() in (errno.EPERM, errno.EACCES, errno.ENOSYS):
    raise PermissionError('refused')
boast({name!r})
"""
    return _attack(name, code)


_PAGE = """
libc.mmap.restype = ctypes.c_void_p
page = libc.mmap(None, ctypes.c_size_t(4096), 3, 0x22, -1, ctypes.c_long(0))
"""

ATTACKS = (
    _attack("look at a file's access time", "boast(os.stat(os.__file__).st_atime_ns)"),
    _attack("read a file of the standard library", "boast(open(os.__file__).read(1))"),
    _attack("read a shared library", "boast(open(np._core._multiarray_umath.__file__, 'rb').read(1))"),
    _attack("list the standard library", "boast(os.listdir(os.path.dirname(os.__file__)))"),
    _attack(
        "ask for a name that nobody has",
        """
        try:
            os.stat('/usr/lib/mark')
        except FileNotFoundError:
            boast('the kernel remembers that it was asked')
        """,
    ),
    _attack(
        "map a library shared",
        "import mmap\nmmap.mmap(os.open(os.__file__, os.O_RDONLY), 4096, prot=mmap.PROT_READ)\nboast('mapped')",
    ),
    _attack("map memory shared", "import mmap\nmmap.mmap(-1, 4096)\nboast('mapped')"),
    _attack("lock a descriptor", "import fcntl\nfcntl.flock(0, fcntl.LOCK_EX)\nboast('locked')"),
    _attack("lock a range of a descriptor", "import fcntl\nfcntl.lockf(0, fcntl.LOCK_SH)\nboast('locked')"),
    _attack("count its page faults from disk", "import resource\nboast(resource.getrusage(0).ru_majflt)"),
    _attack("another process's CPU time", "boast(time.clock_gettime((~TRUSTED << 3) | 2))"),
    _attack("another process's cores", "boast(os.sched_getaffinity(TRUSTED))"),
    _system_call("wake others on a shared word", 202, "ctypes.byref(word), 1, 1, None, None, 0"),
    _system_call("wait on several shared words", 449, "room, 1, 0, None, 0"),
    _system_call("wake on a shared word, the newer way", 454, "ctypes.byref(word), 1, 1, 2"),
    _system_call("send a page away", 28, "ctypes.c_void_p(page), ctypes.c_size_t(4096), 21", _PAGE),
    _system_call("call a page cold", 28, "ctypes.c_void_p(page), ctypes.c_size_t(4096), 20", _PAGE),
    _system_call("offer a page for merging", 28, "ctypes.c_void_p(page), ctypes.c_size_t(4096), 12", _PAGE),
    _system_call("which pages are cached", 27, "ctypes.c_void_p(page), ctypes.c_size_t(4096), room", _PAGE),
    _system_call("drop cached pages", 221, "0, 0, 0, 4"),
    _system_call("read ahead", 187, "0, 0, 4096"),
    _system_call("ask what is cached", 451, "0, room, room, 0"),
    _system_call("ask for the machine's free memory", 99, "room"),
    _system_call("watch files", 294, "0"),
    _system_call("a barrier for all processes", 324, "1, 0, 0"),
    _system_call("a semaphore for all processes", 64, "1234, 1, 0"),
    _system_call("a queue for all processes", 68, "1234, 0"),
    _system_call("another process's priority", 140, "0, TRUSTED"),
)
