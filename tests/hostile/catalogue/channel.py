"""Speaking on the channel oneself: forged answers, noise, pickles, silence."""

from tests.hostile.attack import CRASHED, ERROR, FAILED, HARMLESS, REFUSED, TIMEOUT, Attack

_CATEGORY = "forging the channel"
_EVERY_FD = """
        import fcntl
        for descriptor in range(4096):
            try:
                {act}
            except (OSError, ValueError):
                pass
"""


def _attack(name, code, statuses=HARMLESS, when="first"):
    return Attack(name, _CATEGORY, code, statuses, when)


def _on_every_descriptor(act):
    return _EVERY_FD.format(act=act)


ATTACKS = (
    _attack("noise on every descriptor", _on_every_descriptor("os.write(descriptor, b'\\x07' * 64)"), FAILED),
    _attack(
        "forged answers ahead of time",
        _on_every_descriptor("os.write(descriptor, bytes(4096))"),
        REFUSED,
    ),
    _attack(
        "one forged byte",
        _on_every_descriptor("os.write(descriptor, b'\\0')"),
        REFUSED | ERROR,  # where answers are numbers, the shifted bytes may be one that is out of bounds
    ),
    _attack(
        "a forged error with escape sequences",
        _on_every_descriptor(
            "os.write(descriptor, b'\\xff\\0\\x20\\0' + b'\\x1b[2J\\x1b]0;owned\\x07' * 2)",
        ),
        FAILED,
    ),
    _attack(
        "a forged error of an unknown kind",
        _on_every_descriptor("os.write(descriptor, b'\\xff\\x63\\x01\\0!')"),
        FAILED,
    ),
    _attack(
        "a forged error that never comes to its end",
        _on_every_descriptor("os.write(descriptor, b'\\xff\\0\\xff\\xff' + b'x' * 100)")
        + "\n        while True: time.sleep(60)",
        FAILED,
    ),
    _attack(
        "a claim of success",
        _on_every_descriptor('os.write(descriptor, b\'ok 1e9 {"status": "ok", "score": 1e9}\\n\')'),
        FAILED,
    ),
    _attack(
        "a pickle on every descriptor",
        """
        import pickle
        class Pickled:
            def __reduce__(self):
                return (os.system, (f'touch {MARKER}',))
        data = pickle.dumps(Pickled())
        for descriptor in range(3, 4096):
            try:
                os.write(descriptor, data)
                os.write(descriptor, len(data).to_bytes(8, 'little') + data)
            except OSError:
                pass
        """,
        FAILED,
    ),
    _attack(
        "a flood on every descriptor",
        """
        flood = bytes(1 << 16)
        for descriptor in range(3, 4096):
            try:
                for _ in range(100):
                    os.write(descriptor, flood)
            except OSError:
                pass
        """,
        REFUSED | TIMEOUT,
    ),
    _attack("every descriptor closed", "os.closerange(0, 4096)", FAILED),
    _attack(
        "the channel read in the driver's stead",
        """
        for descriptor in range(3, 4096):
            try:
                os.read(descriptor, 1 << 20)
            except OSError:
                pass
        """,
        FAILED,
    ),
    _attack("every descriptor duplicated", _on_every_descriptor("os.dup2(descriptor, 40 + descriptor % 20)")),
    _attack(
        "the channel set to non-blocking",
        _on_every_descriptor("fcntl.fcntl(descriptor, fcntl.F_SETFL, os.O_NONBLOCK)"),
    ),
    _attack(
        "requests to the fork server and the pool",
        """
        import struct
        for descriptor in range(3, 4096):
            try:
                with socket.socket(fileno=os.dup(descriptor)) as control:
                    control.send(struct.pack('<BxxxId', 1, 1, 0.0))
                    boast('spoke to the fork server')
            except (OSError, ValueError):
                pass
        """,
    ),
    _attack(
        "the driver's sending replaced",
        """
        genuine = os.write
        os.write = lambda descriptor, data: genuine(descriptor, bytes(len(data) + 7))
        """,
        ERROR,
        when="load",
    ),
    _attack(
        "the driver's receiving replaced",
        """
        os.readv = lambda descriptor, buffers: len(buffers[0])
        os.read = lambda descriptor, count: bytes(count)
        """,
        CRASHED,
        when="load",
    ),
    _attack(
        "the driver's pipe replaced, found in its frame",
        """
        frame = sys._getframe()
        while frame is not None:
            pipe = frame.f_locals.get('pipe')
            if pipe is not None:
                type(pipe).send = lambda self, payload: None
            frame = frame.f_back
        """,
        TIMEOUT,
    ),
    _attack(
        "answers for a while, then silence",
        """
        DONE.append(1)
        if len(DONE) > 2:
            while True:
                time.sleep(60)
        """,
        TIMEOUT,
        when="always",
    ),
)
