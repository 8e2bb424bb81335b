"""Values that cross between the trusted side and a worker: a closed set of kinds, laid out in bytes.

None, truth values, integers of 64 bits, floats, texts, bytes, arrays of numbers or truth values, and lists, tuples
and dictionaries (whose keys are texts) of these. Reading makes nothing else and runs nothing. Every length is
compared with the bytes that are there before anything is made of it, so what reading allocates is in proportion to
what has already arrived.

An array's numbers begin at a multiple of eight bytes from the start of the message, so that they are read where
they lie. A list of floats or of integers alone is one block, a tenth of the work of one value after the other.
"""

import struct
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
_INT_HEAD, _FLOAT_HEAD, _COUNT_HEAD = struct.Struct("<Bq"), struct.Struct("<Bd"), struct.Struct("<BI")
_ARRAY_HEAD = struct.Struct("<BBB")
_LENGTHS = tuple(struct.Struct(f"<{n}I") for n in range(_MAX_DIMENSIONS + 1))
_PADDING = tuple(bytes(n) for n in range(8))
_SUBCLASSED: tuple[Any, ...] = (int, float, str, bytes, tuple, list, dict)
_BLOCK = 4
"""Lists of one kind of number are a block from this length on."""


class Malformed(ValueError):
    """Bytes that are no value."""


class Kept:
    """Stands for a value that the worker has been sent before."""

    __slots__ = ("number",)

    def __init__(self, number: int) -> None:
        self.number = number


class Encoder:
    """Writes one message; raises TypeError or OverflowError, naming the remedy, for what cannot be sent."""

    __slots__ = ("_parts", "out")

    def __init__(self, head: int = 0) -> None:
        """`head`: bytes to leave free at the beginning."""
        self.out = bytearray(head)
        self._parts = 0

    def put(self, value: Any, depth: int = 0) -> None:
        """Append a value."""
        kind = type(value)
        if kind is float:
            self.out += _FLOAT_HEAD.pack(_FLOAT, value)
        elif kind is np.ndarray:
            self._put_array(value)
        elif kind is int:
            self._put_int(value)
        elif kind is list or kind is tuple:
            self._put_sequence(value, kind, depth)
        elif value is None:
            self.out.append(_NONE)
        elif kind is bool:
            self.out.append(_TRUE if value else _FALSE)
        elif kind is str:
            self._put_bytes(_TEXT, value.encode())
        elif kind is bytes:
            self._put_bytes(_BYTES, value)
        elif kind is dict:
            self._put_dict(value, depth)
        elif kind is Kept:
            self.out += _COUNT_HEAD.pack(_KEPT, value.number)
        else:
            self.put(plain(value), depth)

    def _put_int(self, value: int) -> None:
        try:
            self.out += _INT_HEAD.pack(_INT, value)
        except struct.error:
            raise OverflowError("an integer beyond 64 bits; use a float") from None

    def _put_bytes(self, kind: int, data: bytes) -> None:
        self.out += _COUNT_HEAD.pack(kind, len(data))
        self.out += data

    def _put_sequence(self, value: Any, kind: type, depth: int) -> None:
        count = len(value)
        self._enter(count, depth)
        if kind is list and count >= _BLOCK and self._put_block(value, count):
            return
        self.out += _COUNT_HEAD.pack(_LIST if kind is list else _TUPLE, count)
        for part in value:
            self.put(part, depth + 1)

    def _put_block(self, value: list[Any], count: int) -> bool:
        kinds = set(map(type, value))
        if kinds == {float}:
            self.out += _COUNT_HEAD.pack(_FLOATS, count) + struct.pack(f"<{count}d", *value)
            return True
        if kinds != {int}:
            return False
        try:
            numbers = struct.pack(f"<{count}q", *value)
        except struct.error:
            raise OverflowError("an integer beyond 64 bits; use a float") from None
        self.out += _COUNT_HEAD.pack(_INTS, count) + numbers
        return True

    def _put_dict(self, value: dict[Any, Any], depth: int) -> None:
        self._enter(2 * len(value), depth)
        self.out += _COUNT_HEAD.pack(_DICT, len(value))
        for key, part in value.items():
            if type(key) is not str:
                raise TypeError(f"a dictionary with a {type(key).__name__} as key; use texts")
            self._put_bytes(_TEXT, key.encode())
            self.put(part, depth + 1)

    def _enter(self, parts: int, depth: int) -> None:
        self._parts += parts
        if self._parts > MAX_PARTS:
            raise TypeError(f"more than {MAX_PARTS} values in lists; use an array")
        if depth >= MAX_DEPTH:
            raise TypeError(f"lists nested more than {MAX_DEPTH} deep")

    def _put_array(self, value: np.ndarray) -> None:
        code = _CODES.get(value.dtype)
        if code is None:
            self._put_array(_native(value))
            return
        shape = value.shape
        if len(shape) > _MAX_DIMENSIONS:
            raise TypeError(f"an array of more than {_MAX_DIMENSIONS} dimensions")
        out = self.out
        out += _ARRAY_HEAD.pack(_ARRAY, code, len(shape)) + _LENGTHS[len(shape)].pack(*shape)
        out += _PADDING[-len(out) % 8]
        out += value.data if value.flags.c_contiguous and value.size else value.tobytes()


def encode(value: Any, head: int = 0) -> bytearray:
    """A value's bytes behind `head` free ones; raises as `Encoder`."""
    encoder = Encoder(head)
    encoder.put(value)
    return encoder.out


def plain(value: Any) -> Any:
    """A value of the kinds above that stands for `value`: a numpy number's number, a tensor's array, a set's list.

    Raises TypeError where there is none.
    """
    if isinstance(value, np.generic):
        return value.item() if value.dtype.kind in "biufSU" else _native(np.asarray(value))
    if hasattr(value, "detach"):  # a tensor
        value = value.detach().cpu().numpy()
    if isinstance(value, np.ndarray) or hasattr(value, "__array__"):
        return np.array(value, subok=False)
    for kind in _SUBCLASSED:
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


class _Decoder:
    """Reads one message."""

    __slots__ = ("_at", "_data", "_kept", "_parts")

    def __init__(self, data: Any, at: int, kept: list[Any]) -> None:
        self._data = data
        self._at = at
        self._kept = kept
        self._parts = 0

    def message(self) -> Any:
        value = self.get(0)
        if self._at != len(self._data):
            raise Malformed("it does not end where it should")
        return value

    def get(self, depth: int) -> Any:
        data, at = self._data, self._at
        kind = data[at]
        if kind == _FLOAT:
            self._at = at + 9
            return _FLOAT_HEAD.unpack_from(data, at)[1]
        if kind == _ARRAY:
            return self._array()
        if kind == _INT:
            self._at = at + 9
            return _INT_HEAD.unpack_from(data, at)[1]
        if kind == _NONE:
            self._at = at + 1
            return None
        if kind in (_TRUE, _FALSE):
            self._at = at + 1
            return kind == _TRUE
        count = _COUNT_HEAD.unpack_from(data, at)[1]
        self._at = at + 5
        if kind in (_LIST, _TUPLE):
            self._enter(count, depth)
            parts = [self.get(depth + 1) for _ in range(count)]
            return parts if kind == _LIST else tuple(parts)
        if kind == _TEXT:
            return self._take(count).decode()
        if kind == _BYTES:
            return bytes(self._take(count))
        if kind in (_FLOATS, _INTS):
            return self._block(count, depth, "d" if kind == _FLOATS else "q")
        if kind == _DICT:
            return self._dict(count, depth)
        if kind == _KEPT and count < len(self._kept):
            return self._kept[count]
        raise Malformed("it is of an unknown kind")

    def _enter(self, parts: int, depth: int) -> None:
        self._parts += parts
        if self._parts > MAX_PARTS or depth >= MAX_DEPTH:
            raise Malformed("it has too many parts, or too deep ones")

    def _take(self, count: int) -> Any:
        begin = self._at
        self._at = begin + count
        if self._at > len(self._data):
            raise Malformed("it ends too early")
        return self._data[begin : self._at]

    def _block(self, count: int, depth: int, code: str) -> list[Any]:
        self._enter(count, depth)
        return list(struct.unpack(f"<{count}{code}", self._take(8 * count)))

    def _dict(self, count: int, depth: int) -> dict[str, Any]:
        self._enter(2 * count, depth)
        found: dict[str, Any] = {}
        for _ in range(count):
            kind, length = _COUNT_HEAD.unpack_from(self._data, self._at)
            if kind != _TEXT:
                raise Malformed("a dictionary in it has a key that is no text")
            self._at += 5
            key = self._take(length).decode()
            found[key] = self.get(depth + 1)
        return found

    def _array(self) -> np.ndarray:
        data, at = self._data, self._at
        _, code, dimensions = _ARRAY_HEAD.unpack_from(data, at)
        if code >= len(_DTYPES) or dimensions > _MAX_DIMENSIONS:
            raise Malformed("an array in it is none")
        shape = _LENGTHS[dimensions].unpack_from(data, at + 3)
        begin = at + 3 + 4 * dimensions
        begin += -begin % 8
        count = 1
        for length in shape:
            count *= length
        self._at = begin + count * _DTYPES[code].itemsize
        if self._at > len(data):
            raise Malformed("it ends too early")
        if count == 0:
            return _empty(shape, _DTYPES[code])
        flat = np.frombuffer(data, np.uint8 if code == _BOOL else _DTYPES[code], count, begin)
        if code == _BOOL:
            if flat.max() > 1:
                raise Malformed("a truth value in it is none")
            flat = flat.view(bool)
        return flat if dimensions == 1 else flat.reshape(shape)


def _empty(shape: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
    try:
        return np.zeros(shape, dtype)
    except ValueError:  # numpy bounds the product of the other dimensions
        raise Malformed("an array in it is none") from None


def decode(data: bytes | bytearray, at: int = 0, kept: list[Any] | None = None) -> Any:
    """The one value that begins at `at` and ends with the data; its arrays are views of the data.

    Args:
        data: The message. Arrays read from a bytearray can be written to.
        at: Where the value begins.
        kept: What the `Kept` in it stand for, by number; none without it.

    Raises:
        Malformed: If the bytes are no value.
    """
    try:
        return _Decoder(data, at, kept or []).message()
    except (struct.error, IndexError):
        raise Malformed("it ends too early") from None
    except UnicodeDecodeError:
        raise Malformed("a text in it is none") from None
