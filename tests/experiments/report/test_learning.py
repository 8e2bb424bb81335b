"""Words about learning: chosen by the interval, with what it could have found where it finds nothing."""

import pytest

from atlas_gym.experiments.report.learning import alone_in_words, meaning, verdict
from atlas_gym.trainers.loop.exam import BASE, learned


def answers(valid):
    """Four instances with a question each; by instance, how many of ten samples are valid copies."""
    return {
        "answers": [
            {
                "instance": i,
                "hole": "x =",
                "samples": [
                    {"passed": j < n, "is_copy": True, "program_key": "k", "gain": 0.0 if j < n else None}
                    for j in range(10)
                ],
            }
            for i, n in enumerate(valid)
        ]
    }


def exams(base, tuned):
    return {BASE: answers(base), 1: answers(tuned)}


@pytest.mark.parametrize(
    ("tuned", "word"),
    [((7, 6, 7, 8), "higher"), ((0, 1, 1, 0), "lower"), ((3, 5, 4, 4), "cannot be told apart")],
)
def test_the_interval_chooses_the_word(tuned, word):
    (measures,) = learned(exams((4, 4, 4, 4), tuned)).values()
    assert verdict(measures["validity"]).startswith(word)


def test_what_is_not_found_has_its_power_stated():
    (measures,) = learned(exams((4, 4, 4, 4), (3, 5, 4, 4))).values()
    found = measures["validity"]
    # t(3) at .975 and .8: 3.182 and 0.978.
    assert found.detectable == pytest.approx(found.difference.half_width * (1 + 0.978 / 3.182), rel=1e-3)
    assert f"{found.detectable:.2g}" in verdict(found)


def test_nothing_to_count_is_no_verdict():
    (measures,) = learned(exams((4, 4, 4, 4), (4, 4, 4, 4))).values()
    assert verdict(measures["quality .01"]).startswith("no interval")


def test_a_paragraph_says_on_what_and_names_what_changed():
    text = alone_in_words(exams((4, 4, 4, 4), (7, 6, 7, 8)))
    assert "After phase 1, on 4 instances that no phase saw (4 prompts, 10 samples each)" in text
    assert "higher: valid, of all samples (0.400 → 0.700)" in text
    assert text.endswith(".")
    assert alone_in_words({}) == ""


def test_measures_have_names_for_people():
    assert meaning("quality .002") == "improving by more than .002, of valid and new"
    assert meaning("best of 8") == "best gain of 8 samples"
