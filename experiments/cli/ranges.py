"""Which numbers a setting takes, found by asking the dataclass that checks it: what help says is what is accepted."""

import dataclasses
from typing import Any

_LARGE = 10**9
_SMALL = 1e-9
_WHOLE = (-_LARGE, -1, 0, 1, 2, _LARGE)
_REAL = (-float(_LARGE), -1.0, 0.0, _SMALL, 0.5, 1 - _SMALL, 1.0, 1 + _SMALL, 2.0, float(_LARGE))
_LOWEST = {0: "≥ 0", _SMALL: "> 0", 1: "≥ 1", 1 + _SMALL: "> 1"}
_HIGHEST = {1 - _SMALL: "< 1", 1: "≤ 1"}


def range_of(defaults: Any, name: str) -> str:
    """The range of a number among the fields of a dataclass, the others being as they are; empty for all numbers.

    Bounds other than 0 and 1 are other settings' affair and not looked for.
    """
    value = getattr(defaults, name)
    if isinstance(value, bool) or not isinstance(value, int | float):
        return ""
    tried = _WHOLE if isinstance(value, int) else _REAL
    taken = [number for number in tried if _accepts(defaults, name, number)]
    if not taken:
        return ""
    bounds = (_LOWEST.get(taken[0], ""), _HIGHEST.get(taken[-1], ""))
    return ", ".join(bound for bound in bounds if bound)


def _accepts(defaults: Any, name: str, number: float) -> bool:
    try:
        dataclasses.replace(defaults, **{name: number})
    except (ValueError, OverflowError):
        return False
    return True
