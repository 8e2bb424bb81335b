"""The network, and sockets within the machine."""

from tests.hostile.attack import FAILED, HARMLESS, REFUSED, Attack

_CATEGORY = "network"


def _attack(name, code, statuses=REFUSED, when="first"):
    return Attack(name, _CATEGORY, code, statuses, when)


ATTACKS = (
    _attack("connect by TCP", "socket.create_connection(('127.0.0.1', PORT), 1)"),
    _attack("connect while it is loaded", "socket.create_connection(('127.0.0.1', PORT), 1)", when="load"),
    _attack("send by UDP", "socket.socket(type=socket.SOCK_DGRAM).sendto(b'x', ('127.0.0.1', PORT))"),
    _attack("serve", "socket.create_server(('127.0.0.1', 0))\nboast('a server')"),
    _attack("a socket in the file system", "socket.socket(socket.AF_UNIX).connect(LOOT + '/socket')"),
    _attack("an abstract socket", "socket.socket(socket.AF_UNIX).connect(f'\\0atlas-scene-{PORT}')"),
    _attack("a pair of sockets", "boast(socket.socketpair())"),
    _attack("a raw socket", "boast(socket.socket(socket.AF_PACKET, socket.SOCK_RAW))"),
    _attack("netlink", "boast(socket.socket(socket.AF_NETLINK, socket.SOCK_RAW))"),
    _attack(
        "fetch a page", "from urllib.request import urlopen\nurlopen(f'http://127.0.0.1:{PORT}', None, 1)"
    ),
    _attack("look a name up", "boast(socket.getaddrinfo('localhost', 80))", FAILED),
    _attack(
        "connect by system call",
        """
        libc = ctypes.CDLL(None, use_errno=True)
        if libc.socket(2, 1, 0) >= 0: boast('a socket')
        """,
        HARMLESS,
    ),
    _attack(
        "connect and say nothing of it",
        """
        try:
            socket.create_connection(('127.0.0.1', PORT), 1)
        except OSError:
            pass
        """,
        HARMLESS,
    ),
)
