"""Circle packing: feasibility decided exactly, sums of radii known in closed form."""

import math

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from atlas_gym.evaluation.channel import CandidateError
from atlas_gym.tasks.circle_packing import CirclePacking, infeasibility
from tests.atlas_gym.tasks.in_process import judge_in_process

_UNIT = 2**1074
"""In units of the smallest float every float is a whole number."""


def whole(number):
    numerator, denominator = number.as_integer_ratio()
    return numerator * (_UNIT // denominator)


def feasible_in_whole_numbers(circles):
    """The definition once more, in integers of a thousand bits."""
    rows = [tuple(whole(float(value)) for value in circle) for circle in circles]
    inside = all(r >= 0 and r <= x <= _UNIT - r and r <= y <= _UNIT - r for x, y, r in rows)
    apart = all(
        (x - u) * (x - u) + (y - v) * (y - v) >= (r + s) * (r + s)
        for k, (x, y, r) in enumerate(rows)
        for u, v, s in rows[:k]
    )
    return inside and apart


def packed(circles, best_known=2.0):
    circles = np.asarray(circles, dtype=float)
    program = f"def pack(n):\n    return {circles[:, :2].tolist()}, {circles[:, 2].tolist()}\n"
    return judge_in_process(program, CirclePacking(n=len(circles), best_known=best_known))


coordinates = st.floats(0, 1) | st.sampled_from([0.0, 0.25, 0.5, 0.75, 1.0, math.nextafter(0.25, 1)])
circle = st.tuples(coordinates, coordinates, st.floats(-0.1, 0.5) | st.sampled_from([0.0, 0.25, 0.5]))


@given(st.lists(circle, min_size=1, max_size=4))
@example([(0.25, 0.5, 0.25), (0.75, 0.5, 0.25)])
@example([(0.25, 0.5, 0.25), (0.75, 0.5, math.nextafter(0.25, 1))])
@example([(0.5, 0.5, 0.0), (0.5, 0.5, 0.0)])
@example([(0.5, 0.5, 5e-324), (0.5, 0.5, 0.0)])
def test_feasibility_is_exact(circles):
    assert (infeasibility(np.array(circles)) == "") == feasible_in_whole_numbers(circles)


def test_touching_circles_and_walls_are_feasible_to_the_last_bit():
    touching = np.array([[0.25, 0.25, 0.25], [0.75, 0.25, 0.25], [0.25, 0.75, 0.25], [0.75, 0.75, 0.25]])
    assert infeasibility(touching) == ""
    for row in range(4):
        for column, towards in ((0, 0), (0, 1), (1, 0), (1, 1), (2, 1)):
            nudged = touching.copy()
            nudged[row, column] = np.nextafter(nudged[row, column], towards)
            assert infeasibility(nudged) != "", (row, column)


@pytest.mark.timeout(60)
def test_no_pair_of_points_or_of_dust_is_looked_at_exactly():
    """There may be fifty million pairs, all within a millionth, and nobody would end the judge."""
    points = np.full((3000, 3), (0.5, 0.5, 0.0))
    dust = np.column_stack([np.linspace(0.5, 0.5 + 1e-6, 3000), np.full(3000, 0.5), np.full(3000, 1e-11)])
    for circles in (points, dust):
        assert infeasibility(circles) == ""


@pytest.mark.parametrize(
    ("circles", "message"),
    [
        ([(0.5, 0.5, -0.1)], "circle 0 with a radius below 0"),
        ([(0.5, 0.5, 0.6)], "circle 0 beyond the square's edge by 0.1"),
        ([(0.2, 0.2, 0.1), (0.9, 0.5, 0.2)], "circle 1 beyond the square's edge by 0.1"),
        ([(0.3, 0.5, 0.2), (0.8, 0.8, 0.1), (0.6, 0.5, 0.2)], "circles 0 and 2 overlapping by 0.1"),
        ([(0.5, 0.5, 0.5), (0.5, 0.5, 0.0)], "circles 0 and 1 overlapping by 0.5"),
    ],
)
def test_what_is_wrong_is_named(circles, message):
    with pytest.raises(CandidateError, match=f"pack returned {message}"):
        packed(circles)


def test_the_score_is_the_sum_of_the_radii_against_the_best_known():
    judgement = packed([(0.25, 0.25, 0.25), (0.75, 0.75, 0.125)], best_known=0.5)
    assert judgement.score == 0.375 - 0.5
    assert judgement.metrics["sum_of_radii"] == 0.375
    assert judgement.traces["circles"].tolist() == [[0.25, 0.25, 0.25], [0.75, 0.75, 0.125]]
    assert "1 circles touch nothing" in judgement.diagnosis


@pytest.mark.parametrize("name", ["start", "inlined", "scratch", "grid"])
@pytest.mark.parametrize("n", [*range(1, 12), 26, 32, 37])
def test_programs_that_come_along_are_feasible_for_any_number(name, n):
    most = math.sqrt(n / math.pi)  # circles as large together as the square
    task = CirclePacking(n=n, best_known=most)
    assert 0 < judge_in_process(CirclePacking.programs[name].program, task).metrics["sum_of_radii"] < most


def test_the_start_reads_the_same_with_its_constants_inlined():
    sums = [
        judge_in_process(CirclePacking.programs[name].program, CirclePacking())
        for name in ("start", "inlined")
    ]
    np.testing.assert_allclose(sums[0].traces["circles"], sums[1].traces["circles"], atol=1e-15)


def test_two_circles_are_packed_as_well_as_can_be():
    """The best for two is on the diagonal: their radii sum to 2 − √2."""
    task = CirclePacking(n=2, best_known=2 - math.sqrt(2))
    score = judge_in_process(CirclePacking.programs["slsqp"].program, task).score
    assert score == pytest.approx(0, abs=1e-6)


def test_experts_come_in_the_order_that_the_gallery_shows():
    score = {
        name: judge_in_process(e.program, CirclePacking()).score for name, e in CirclePacking.programs.items()
    }
    assert 0 > score["slsqp"] > score["grid"] > score["start"] > score["scratch"] > CirclePacking.floor


def test_circles_of_the_largest_floats_are_refused_in_words():
    largest = np.finfo(float).max
    assert "beyond the square's edge" in infeasibility(np.full((2, 3), largest))
    assert "beyond the square's edge" in infeasibility(np.array([[-largest, 0.5, largest]]))
