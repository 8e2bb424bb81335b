"""Numbers as they are: floats are read as the rational numbers that they stand for, and nothing is rounded."""

import math
from fractions import Fraction

import numpy as np

from atlas_gym.tasks.answer import Answer

_MOST_BITS = 2**24
"""Of a polynomial that is multiplied: some seconds of integer arithmetic."""


def whole(numbers: np.ndarray) -> np.ndarray:
    """Integers (of any size, an array of objects) in the ratios of finite numbers, all times the same power of 2."""
    ratios = [number.as_integer_ratio() for number in numbers.ravel().tolist()]
    unit = max((denominator for _, denominator in ratios), default=1)
    scaled = np.empty(len(ratios), dtype=object)
    scaled[:] = [numerator * (unit // denominator) for numerator, denominator in ratios]
    return scaled.reshape(numbers.shape)


def heights(answer: Answer, most: int, *, signed: bool = False) -> tuple[np.ndarray, list[int]]:
    """A step function that a program returned: its heights as floats and as integers in the same ratios.

    Ends the evaluation unless there are 1 to `most` finite numbers, with an integral above 0, and none below 0 unless
    `signed`.
    """
    steps = answer.array((-1,))
    if not 1 <= len(steps) <= most:
        answer.refuse(f"{len(steps)} heights", f"1 to {most:,}")
    if not signed and (steps < 0).any():
        answer.refuse(f"a height below 0, {steps.min():.3g}", "a function that is nowhere negative")
    numbers: list[int] = whole(steps).tolist()
    if sum(numbers) <= 0:
        answer.refuse("a function whose integral is not above 0", "one with a positive integral")
    common = math.gcd(*numbers)
    numbers = [number // common for number in numbers]
    if 8 * len(numbers) * _width(numbers, numbers) > _MOST_BITS:
        answer.refuse(
            "heights of too many bits to be multiplied exactly",
            "fewer steps, or heights that are rounded, e.g. np.round(h / h.max() * 2**40)",
        )
    return steps, numbers


def convolved(first: list[int], second: list[int]) -> list[int]:
    """The coefficients of the product of two polynomials, exactly: as two long integers (Kronecker 1882)."""
    width = _width(first, second)
    product = _packed(first, width) * _packed(second, width)
    count, half = len(first) + len(second) - 1, 1 << (8 * width - 1)
    # With half added to each coefficient none is negative, and nothing is borrowed from the next one.
    shifted = product + int.from_bytes(half.to_bytes(width, "little") * count, "little")
    digits = shifted.to_bytes(width * count + 1, "little")
    return [int.from_bytes(digits[k : k + width], "little") - half for k in range(0, width * count, width)]


def _packed(numbers: list[int], width: int) -> int:
    parts = [b"".join(max(0, sign * n).to_bytes(width, "little") for n in numbers) for sign in (1, -1)]
    return int.from_bytes(parts[0], "little") - int.from_bytes(parts[1], "little")


def _width(first: list[int], second: list[int]) -> int:
    """Bytes that hold every coefficient of the product, with its sign."""
    largest = [max(abs(max(n)), abs(min(n))).bit_length() for n in (first, second)]
    return (sum(largest) + min(len(first), len(second)).bit_length() + 9) // 8


def at_most(number: Fraction) -> float:
    """The largest float that is not above a rational number."""
    nearest = float(number)
    return nearest if Fraction(nearest) <= number else math.nextafter(nearest, -math.inf)


def cosine_and_sine(angle: Fraction) -> tuple[Fraction, Fraction]:
    """Of at most 1,000 radians, both wrong by less than 1e-40: Taylor's series at a 1024th, which is doubled."""
    unit = 2**200
    cosine = sine = 0
    term, k = unit, 0
    while term:
        cosine += (term, 0, -term, 0)[k % 4]
        sine += (0, term, 0, -term)[k % 4]
        k += 1
        term = int(term * angle / (1024 * k))
    for _ in range(10):
        cosine, sine = (cosine * cosine - sine * sine) // unit, 2 * cosine * sine // unit
    return Fraction(cosine, unit), Fraction(sine, unit)
