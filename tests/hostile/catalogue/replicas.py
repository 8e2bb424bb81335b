"""Attacks by way of the replicas: several runs of one program in one worker, answering in lockstep."""

from tests.hostile.attack import ERROR, FAILED, HARMLESS, Attack

_CATEGORY = "lockstep replicas"
_COUNT = """
        import builtins
        count = builtins.__dict__.setdefault('REPLICAS', [])
        count.append(1)
"""


def _attack(name, code, statuses=HARMLESS, when="load"):
    return Attack(name, _CATEGORY, _COUNT + code, statuses, when, runs=2)


ATTACKS = (
    _attack("the second replica exits", "        if len(count) == 2: os._exit(0)", FAILED),
    _attack("the second replica raises", "        if len(count) == 2: raise ValueError('no')", FAILED),
    _attack("the second replica hangs", "        while len(count) == 2: pass", FAILED),
    _attack(
        "the second replica hangs in its first call",
        "        while len(count) == 2: time.sleep(60)",
        FAILED,
        when="first",
    ),
    _attack(
        "replicas conspire about what they see",
        """
        notes = builtins.__dict__.setdefault('NOTES', [])
        notes.append(arguments)
        for other in notes:
            found = best(dict(enumerate(other)), arguments)
            if found is not None:
                return found
        """,
        when="always",
    ),
    _attack(
        "one replica replaces the others' functions",
        """
        for module in list(sys.modules.values()):
            for name in ('guess', 'policy', 'pinn_loss_strategy'):
                if name in getattr(module, '__dict__', {}):
                    setattr(module, name, lambda *a: float('nan'))
        for thing in gc.get_objects():
            if type(thing) is list and thing and callable(thing[0]) and thing is not count:
                if getattr(thing[0], '__name__', '') in ('guess', 'policy', 'pinn_loss_strategy'):
                    thing[:] = [lambda *a: float('nan')] * len(thing)
        """,
        ERROR,
        when="first",
    ),
)
