"""Weakened starts: constants differ, nothing else, and the score is lower."""

import numpy as np
import pytest

from atlas_gym import make_task
from trainers.loop.weakening import starting_program

START = make_task("ATLAS-Bandit-v0").starts["named"]


def window_of(program):
    return int(program.split("window = ")[1].split()[0])


def weaker(score, changes=2, seed=0):
    return starting_program(START, "policy", changes, np.random.default_rng(seed), score)


def test_a_weakened_start_scores_lower_and_differs_in_as_many_constants():
    program = weaker(lambda text: -abs(window_of(text) - 50))
    changed = [(a, b) for a, b in zip(START.split("\n"), program.split("\n"), strict=True) if a != b]
    assert window_of(program) != 50
    assert len(changed) == 2
    assert all(a.split("=")[0] == b.split("=")[0] for a, b in changed)


@pytest.mark.parametrize("score", [lambda text: 0.0 if text == START else 1.0, lambda text: None])
def test_where_no_change_makes_it_worse_the_start_stays(score):
    assert weaker(score) == START


def test_without_changes_nothing_is_evaluated():
    assert weaker(lambda text: pytest.fail("evaluated"), changes=0) == START
