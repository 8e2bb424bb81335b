"""A program's answer, and the checks through which a task may use it."""

import math
from collections.abc import Sequence
from typing import Any, NoReturn

import numpy as np

from atlas_gym.evaluation.channel import CandidateError
from atlas_gym.text import sanitise

_RANK = {"b": 0, "u": 1, "i": 1, "f": 2}
"""Kinds of arrays; one counts as another of the same or a higher rank."""

_FLOAT64 = np.dtype(float)


class Answer:
    """A program's answer; every method ends the evaluation with a message unless it is what is asked for.

    Example:
        >>> Answer("pack", [0.5, 0.25]).array(2)
        array([0.5 , 0.25])
        >>> Answer("pack", "half").number()
        Traceback (most recent call last):
        atlas_gym.evaluation.channel.CandidateError: pack returned a str; return a number
    """

    __slots__ = ("_name", "value")

    def __init__(self, name: str, value: Any) -> None:
        self._name = name
        self.value = value
        """Unchecked: None, a truth value, number, text, bytes, array (read-only), or list, tuple or dictionary."""

    def array(
        self,
        shape: Sequence[int] | int | None = None,
        dtype: Any = float,
        *,
        finite: bool = True,
        empty: bool = False,
    ) -> np.ndarray:
        """The answer as a fresh array, which may be written into; lists of numbers count as arrays.

        Args:
            shape: Required shape, -1 where any length will do; None: any shape.
            dtype: Of the array returned. Floats are not taken for whole numbers.
            finite: Refuse NaN and infinity.
            empty: Take one without numbers also where the shape does not ask for it, though a sum over it is 0.
        """
        value = self.value
        if type(value) is not np.ndarray:
            if not _is_numeric(value):  # numpy would give each of many texts the room of the longest
                self.refuse(self._kind(), "an array of numbers")
            try:
                value = np.array(value)
            except ValueError:
                self.refuse("a list of parts of unequal length", "an array")
        if shape is not None:
            wanted = (shape,) if isinstance(shape, int | np.integer) else tuple(shape)
            if value.shape != wanted and (
                len(wanted) != value.ndim
                or any(w not in (-1, n) for w, n in zip(wanted, value.shape, strict=True))
            ):
                told = f"shape {tuple(map(int, wanted))}"  # numpy's integers would show as such
                self.refuse(f"an array of shape {value.shape}", told.replace("-1", "any"))
        if value.size == 0 and not empty and (shape is None or 0 not in wanted):
            self.refuse("an array without numbers", "at least one")
        if finite and value.dtype.kind == "f" and not np.logical_and.reduce(np.isfinite(value), axis=None):
            self.refuse("an array with NaN or infinity in it", "finite numbers")
        return value.copy() if dtype is float and value.dtype is _FLOAT64 else self._converted(value, dtype)

    def ranking(self, length: int) -> np.ndarray:
        """The answer as a fresh array of so many numbers whose order counts alone: infinity is one, NaN is not."""
        values = self.array(length, finite=False)
        if np.isnan(values).any():
            self.refuse("an array with NaN in it", "numbers that can be ordered")
        return values

    def number(self, low: float = -math.inf, high: float = math.inf) -> float:
        """The answer as a finite float from `low` to `high`; an array of one number counts, a truth value does not."""
        value = self._scalar()
        if type(value) is not float and type(value) is not int:
            self.refuse(self._kind(), "a number")
        if not math.isfinite(value):
            self.refuse(f"{value}", "a finite number")
        if not low <= value <= high:
            # Bounds may be fractions, which Python 3.11 does not format.
            self.refuse(f"{value:g}", f"a number from {float(low):g} to {float(high):g}")
        return float(value)

    def integer(self, low: int, high: int) -> int:
        """The answer as a whole number from `low` to `high`; truth values and floats do not count."""
        value = self._scalar()
        if type(value) is not int:
            self.refuse(self._kind(), f"an integer from {low} to {high}, e.g. int(np.argmax(scores))")
        if not low <= value <= high:
            self.refuse(f"{value}", f"an integer from {low} to {high}")
        return int(value)

    def text(self, most: int = 10_000) -> str:
        """The answer as text of at most so many characters; what is unprintable is replaced."""
        if type(self.value) is not str:
            self.refuse(self._kind(), "a text")
        if len(self.value) > most:
            self.refuse(f"a text of {len(self.value)} characters", f"at most {most}")
        return sanitise(self.value, most)

    def parts(self, count: int | None = None, *, empty: bool = False) -> "list[Answer]":
        """The parts of a list or tuple, each to be looked at in turn: so many, or with None any number, none only
        if `empty`."""
        wanted = "a list" if count is None else f"{count} values"
        if type(self.value) is not tuple and type(self.value) is not list:
            self.refuse(self._kind(), wanted)
        if count is not None and len(self.value) != count:
            self.refuse(f"{len(self.value)} values", wanted)
        if not self.value and count is None and not empty:
            self.refuse("an empty list", "at least one value")
        return [Answer(f"{self._name} (value {k})", part) for k, part in enumerate(self.value, start=1)]

    def entry(self, name: str) -> "Answer":
        """What a dictionary has under a name."""
        if type(self.value) is not dict:
            self.refuse(self._kind(), f"a dictionary with {name!r} in it")
        if name not in self.value:
            self.refuse(f"a dictionary without {name!r}", "one that has it")
        return Answer(f"{self._name} ({name})", self.value[name])

    def refuse(self, found: str, wanted: str) -> NoReturn:
        """End the evaluation: the program returned `found` where `wanted` was wanted."""
        raise CandidateError(f"{self._name} returned {found}; return {wanted}")

    def _scalar(self) -> Any:
        value = self.value
        return value.reshape(()).item() if type(value) is np.ndarray and value.size == 1 else value

    def _converted(self, value: np.ndarray, dtype: Any) -> np.ndarray:
        wanted = np.dtype(dtype)
        if _RANK[value.dtype.kind] > _RANK.get(wanted.kind, -1):
            self.refuse(f"an array of {value.dtype}", f"an array of {wanted}")
        with np.errstate(over="ignore"):
            converted = value.astype(wanted)
        if wanted.kind in "iu":
            fits = np.array_equal(converted, value)
        else:
            fits = np.array_equal(np.isfinite(converted), np.isfinite(value))
        if not fits:
            self.refuse("numbers too large", f"numbers that {wanted} holds")
        return converted

    def _kind(self) -> str:
        value = self.value
        if value is None:
            return "None (is a return statement missing?)"
        if type(value) is np.ndarray:
            return f"an array of {value.dtype} and shape {value.shape}"
        kind = type(value).__name__
        return f"an {kind}" if kind[0] in "aeiou" else f"a {kind}"


def _is_numeric(value: Any) -> bool:
    """Nothing but numbers and truth values is in a value."""
    kind = type(value)
    if kind is list or kind is tuple:
        return all(map(_is_numeric, value))
    return kind is float or kind is int or kind is bool or kind is np.ndarray
