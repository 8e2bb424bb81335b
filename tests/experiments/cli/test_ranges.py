"""The range of a setting is what its dataclass accepts."""

from dataclasses import dataclass

import pytest

from atlas_gym.experiments.cli.settings_reference import range_of, sections
from atlas_gym.trainers.loop.config import RunConfig


@dataclass(frozen=True)
class Numbers:
    """Numbers."""

    share: float = 0.5
    positive: float = 0.1
    part: float = 0.0
    count: int = 3
    any: float = -3.0
    flag: bool = True
    text: str = ""

    def __post_init__(self):
        if not (0 <= self.share <= 1 and self.positive > 0 and 0 <= self.part < 1 and self.count >= 1):
            raise ValueError("out of range")


@pytest.mark.parametrize(
    ("name", "numbers"),
    [
        ("share", "≥ 0, ≤ 1"),
        ("positive", "> 0"),
        ("part", "≥ 0, < 1"),
        ("count", "≥ 1"),
        ("any", ""),
        ("flag", ""),
        ("text", ""),
    ],
)
def test_the_range_is_what_is_accepted(name, numbers):
    assert range_of(Numbers(), name) == numbers


def test_no_number_of_a_run_is_unchecked_by_oversight():
    found = {setting.key: setting for part in sections(RunConfig()) for setting in part.settings}
    assert (found["phase.beta"].range, found["pairs.repairs"].range) == ("> 0", "≥ 0, < 1")
    any_number = {key for key, s in found.items() if s.kind in ("number", "whole number") and not s.range}
    coupled = {"exploration.islands", "supporters.inspection.veto_factor"}  # to another setting
    bounds = {key for key in any_number if key.startswith("supporters.control_bounds.")}
    endpoints = {key for key in any_number if ".endpoint." in key}
    assert any_number - coupled - bounds - endpoints == {"seed", "gate.min_gain"}
