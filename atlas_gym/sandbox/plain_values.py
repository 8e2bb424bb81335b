"""What stands for a value that cannot cross to a worker or back as it is (`atlas_gym.sandbox.codec`)."""

from typing import Any

import numpy as np

_KINDS: tuple[Any, ...] = (int, float, str, bytes, tuple, list, dict)
"""A value of a subclass is sent as one of these."""


def plain(value: Any) -> Any:
    """A value of the codec's kinds that stands for `value`: a numpy number's number, a tensor's array, a set's list.

    Raises TypeError where there is none.
    """
    # `np.ma` may not be loaded, and workers cannot load it. What lies under a mask would cross with the rest.
    if isinstance(value, np.ndarray) and np.any(getattr(value, "mask", False)):
        raise TypeError("an array with masked entries; fill them first, as with .filled(0.0)")
    if isinstance(value, np.longdouble):  # whose item is itself
        return float(value)
    if isinstance(value, np.generic):
        return value.item() if value.dtype.kind in "biufSU" else native(np.asarray(value))
    if hasattr(value, "detach"):  # a tensor
        value = value.detach().cpu().numpy()
    if isinstance(value, np.ndarray) or hasattr(value, "__array__"):
        return np.array(value, subok=False)
    for kind in _KINDS:
        if isinstance(value, kind):
            return kind(value)
    if isinstance(value, bytearray | memoryview):
        return bytes(value)
    if isinstance(value, range | set | frozenset):
        return list(value)
    raise TypeError(f"a {type(value).__name__}; use numbers, texts, arrays, lists, tuples and dictionaries")


def native(value: np.ndarray) -> np.ndarray:
    """An array of another byte order or precision as one that can be sent."""
    kind = value.dtype.kind
    if kind == "f":
        return value.astype(np.float64)
    if kind in "iu":
        return value.astype(value.dtype.newbyteorder("="))
    raise TypeError(f"an array of {value.dtype}; use numbers or truth values")
