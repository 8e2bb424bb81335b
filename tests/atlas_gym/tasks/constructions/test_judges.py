"""The constructions' judges: exact at the border of feasibility, and told of in words beyond it."""

import math
from fractions import Fraction

import numpy as np
import pytest

from atlas_gym.evaluation.channel import CandidateError
from atlas_gym.tasks.answer import Answer
from atlas_gym.tasks.registry import BUILT_IN, make_task
from tests.atlas_gym.tasks.constructions.judged import value

PROBLEMS = [env_id for env_id in BUILT_IN if env_id.startswith("ATLAS-Construct-")]
SQUARE = [(0.0, 0.0), (1.0, 0.0), (0.0, 1.0), (0.5, 0.25)]
HONEYCOMB = [(0.0, 0.0, math.pi / 6), (1.7320508075688779, 0.0, math.pi / 6)]  # √3 rounded up, and then some
GOOD = {
    "CirclesRectangle": ({"n": 2}, ([(0.25, 0.5), (0.75, 0.5)], [0.25, 0.25])),
    "HeilbronnTriangle": ({"n": 4}, SQUARE),
    "HeilbronnConvex": ({"n": 4}, SQUARE),
    "DistanceRatio": ({"n": 4}, SQUARE),
    "Kissing": ({"dimension": 3}, [(1, 1, 0), (1, -1, 0), (0, 1, 1), (1, 0, 1)]),
    "Autocorrelation1": ({}, [1.0, 0.5, 0.25, 1.5]),
    "Autocorrelation2": ({}, [1.0, 0.5, 0.25, 1.5]),
    "Autocorrelation3": ({}, [1.0, -0.5, 0.25, 1.5]),
    "MinimumOverlap": ({}, [0.5, 1.0, 0.75, 0.25]),
    "SumsDifferences": ({}, [0, 1, 3, 7]),
    "Hadamard": ({"n": 3}, [(1, 1, -1), (1, -1, 1), (-1, 1, 1)]),
    "Hexagons": ({"n": 2}, (HONEYCOMB, [0.8, 0.1, 0.3])),
}
"""Keywords and a feasible answer."""
SCALE_FREE = ["HeilbronnConvex", "DistanceRatio", "Kissing"]
SCALE_FREE += ["Autocorrelation1", "Autocorrelation2", "Autocorrelation3", "MinimumOverlap"]


def plain(answer):
    """As it comes from a worker: tuples with arrays."""
    if isinstance(answer, tuple):
        return tuple(np.array(part) for part in answer)
    return np.array(answer)


def test_every_problem_is_tested():
    assert [f"ATLAS-Construct-{name}-v0" for name in GOOD] == PROBLEMS


@pytest.mark.parametrize("name", GOOD)
def test_a_good_answer_has_a_value_as_lists_and_as_arrays(name):
    constants, answer = GOOD[name]
    assert value(name, answer, **constants) == value(name, plain(answer), **constants) > 0


@pytest.mark.parametrize(
    ("name", "answer"),
    [
        ("CirclesRectangle", ([(0.25, 0.5), (0.75 - 1e-10, 0.5)], [0.25, 0.25])),
        ("CirclesRectangle", ([(0.5, 0.5), (0.0, 0.0)], [0.5 + 1e-10, 0.0])),
        ("CirclesRectangle", ([(0.25, 0.5), (0.75, 0.5)], [0.25, -1e-10])),
        ("HeilbronnTriangle", [*SQUARE[:3], (0.5 + 1e-10, 0.5)]),
        ("HeilbronnTriangle", [*SQUARE[:3], (-5e-324, 0.5)]),
        ("HeilbronnConvex", [(0, 0), (1, 1), (2, 2), (3, 3)]),
        ("DistanceRatio", [*SQUARE[:3], (1.0, 0.0)]),
        ("Kissing", [(1, 1, 0), (1, 1 - 1e-10, 1)]),
        ("Kissing", [(1, 1, 0), (1, 1, 0)]),
        ("Kissing", [(1, 1, 0), (0, 0, 0)]),
        ("Autocorrelation1", [1.0, -1e-10]),
        ("Autocorrelation2", [1.0, -5e-324]),
        ("Autocorrelation3", [1.0, -1.0]),
        ("Autocorrelation1", [0.0, 0.0]),
        ("MinimumOverlap", [1.0, 1.0, 0.0, 1e-10 * -1]),
        ("MinimumOverlap", [1.0, 1.0 + 1e-10, 0.0, 0.0]),
        ("SumsDifferences", [0, 1, 1]),
        ("SumsDifferences", [1, 2]),
        ("SumsDifferences", [0, -1]),
        ("SumsDifferences", [0.0, 1.0]),
        ("Hadamard", [(1, 1, -1), (1, -1, 1), (-1, 1, 1 + 1e-10)]),
        ("Hadamard", [(1, 1, 0), (1, -1, 1), (-1, 1, 1)]),
        ("Hexagons", ([HONEYCOMB[0], (math.sqrt(3) - 1e-10, 0.0, math.pi / 6)], [0.8, 0.1, 0.3])),
        ("Hexagons", ([HONEYCOMB[0], HONEYCOMB[0]], [0.8, 0.1, 0.3])),
        ("Hexagons", ([HONEYCOMB[0], (1e300, 0.0, 0.0)], [0.8, 0.1, 0.3])),
    ],
)
def test_what_is_off_by_less_than_a_tolerance_is_refused(name, answer):
    with pytest.raises(CandidateError):
        value(name, answer, **GOOD[name][0])


@pytest.mark.parametrize(
    ("name", "answer"),
    [
        ("CirclesRectangle", ([(0.5, 0.5), (0.0, 0.0)], [0.5, 0.0])),
        ("CirclesRectangle", ([(-7.5, 9.0), (-7.0, 9.0)], [0.5, 0.0])),
        ("HeilbronnTriangle", [(0, 0), (0.5, 0.5), (1, 0), (0.25, 5e-324)]),
        ("Kissing", [(2**40, 2**40, 0), (1, 0, 1)]),
        ("Kissing", [[(0, 1), (0, 1), (0, 0)], [(2, 0), (0, 0), (2, 0)]]),
        ("Autocorrelation3", [1.0, -1.0 + 2**-53]),
        ("MinimumOverlap", [1.0, 1.0, 0.0, 0.0]),
        ("MinimumOverlap", [3, 3, 0, 0]),
        ("SumsDifferences", [0, 2**62 - 1]),
    ],
)
def test_what_touches_the_border_is_feasible(name, answer):
    assert value(name, answer, **GOOD[name][0]) > 0


@pytest.mark.parametrize("name", GOOD)
@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
def test_numbers_that_are_not_finite_are_refused(name, bad):
    constants, answer = GOOD[name]
    parts = answer if isinstance(answer, tuple) else (answer,)
    spoiled = [np.array(part, dtype=float) for part in parts]
    spoiled[0].flat[-1] = bad
    with pytest.raises(CandidateError):
        value(name, tuple(spoiled) if isinstance(answer, tuple) else spoiled[0], **constants)


@pytest.mark.parametrize("name", GOOD)
@pytest.mark.parametrize("answer", [None, "a text", [], [[1.0], [1.0, 2.0]], 3.0, {"x": 1}, ([], [])])
def test_what_is_no_construction_is_refused_in_words(name, answer):
    with pytest.raises(CandidateError, match="returned"):
        value(name, answer, **GOOD[name][0])


@pytest.mark.parametrize("name", SCALE_FREE)
@pytest.mark.parametrize("exponent", [-1000, 1000])
def test_a_power_of_two_changes_no_value(name, exponent):
    constants, answer = GOOD[name]
    scaled = np.ldexp(np.array(answer, dtype=float), exponent)
    assert value(name, scaled, **constants) == value(name, answer, **constants)


@pytest.mark.parametrize("name", GOOD)
def test_the_score_is_the_share_of_the_best_known_rounded_down(name):
    constants, answer = GOOD[name]
    task = make_task(f"ATLAS-Construct-{name}-v0", **{"best_known": 1} | constants)
    exact = value(name, answer, **constants) / Fraction(repr(task.best_known)) - 1
    exact = -exact if task.lower_is_better else exact
    judgement = task.score(lambda *_: Answer(task.function, plain(answer)), task.arguments())
    assert Fraction(judgement.score) <= max(exact, -10) < Fraction(math.nextafter(judgement.score, math.inf))


def test_heights_that_would_keep_the_judge_busy_are_refused():
    spread = np.ldexp(1.0, np.linspace(-1000, 1000, 50_000).astype(int))
    gaussian = np.exp(
        -(np.linspace(-26.0, 26.0, 20_000) ** 2)
    )  # minutes, at twice the bits of a float a number
    for steps in (spread, gaussian):
        with pytest.raises(CandidateError, match="too many bits"):
            value("Autocorrelation1", steps)
    with pytest.raises(CandidateError, match="too many to be multiplied"):
        value("Kissing", spread[:11_000].reshape(1000, 11))


@pytest.mark.parametrize("kind", [np.float64, np.int64, int])
def test_the_best_known_may_be_any_number(kind):
    constants, answer = GOOD["DistanceRatio"]
    task = make_task("ATLAS-Construct-DistanceRatio-v0", **constants | {"best_known": kind(2)})
    judgement = task.score(lambda *_: Answer(task.function, plain(answer)), task.arguments())
    assert judgement.score == pytest.approx(1 - value("DistanceRatio", answer, **constants) / 2)
