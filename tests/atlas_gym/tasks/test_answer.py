"""An answer is used once it is what was asked for; otherwise the message tells the program's author what to return."""

from fractions import Fraction

import numpy as np
import pytest

from atlas_gym.evaluation import CandidateError
from atlas_gym.tasks.answer import Answer


def refused(value, method, *arguments, **keywords):
    with pytest.raises(CandidateError) as caught:
        getattr(Answer("rank", value), method)(*arguments, **keywords)
    return caught.value.text


@pytest.mark.parametrize(
    ("value", "arguments", "expected"),
    [
        (np.arange(3.0), (3,), np.arange(3.0)),
        ([1, 2.5, True], (3,), np.array([1, 2.5, 1])),
        ([[1, 2], [3, 4]], ((2, 2),), np.array([[1.0, 2], [3, 4]])),
        ([np.zeros(2), np.ones(2)], ((-1, 2),), np.array([[0.0, 0], [1, 1]])),
        (np.arange(3), (), np.arange(3.0)),
        (np.arange(3), (3, np.uint8), np.arange(3, dtype=np.uint8)),
        (np.array([True, False]), (2, bool), np.array([True, False])),
        (2.5, ((),), np.array(2.5)),
    ],
)
def test_arrays_and_lists_of_numbers_are_arrays(value, arguments, expected):
    found = Answer("rank", value).array(*arguments)
    assert found.dtype == expected.dtype
    np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize(
    ("value", "arguments", "message"),
    [
        (None, (), "rank returned None (is a return statement missing?); return an array of numbers"),
        ([1, "a"], (), "rank returned a list; return an array of numbers"),
        ([[1, 2], [3]], (), "rank returned a list of parts of unequal length; return an array"),
        (np.zeros(3), (4,), "rank returned an array of shape (3,); return shape (4,)"),
        (np.zeros(3), ((-1, 2),), "rank returned an array of shape (3,); return shape (any, 2)"),
        (
            np.array([0, np.nan]),
            (),
            "rank returned an array with NaN or infinity in it; return finite numbers",
        ),
        (np.zeros(3), (3, int), "rank returned an array of float64; return an array of int64"),
        (np.array([300]), (1, np.uint8), "rank returned numbers too large; return numbers that uint8 holds"),
    ],
)
def test_what_is_no_such_array_is_refused(value, arguments, message):
    assert refused(value, "array", *arguments) == message


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (True, "a bool; return a number"),
        ("2", "a str; return a number"),
        (float("nan"), "nan; return a finite number"),
        (float("inf"), "inf; return a finite number"),
        (3.5, "3.5; return a number from 0 to 3"),
    ],
)
def test_what_is_no_such_number_is_refused(value, message):
    assert refused(value, "number", 0, 3) == f"rank returned {message}"
    assert refused(value, "number", Fraction(0), Fraction(3)) == f"rank returned {message}"


@pytest.mark.parametrize("value", [2, np.array(2), np.array([2], dtype=np.uint8)])
def test_integers(value):
    found = Answer("rank", value).integer(0, 3)
    assert (found, type(found)) == (2, int)


@pytest.mark.parametrize(
    "value", [True, np.array(True), 2.0, np.array(2.0), None, "2", [2], -1, 4, float("nan")]
)
def test_what_is_no_such_integer_is_refused(value):
    assert "an integer from 0 to 3" in refused(value, "integer", 0, 3)


def test_texts_are_printable_and_bounded():
    assert Answer("rank", "a\x1b[2Jb").text() == "a?[2Jb"
    assert refused("x" * 11, "text", 10) == "rank returned a text of 11 characters; return at most 10"
    assert refused(b"x", "text") == "rank returned a bytes; return a text"


def test_parts_are_answers_in_turn():
    first, second = Answer("rank", (1, [2.0])).parts(2)
    assert first.integer(0, 1) == 1
    assert second.array(1)[0] == 2.0
    assert [part.value for part in Answer("rank", [1, 2, 3]).parts()] == [1, 2, 3]
    with pytest.raises(CandidateError, match=r"rank \(value 2\) returned a list; return a number"):
        second.number()


@pytest.mark.parametrize("value", [np.arange(3.0), np.arange(3), [0.0, 1.0, 2.0], (0, 1, 2)], ids=repr)
@pytest.mark.parametrize("dtype", [float, np.float32])
def test_an_array_is_the_authors_own(value, dtype):
    if isinstance(value, np.ndarray):
        value.flags.writeable = False
    answer = Answer("rank", value)
    answer.array(3, dtype)[:] = 7
    assert answer.array((-1,), dtype).tolist() == [0, 1, 2]


@pytest.mark.parametrize(
    ("value", "method", "arguments"),
    [
        ([], "array", ()), ([], "array", (-1,)), (np.empty((0, 2)), "array", ((-1, 2),)),
        (np.empty((2, 0)), "array", ((2, -1),)), ([], "parts", ()), ((), "parts", ()),
    ],
)  # fmt: skip
def test_nothing_is_an_answer_only_where_it_is_asked_for(value, method, arguments):
    assert "at least one" in refused(value, method, *arguments)
    assert len(getattr(Answer("rank", value), method)(*arguments, empty=True)) == len(value)
    assert len(Answer("rank", []).array(0)) == 0


def test_in_a_ranking_infinity_counts():
    assert Answer("rank", [-np.inf, 1, np.inf]).ranking(3).argmax() == 2
    assert "NaN" in refused([1.0, np.nan], "ranking", 2)
    assert "shape (2,)" in refused([1.0], "ranking", 2)


def test_entries_of_a_dictionary_are_answers():
    assert Answer("fit", {"y": [1.0]}).entry("y").array(1)[0] == 1.0
    assert (
        refused({"y": "x"}, "entry", "z") == "rank returned a dictionary without 'z'; return one that has it"
    )
    assert refused([1], "entry", "y") == "rank returned a list; return a dictionary with 'y' in it"
    with pytest.raises(CandidateError, match=r"fit \(y\) returned a str; return a number"):
        Answer("fit", {"y": "x"}).entry("y").number()


@pytest.mark.parametrize("value", [None, 1, "ab", np.zeros(2), {"a": 1, "b": 2}, [1], [1, 2, 3]])
def test_what_has_other_parts_is_refused(value):
    assert "return 2 values" in refused(value, "parts", 2)
