"""Constants of a task that are one of a few: they reach other processes, and only what is one of them is taken."""

from enum import Enum
from typing import Literal

import pytest

from atlas_gym.tasks.registry import find_task
from tests.atlas_gym.tasks.examples import Threefold


class Law(Enum):
    EVEN = "even"
    HEAVY = "heavy"


class Choosing(Threefold):
    """Constants of each kind."""

    law: Law = Law.EVEN
    scale: Literal["small", "large"] = "small"


def test_what_is_one_of_a_few_is_taken_and_nothing_else():
    assert Choosing.from_keywords(law="heavy", scale="large") == Choosing(law=Law.HEAVY, scale="large")
    with pytest.raises(ValueError, match="'hevy' is not a valid Law"):
        Choosing.from_keywords(law="hevy")
    with pytest.raises(ValueError, match="scale is 'larg'; it must be one of 'small', 'large'"):
        Choosing.from_keywords(scale="larg")


POSTPONED = """
from __future__ import annotations

from typing import TYPE_CHECKING, Literal, Optional

import atlas_gym

if TYPE_CHECKING:
    from somewhere import Thing


class Half(atlas_gym.ProgramTask):
    \"\"\"x: a number. Returns half of it.\"\"\"

    start = "def half(x):\\n    return x / 2\\n"

    scale: Literal["small", "large"] = "small"
    perhaps: Optional[int] = 3
    instances = score = lambda *_: None


class Other(Half):
    \"\"\"The same.\"\"\"

    thing: Thing = 3
"""


def test_annotations_that_are_read_later_mean_the_same(tmp_path):
    (tmp_path / "postponed_annotations.py").write_text(POSTPONED)
    half = find_task(f"{tmp_path / 'postponed_annotations.py'}:Half")
    assert (half.from_keywords(scale="large").scale, half.from_keywords(perhaps=None).perhaps) == (
        "large",
        None,
    )
    with pytest.raises(ValueError, match="scale is 'larg'; it must be one of 'small', 'large'"):
        half.from_keywords(scale="larg")
    other = find_task(f"{tmp_path / 'postponed_annotations.py'}:Other")
    assert other.from_keywords(thing=4).thing == 4
