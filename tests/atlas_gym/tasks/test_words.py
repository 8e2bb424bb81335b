"""What is told of a task to those who write programs for it."""

import subprocess
import sys

import pytest

from atlas_gym import make_task
from atlas_gym.tasks.words import told


def test_no_task_goes_without_words_where_docstrings_are_stripped():
    code = "import atlas_gym; atlas_gym.make_task('ATLAS-Bandit-v0').describe()"
    done = subprocess.run([sys.executable, "-OO", "-c", code], capture_output=True, text=True, check=False)
    assert "run without -OO" in done.stderr.splitlines()[-1]


SECTIONS = """\
## Description
What it is about.

>>> import gymnasium
>>> 1 + 1
2

## Observation Space
A text.

## Rewards
The score, at most 0.

`info` has many keys, of
which no program sees any.

## Arguments
| a | b |"""


def test_of_sections_those_on_programs_are_told_without_examples():
    assert told(SECTIONS) == "Description\nWhat it is about.\n\nRewards\nThe score, at most 0."


@pytest.mark.parametrize("env_id", ["ATLAS-Bandit-v0", "ATLAS-Burgers-v0"])
def test_a_prompt_says_all_arguments_and_nothing_of_the_environments_own_interface(env_id):
    task = make_task(env_id)
    words = task.describe()
    names = task.signature.partition("(")[2].partition(")")[0].split(", ")
    assert all(f"`{name.split(':')[0]}`" in words for name in names)
    assert not any(word in words for word in (">>>", "gym.make", "task_seed", "ATLAS_GYM_SECRET"))
