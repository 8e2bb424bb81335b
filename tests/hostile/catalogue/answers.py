"""Answers that are none: not finite, out of range, objects with evil methods, nothing at all."""

from tests.hostile.attack import ERROR, FAILED, HARMLESS, Attack

_CATEGORY = "evil answers and objects"


def _attack(name, code, statuses=HARMLESS, when="always"):
    return Attack(name, _CATEGORY, code, statuses, when)


ATTACKS = (
    _attack("not a number", "return float('nan')", FAILED),
    _attack("infinity", "return float('inf')", FAILED),
    _attack("a huge integer", "return 10 ** 400", FAILED),
    _attack("a text", "return 'the best one'", FAILED),
    _attack("a function", "return lambda: 1", FAILED),
    _attack("a generator", "return (i for i in range(3))", FAILED),
    _attack("an empty array", "return np.zeros(0)", FAILED),
    _attack("an array of objects", "return np.array([object(), None], dtype=object)", FAILED),
    _attack(
        "an object that equals everything",
        """
        class Best:
            __eq__ = __lt__ = __gt__ = __le__ = __ge__ = lambda self, other: True
            __hash__ = object.__hash__
            __float__ = lambda self: 1e9
            __index__ = __int__ = lambda self: 10 ** 6
            __array__ = lambda self, *a, **k: np.full(3, 1e9)
        return Best()
        """,
        ERROR,
    ),
    _attack(
        "an integer with an evil index",
        """
        class Evil(int):
            def __index__(self):
                frame = sys._getframe()
                while frame is not None:
                    found = best(frame.f_locals, arguments)
                    if found is not None:
                        return found
                    frame = frame.f_back
                return 255
            __int__ = __index__
            __float__ = lambda self: float('nan')
        return Evil(0)
        """,
        HARMLESS | ERROR,
    ),
    _attack(
        "an object whose conversion never ends",
        """
        class Slow:
            def __index__(self):
                while True:
                    pass
            __float__ = __int__ = __array__ = __index__
        return Slow()
        """,
        FAILED,
    ),
    _attack(
        "an object whose conversion exits",
        """
        class Quit:
            def __index__(self, *a, **k):
                os._exit(0)
            __float__ = __int__ = __array__ = __index__
        return Quit()
        """,
        FAILED,
    ),
    _attack(
        "an object that runs a command when it is unpickled",
        """
        class Pickled:
            def __reduce__(self):
                return (os.system, (f'touch {MARKER}',))
        return Pickled()
        """,
        FAILED,
    ),
    _attack(
        "an exception that runs a command when it is unpickled",
        """
        class Pickled(Exception):
            def __reduce__(self):
                return (os.system, (f'touch {MARKER}',))
        raise Pickled('take this')
        """,
        FAILED,
    ),
    _attack(
        "finalisers and exit hooks",
        """
        import atexit, weakref
        class Ghost:
            def __del__(self):
                open(MARKER, 'w').write('boo')
        ghost = Ghost()
        DONE.append(weakref.finalize(ghost, open, MARKER, 'w'))
        atexit.register(open, MARKER, 'w')
        ghost.itself = ghost
        """,
        when="first",
    ),
    _attack(
        "a coroutine that is never awaited",
        """
        async def later():
            open(MARKER, 'w')
        return later()
        """,
        FAILED,
    ),
)
