"""Files: writing, changing and reading what is not the program's."""

from tests.hostile.attack import FAILED, HARMLESS, REFUSED, Attack

_CATEGORY = "files"


def _attack(name, code, statuses=REFUSED, when="first"):
    return Attack(name, _CATEGORY, code, statuses, when)


ATTACKS = (
    _attack("write a file", "open(MARKER, 'w').write('x')"),
    _attack("write a file while it is loaded", "open(MARKER, 'w').write('x')", when="load"),
    _attack("append to a file", "open(CANARY_FILE, 'a').write('x')"),
    _attack("a temporary file", "import tempfile\ntempfile.mkstemp(dir=LOOT)", FAILED),
    _attack("a file without a name", "os.open(LOOT, os.O_TMPFILE | os.O_RDWR)\nboast('a file')"),
    _attack("make a folder", "os.mkdir(MARKER)"),
    _attack("make a link", "os.symlink('/etc/passwd', MARKER)"),
    _attack("make a hard link", "os.link(CANARY_FILE, MARKER)"),
    _attack("make a pipe in the file system", "os.mkfifo(MARKER)"),
    _attack("delete a file", "os.unlink(CANARY_FILE)"),
    _attack("rename a file", "os.rename(CANARY_FILE, MARKER)"),
    _attack("truncate a file", "os.truncate(CANARY_FILE, 0)"),
    _attack("change a file's mode", "os.chmod(CANARY_FILE, 0o666)"),
    _attack("change a file's times", "os.utime(CANARY_FILE, (0, 0))\nboast('changed')"),
    _attack("an attribute on a file", "os.setxattr(CANARY_FILE, 'user.x', b'x')\nboast('changed')"),
    _attack("read somebody's file", "raise ValueError(open(CANARY_FILE).read())"),
    _attack("read the users", "boast(open('/etc/passwd').read())"),
    _attack("list the root folder", "boast(os.listdir('/'))"),
    _attack("list a home folder", "boast(os.listdir(os.path.expanduser('~root')))", FAILED),
    _attack("list the processes", "boast(os.listdir('/proc'))"),
    _attack("read in another folder", "os.chdir(LOOT)\nraise ValueError(open('canary').read())", FAILED),
    _attack(
        "read by way of the library folder",
        "raise ValueError(open(os.path.dirname(os.__file__) + '/../' * 12 + CANARY_FILE).read())",
    ),
    _attack("copy by numpy", "raise ValueError(np.fromfile(CANARY_FILE, dtype=np.uint8).tobytes())"),
    _attack("save by numpy", "np.save(MARKER, np.ones(3))"),
    _attack("load a pickle by numpy", "boast(np.load(CANARY_FILE, allow_pickle=True))", FAILED),
    _attack("a database", "import sqlite3\nsqlite3.connect(MARKER).execute('create table t (x)')", FAILED),
    _attack(
        "write by system call",
        """
        libc = ctypes.CDLL(None, use_errno=True)
        descriptor = libc.open(MARKER.encode(), 0o101, 0o644)
        if descriptor >= 0: boast(descriptor)
        libc.creat(MARKER.encode(), 0o644)
        libc.syscall(437, -100, MARKER.encode(), (ctypes.c_uint64 * 3)(0o101, 0o644, 0), 24)
        """,
        HARMLESS,
    ),
    _attack(
        "an io_uring",
        "if ctypes.CDLL(None).syscall(425, 8, ctypes.create_string_buffer(120)) >= 0: boast('a ring')",
    ),
    _attack(
        "mount a file system", "if ctypes.CDLL(None).mount(b'', LOOT.encode(), b'tmpfs', 0, 0) == 0: boast()"
    ),
    _attack("namespaces of its own", "if ctypes.CDLL(None).unshare(0x10000000) == 0: boast('a namespace')"),
    _attack("another root", "os.chroot(LOOT)\nboast('chroot')"),
    _attack("another user", "os.setuid(12345)\nboast('setuid')"),
    _attack("a core dump", "import resource\nos.chdir(LOOT)\nos.abort()", FAILED),
)
