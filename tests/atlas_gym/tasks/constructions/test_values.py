"""The constructions' values against computations that share no code with them."""

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from atlas_gym.evaluation.channel import CandidateError
from tests.atlas_gym.tasks.constructions.judged import value


def determinants(points):
    exact = [[Fraction(x) for x in point] for point in np.asarray(points).tolist()]
    return [
        abs((c - a) * (f - b) - (e - a) * (d - b))
        for (a, b), (c, d), (e, f) in itertools.combinations(exact, 3)
    ]


coordinate = st.floats(0, 0.5) | st.sampled_from([0.0, 0.25, 0.5, 5e-324])
points = st.lists(st.tuples(coordinate, coordinate), min_size=4, max_size=5, unique=True)


@given(points)
def test_areas_in_a_triangle(found):
    assert value("HeilbronnTriangle", found, n=len(found)) == min(determinants(found))


@given(points)
def test_areas_in_a_hull(found):
    """The hull is the largest polygon through some of the points."""
    exact = [tuple(map(Fraction, point)) for point in found]
    twice = max(
        sum(a * d - c * b for (a, b), (c, d) in itertools.pairwise([*ring, ring[0]]))
        for size in range(3, len(exact) + 1)
        for ring in itertools.permutations(exact, size)
    )
    if twice > 0:
        assert value("HeilbronnConvex", found, n=len(found)) == min(determinants(found)) / twice


@given(points)
def test_distances(found):
    squared = [
        sum((Fraction(x) - Fraction(y)) ** 2 for x, y in zip(a, b, strict=True))
        for a, b in itertools.combinations(found, 2)
    ]
    assert value("DistanceRatio", found, n=len(found)) == max(squared) / min(squared)


numbers = st.floats(0, 2) | st.integers(0, 3).map(float)


def correlation(first, second):
    """All sums Σ a_i b_{k−i}, one after the other."""
    n = len(first)
    return [sum(first[i] * second[k - i] for i in range(n) if 0 <= k - i < n) for k in range(2 * n - 1)]


@given(st.lists(numbers, min_size=1, max_size=8).filter(any))
def test_autoconvolutions(h):
    f = [Fraction(x) for x in h]
    g = correlation(f, f)
    assert value("Autocorrelation1", h) == 2 * len(f) * max(g) / sum(f) ** 2
    squares = sum((a * a + a * b + b * b) / 3 for a, b in itertools.pairwise([0, *g, 0]))
    assert value("Autocorrelation2", h) == squares / (sum(g) * max(g))


@given(st.lists(st.floats(-1, 2), min_size=1, max_size=8).filter(lambda h: sum(map(Fraction, h)) > 0))
def test_autoconvolutions_of_both_signs(h):
    f = [Fraction(x) for x in h]
    g = correlation(f, f)
    assert value("Autocorrelation3", h) == 2 * len(f) * max(g) / sum(f) ** 2
    assert value("Autocorrelation3", h, preset="absolute") == 2 * len(f) * max(map(abs, g)) / sum(f) ** 2


@given(st.lists(st.floats(0.5, 0.75), min_size=1, max_size=8))
def test_overlaps(h):
    scale = Fraction(len(h), 2) / sum(map(Fraction, h))
    f = [Fraction(x) * scale for x in h]
    overlap = max(
        sum(f[i] * (1 - f[i + k]) for i in range(len(f)) if 0 <= i + k < len(f))
        for k in range(-len(f), len(f))
    )
    assert value("MinimumOverlap", h) == 2 * overlap / len(f)


@given(st.sets(st.integers(1, 60), min_size=1, max_size=12))
def test_sums_and_differences(found):
    mpmath = pytest.importorskip("mpmath")
    u = sorted({0, *found})
    sums, differences = {a + b for a in u for b in u}, {a - b for a in u for b in u}
    with mpmath.workdps(60):
        theta = 1 + mpmath.log(mpmath.mpf(len(differences)) / len(sums)) / mpmath.log(2 * max(u) + 1)
        judged = value("SumsDifferences", u)
        below = theta - mpmath.mpf(judged.numerator) / judged.denominator
    assert 0 < below < 1e-35


@given(st.lists(st.lists(st.sampled_from([-1, 1]), min_size=4, max_size=4), min_size=4, max_size=4))
def test_determinants(rows):
    expanded = sum(
        (-1) ** sum(a > b for a, b in itertools.combinations(order, 2))
        * math.prod(rows[i][k] for i, k in enumerate(order))
        for order in itertools.permutations(range(4))
    )
    assert value("Hadamard", rows, n=4) == abs(expanded)


entry = st.integers(-3, 3)


@given(st.lists(st.tuples(entry, entry, entry, entry), min_size=2, max_size=5))
def test_angles_with_roots(rows):
    """Dimension 2, entries p + q √2, against 50 digits of √2: they tell apart what integers of one digit can be."""
    mpmath = pytest.importorskip("mpmath")
    with mpmath.workdps(50):
        vectors = [(p + q * mpmath.sqrt(2), r + s * mpmath.sqrt(2)) for p, q, r, s in rows]

        def dot(x, y):
            return x[0] * y[0] + x[1] * y[1]

        apart = all(
            2 * dot(x, y) <= mpmath.sqrt(dot(x, x) * dot(y, y)) + mpmath.mpf("1e-40")
            for x, y in itertools.combinations(vectors, 2)
        ) and all(dot(x, x) > 1e-40 for x in vectors)
    answer = [[(p, q), (r, s)] for p, q, r, s in rows]
    if apart:
        assert value("Kissing", answer, dimension=2) == len(rows)
    else:
        with pytest.raises(CandidateError):
            value("Kissing", answer, dimension=2)


@given(st.floats(-3, 3), st.floats(-3, 3), st.floats(-7, 7), st.floats(-7, 7))
def test_hexagons_with_fifty_digits(x, y, angle, around):
    """Two hexagons, one at the origin, by the distance of their Minkowski sum's edges."""
    mpmath = pytest.importorskip("mpmath")
    with mpmath.workdps(50):
        third, half_root = mpmath.pi / 3, mpmath.sqrt(3) / 2
        one = [(mpmath.cos(k * third), mpmath.sin(k * third)) for k in range(6)]
        two = [(x + mpmath.cos(angle + k * third), y + mpmath.sin(angle + k * third)) for k in range(6)]

        def clearance(corners, center, turn):
            edges = [turn + (k + mpmath.mpf(1) / 2) * third for k in range(6)]
            return max(
                min((u - center[0]) * mpmath.cos(e) + (v - center[1]) * mpmath.sin(e) for u, v in corners)
                for e in edges
            )

        gap = max(clearance(two, (0, 0), 0), clearance(one, (x, y), angle)) - half_root
        edges = [around + (k + mpmath.mpf(1) / 2) * third for k in range(6)]
        side = max(u * mpmath.cos(e) + v * mpmath.sin(e) for u, v in one + two for e in edges) / half_root
    answer = [(0.0, 0.0, 0.0), (x, y, angle)], (0.0, 0.0, around)
    if gap > 1e-25:
        judged = value("Hexagons", answer, n=2)
        with mpmath.workdps(50):
            assert 0 <= mpmath.mpf(judged.numerator) / judged.denominator - side < 1e-27
    elif gap < -1e-25:
        with pytest.raises(CandidateError, match="overlap"):
            value("Hexagons", answer, n=2)


@given(st.lists(st.tuples(st.floats(0, 1), st.floats(0, 1), st.floats(0, 0.3)), min_size=2, max_size=4))
def test_circles(found):
    exact = [tuple(map(Fraction, circle)) for circle in found]
    width = max(x + r for x, _, r in exact) - min(x - r for x, _, r in exact)
    height = max(y + r for _, y, r in exact) - min(y - r for _, y, r in exact)
    apart = all(
        (x - u) ** 2 + (y - v) ** 2 >= (r + s) ** 2
        for (x, y, r), (u, v, s) in itertools.combinations(exact, 2)
    )
    answer = [c[:2] for c in found], [c[2] for c in found]
    if apart and width + height <= 2:
        assert value("CirclesRectangle", answer, n=len(found)) == sum(r for _, _, r in exact)
    else:
        with pytest.raises(CandidateError):
            value("CirclesRectangle", answer, n=len(found))
