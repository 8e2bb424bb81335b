"""Values that cross between the trusted side and a worker: a closed set of kinds, laid out in bytes.

None, truth values, integers of 64 bits, floats, texts, bytes, arrays of numbers or truth values, and lists, tuples
and dictionaries (whose keys are texts) of these. Reading makes nothing else and runs nothing. Every length is
compared with the bytes that are there before anything is made of it, so what reading allocates is in proportion to
what has already arrived.

An array's numbers begin at a multiple of eight bytes from the start of the message, so that they are read where
they lie. A list of floats or of integers alone is one block, a tenth of the work of one value after the other.
"""

import math
import struct
from collections.abc import Sequence
from typing import Any

import numpy as np

MAX_PARTS = 100_000
"""Values within one message; whoever has more numbers than that has an array."""
MAX_DEPTH = 16
"""Lists within lists."""

_NONE, _FALSE, _TRUE, _INT, _FLOAT, _TEXT, _BYTES, _ARRAY, _LIST, _TUPLE, _DICT, _KEPT, _INTS, _FLOATS = (
    range(14)
)
_DTYPES = tuple(
    np.dtype(name)
    for name in (
        "bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "float32", "float64",
    )
)  # fmt: skip
_CODES = {dtype: code for code, dtype in enumerate(_DTYPES)}
_BOOL = 0
_MAX_DIMENSIONS = 32
_LARGEST_EMPTY = 2**31
"""Product of the other dimensions of an array without numbers: numpy bounds it, sooner for a wider type or a stack."""
_INT_HEAD, _FLOAT_HEAD, _COUNT_HEAD = struct.Struct("<Bq"), struct.Struct("<Bd"), struct.Struct("<BI")
_ARRAY_HEAD = struct.Struct("<BBB")
_LENGTHS = tuple(struct.Struct(f"<{n}I") for n in range(_MAX_DIMENSIONS + 1))
_PADDING = tuple(bytes(n) for n in range(8))
_SINGLE = (None, False, True)
_SEQUENCES, _STRINGS, _BLOCKS = (_TUPLE, _LIST), (_TEXT, _BYTES), (_INTS, _FLOATS)
_FLOAT64 = np.float64
_FLOAT_KINDS = frozenset((float, _FLOAT64))
_BLOCK = 4
"""Lists of one kind of number are a block from this length on."""


_SUBSTITUTES: tuple[Any, ...] = (int, float, str, bytes, tuple, list, dict)
"""A value of a subclass is sent as one of these."""


class Malformed(ValueError):
    """Bytes that are no value."""


class Kept:
    """Stands for a value that the worker has been sent before."""

    __slots__ = ("number",)

    def __init__(self, number: int) -> None:
        self.number = number


def encode(value: Any, head: int = 0) -> bytearray:
    """A value's bytes behind `head` free ones; TypeError or OverflowError, naming the remedy, if it cannot be sent."""
    out = bytearray(head)
    try:
        _put(out, value, 0, [0])
    except struct.error:
        raise OverflowError("an integer beyond 64 bits; use a float") from None
    return out


def _put(out: bytearray, value: Any, depth: int, parts: list[int]) -> None:
    """Append a value; `parts` counts those of the whole message."""
    kind = type(value)
    if kind is float or kind is _FLOAT64:
        out += _FLOAT_HEAD.pack(_FLOAT, value)
    elif kind is np.ndarray:
        _put_array(out, value)
    elif kind is tuple or kind is list:
        count = len(value)
        _count_parts(parts, count, depth)
        kinds = set(map(type, value)) if kind is list and count >= _BLOCK else None
        if kinds and kinds <= _FLOAT_KINDS:
            out += _COUNT_HEAD.pack(_FLOATS, count) + struct.pack(f"<{count}d", *value)
        elif kinds == {int}:
            out += _COUNT_HEAD.pack(_INTS, count) + struct.pack(f"<{count}q", *value)
        else:
            out += _COUNT_HEAD.pack(_LIST if kind is list else _TUPLE, count)
            for part in value:
                _put(out, part, depth + 1, parts)
    elif kind is int:
        out += _INT_HEAD.pack(_INT, value)
    elif value is None:
        out.append(_NONE)
    elif kind is bool:
        out.append(_TRUE if value else _FALSE)
    elif kind is str or kind is bytes:
        data = value.encode() if kind is str else value
        out += _COUNT_HEAD.pack(_TEXT if kind is str else _BYTES, len(data))
        out += data
    elif kind is dict:
        _count_parts(parts, 2 * len(value), depth)
        out += _COUNT_HEAD.pack(_DICT, len(value))
        for key, part in value.items():
            if type(key) is not str:
                raise TypeError(f"a dictionary with a {type(key).__name__} as key; use texts")
            _put(out, key, depth, parts)
            _put(out, part, depth + 1, parts)
    elif kind is Kept:
        out += _COUNT_HEAD.pack(_KEPT, value.number)
    else:
        _put(out, _plain(value), depth, parts)


def _count_parts(parts: list[int], more: int, depth: int) -> None:
    parts[0] += more
    if parts[0] > MAX_PARTS:
        raise TypeError(f"more than {MAX_PARTS} values in lists; use an array")
    if depth >= MAX_DEPTH:
        raise TypeError(f"lists nested more than {MAX_DEPTH} deep")


def _put_array(out: bytearray, value: np.ndarray) -> None:
    code = _CODES.get(value.dtype)
    if code is None:
        _put_array(out, _native(value))
        return
    shape = value.shape
    if len(shape) > _MAX_DIMENSIONS:
        raise TypeError(f"an array of more than {_MAX_DIMENSIONS} dimensions")
    out += _ARRAY_HEAD.pack(_ARRAY, code, len(shape)) + _LENGTHS[len(shape)].pack(*shape)
    out += _PADDING[-len(out) % 8]
    out += value.data if value.flags.c_contiguous and value.size else value.tobytes()


def _plain(value: Any) -> Any:
    """A value of the codec's kinds that stands for `value`: a numpy number's number, a tensor's array, a set's list.

    Raises TypeError where there is none.
    """
    # `np.ma` may not be loaded, and workers cannot load it. What lies under a mask would cross with the rest.
    if isinstance(value, np.ndarray) and np.any(getattr(value, "mask", False)):
        raise TypeError("an array with masked entries; fill them first, as with .filled(0.0)")
    if isinstance(value, np.longdouble):  # whose item is itself
        return float(value)
    if isinstance(value, np.generic):
        return value.item() if value.dtype.kind in "biufSU" else _native(np.asarray(value))
    if hasattr(value, "detach"):  # a tensor
        value = value.detach().cpu().numpy()
    if isinstance(value, np.ndarray) or hasattr(value, "__array__"):
        return np.array(value, subok=False)
    for kind in _SUBSTITUTES:
        if isinstance(value, kind):
            return kind(value)
    if isinstance(value, bytearray | memoryview):
        return bytes(value)
    if isinstance(value, range | set | frozenset):
        return list(value)
    raise TypeError(f"a {type(value).__name__}; use numbers, texts, arrays, lists, tuples and dictionaries")


def _native(value: np.ndarray) -> np.ndarray:
    """An array of another byte order or precision as one that can be sent."""
    kind = value.dtype.kind
    if kind == "f":
        return value.astype(np.float64)
    if kind in "iu":
        return value.astype(value.dtype.newbyteorder("="))
    raise TypeError(f"an array of {value.dtype}; use numbers or truth values")


def decode(data: bytes | bytearray, at: int = 0, kept: Sequence[bytes] = ()) -> Any:
    """The one value that begins at `at` and ends with the data; its arrays are views of the data.

    Args:
        data: The message. Arrays read from a bytearray can be written to.
        at: Where the value begins.
        kept: The bytes of what the `Kept` in it stand for, by number; read anew each time, as lists can be
            written into.

    Raises:
        Malformed: If the bytes are no value.
    """
    try:
        value, end = _get(data, at, 0, kept, [0])
    except (struct.error, IndexError):
        raise Malformed("it ends too early") from None
    except UnicodeDecodeError:
        raise Malformed("a text in it is none") from None
    if end != len(data):
        raise Malformed("it does not end where it should")
    return value


def _get(data: Any, at: int, depth: int, kept: Sequence[bytes], parts: list[int]) -> tuple[Any, int]:
    """The value at a place and where it ends; `parts` counts those of the whole message."""
    kind = data[at]
    if kind == _FLOAT:
        return _FLOAT_HEAD.unpack_from(data, at)[1], at + 9
    if kind == _ARRAY:
        return _get_array(data, at)
    if kind == _INT:
        return _INT_HEAD.unpack_from(data, at)[1], at + 9
    if kind <= _TRUE:
        return _SINGLE[kind], at + 1
    count = _COUNT_HEAD.unpack_from(data, at)[1]
    at += 5
    if kind in _STRINGS:
        end = at + count
        if end > len(data):
            raise Malformed("it ends too early")
        return (data[at:end].decode() if kind == _TEXT else bytes(data[at:end])), end
    if kind == _KEPT and count < len(kept):
        return decode(kept[count]), at
    parts[0] += 2 * count if kind == _DICT else count
    if parts[0] > MAX_PARTS or depth >= MAX_DEPTH:
        raise Malformed("it has too many parts, or too deep ones")
    if kind in _SEQUENCES:
        found = []
        for _ in range(count):
            part, at = _get(data, at, depth + 1, kept, parts)
            found.append(part)
        return (found if kind == _LIST else tuple(found)), at
    if kind in _BLOCKS:
        code = "d" if kind == _FLOATS else "q"
        return list(struct.unpack_from(f"<{count}{code}", data, at)), at + 8 * count
    if kind != _DICT:
        raise Malformed("it is of an unknown kind")
    named: dict[str, Any] = {}
    for _ in range(count):
        if data[at] != _TEXT:
            raise Malformed("a dictionary in it has a key that is no text")
        key, at = _get(data, at, depth + 1, kept, parts)
        named[key], at = _get(data, at, depth + 1, kept, parts)
    return named, at


def _get_array(data: Any, at: int) -> tuple[np.ndarray, int]:
    _, code, dimensions = _ARRAY_HEAD.unpack_from(data, at)
    if code >= len(_DTYPES) or dimensions > _MAX_DIMENSIONS:
        raise Malformed("an array in it is none")
    shape = _LENGTHS[dimensions].unpack_from(data, at + 3)
    begin = at + 3 + 4 * dimensions
    begin += -begin % 8
    count = math.prod(shape)
    end = begin + count * _DTYPES[code].itemsize
    if end > len(data):
        raise Malformed("it ends too early")
    if count == 0:
        if math.prod(filter(None, shape)) > _LARGEST_EMPTY:
            raise Malformed("an array without numbers in it is too large")
        return np.zeros(shape, _DTYPES[code]), end
    flat = np.frombuffer(data, np.uint8 if code == _BOOL else _DTYPES[code], count, begin)
    if code == _BOOL:
        if flat.max() > 1:
            raise Malformed("a truth value in it is none")
        flat = flat.view(bool)
    return (flat if dimensions == 1 else flat.reshape(shape)), end
