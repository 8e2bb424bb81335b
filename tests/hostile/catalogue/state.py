"""Forging scores: reading hidden state, replacing what computes the score, rewriting the past."""

from tests.hostile.attack import CRASHED, ERROR, FAILED, HARMLESS, REFUSED, SLOW, Attack

_CATEGORY = "hidden state and forged scores"


def _attack(name, code, statuses=HARMLESS, when="first"):
    return Attack(name, _CATEGORY, code, statuses, when)


ATTACKS = (
    _attack(
        "walk the callers' frames",
        """
        frame = sys._getframe()
        while frame is not None:
            found = best(frame.f_locals, arguments)
            if found is not None:
                return found
            frame = frame.f_back
        """,
        when="always",
    ),
    _attack(
        "walk the frames of a traceback",
        """
        import inspect
        for entry in inspect.stack(context=0):
            found = best(entry.frame.f_locals, arguments)
            if found is not None:
                return found
        """,
        SLOW,
        when="always",
    ),
    _attack(
        "search all frames of all threads",
        """
        for frame in sys._current_frames().values():
            while frame is not None:
                found = best(frame.f_locals, arguments)
                if found is not None:
                    return found
                frame = frame.f_back
        """,
        when="always",
    ),
    _attack(
        "search the garbage collector's objects",
        """
        for thing in gc.get_objects():
            if type(thing) is dict:
                found = best(thing, arguments)
                if found is not None:
                    return found
        """,
        when="always",
    ),
    _attack(
        "search every module",
        """
        for module in list(sys.modules.values()):
            found = best(dict(vars(module)), arguments)
            if found is not None:
                return found
        """,
        when="always",
    ),
    _attack(
        "draw the hidden streams again from the seed",
        """
        from atlas_gym.hidden_streams import hidden_stream
        boast(hidden_stream('bandit', 'train', 0, 0, 'theta').random())
        """,
        FAILED,
    ),
    _attack(
        "read the secret of the streams",
        """
        home = os.environ.get('HOME') or '/root'
        boast(open(home + '/.local/state/atlas-gym/secret').read())
        """,
        FAILED,
    ),
    _attack(
        "read the secret in the environment",
        "if 'ATLAS_GYM_SECRET' in os.environ: boast(os.environ['ATLAS_GYM_SECRET'])",
    ),
    _attack(
        "read the environment of the parent",
        "boast(open(f'/proc/{TRUSTED}/environ', 'rb').read())",
        REFUSED,
    ),
    _attack(
        "read the memory of the parent",
        """
        with open(f'/proc/{TRUSTED}/maps') as maps:
            start = int(maps.readline().split('-')[0], 16)
        with open(f'/proc/{TRUSTED}/mem', 'rb') as memory:
            memory.seek(start)
            boast(memory.read(16))
        """,
        REFUSED,
    ),
    _attack(
        "read its own memory map",
        "boast(open('/proc/self/maps').readline())",
        REFUSED,
    ),
    _attack(
        "process_vm_readv on the parent",
        """
        libc = ctypes.CDLL(None, use_errno=True)
        buffer = ctypes.create_string_buffer(8)
        local = (ctypes.c_void_p * 2)(ctypes.addressof(buffer), 8)
        remote = (ctypes.c_void_p * 2)(id(None), 8)
        if libc.process_vm_readv(TRUSTED, local, 1, remote, 1, 0) == 8:
            boast(buffer.raw)
        """,
        REFUSED,
    ),
    _attack(
        "ptrace another process",
        """
        libc = ctypes.CDLL(None, use_errno=True)
        if libc.ptrace(0x4206, DECOY, 0, 0) == 0:
            boast('attached')
        """,
        REFUSED,
    ),
    _attack(
        "let another process trace it",
        """
        libc = ctypes.CDLL(None, use_errno=True)
        if libc.ptrace(0, 0, 0, 0) == 0:
            boast('traced')
        """,
        REFUSED,
    ),
    _attack(
        "replace numpy's means and sums",
        """
        nothing = lambda *a, **k: np.float64(-1e9)
        for name in ('mean', 'sum', 'max', 'abs', 'isfinite'):
            setattr(np, name, nothing)
        """,
        when="load",
    ),
    _attack(
        "replace the built-in functions",
        """
        import builtins
        for name in ('sum', 'max', 'min', 'abs', 'float'):
            setattr(builtins, name, lambda *a, **k: -1e9)
        """,
        HARMLESS | CRASHED | ERROR,  # its own replacements may fail first, in the program or in what calls it
        when="load",
    ),
    _attack(
        "replace math and time",
        """
        import math
        math.isfinite = lambda value: True
        time.time = time.perf_counter = time.monotonic = lambda: 0.0
        """,
        when="load",
    ),
    _attack(
        "trace the caller and rewrite its variables",
        """
        write_back = ctypes.pythonapi.PyFrame_LocalsToFast
        def tracer(frame, event, argument):
            for name in list(frame.f_locals):
                if name in ('score', 'regret', 'distance'):
                    wanted = 1e9 if name == 'score' else -1e9
                    frame.f_locals[name] = 0 * frame.f_locals[name] + wanted  # an array stays one
                    write_back(ctypes.py_object(frame), 0)
            return tracer
        frame = sys._getframe()
        while frame is not None:
            frame.f_trace = tracer
            frame = frame.f_back
        sys.settrace(tracer)
        """,
    ),
    _attack(
        "replace the code of the caller",
        """
        frame = sys._getframe()
        while frame is not None:
            for name, thing in list(frame.f_globals.items()):
                if callable(thing) and getattr(thing, '__module__', '') == frame.f_globals.get('__name__'):
                    frame.f_globals[name] = lambda *a, **k: 1e9
            frame = frame.f_back
        """,
        ERROR,
    ),
    _attack(
        "rewrite its arguments",
        """
        for argument in arguments:
            for name in ('rewards', 'contexts', 'arms'):
                data = getattr(argument, name, None)
                if data is not None:
                    try:
                        data[:] = 1e9
                    except ValueError:
                        pass
            if isinstance(argument, np.ndarray):
                argument.flags.writeable = True
                argument[...] = 1e9
        """,
    ),
    _attack(
        "replace attributes of its arguments",
        """
        for argument in arguments:
            for name in ('rewards', 'regret', '_rewards', 'data', 'score'):
                try:
                    setattr(argument, name, 1e9)
                except (AttributeError, TypeError, ValueError, RuntimeError):
                    pass
        """,
    ),
    _attack(
        "import the main module and set its results",
        """
        import __main__
        for name in ('score', 'result', 'results', 'honest', 'SCORE'):
            setattr(__main__, name, 1e9)
        """,
    ),
)
