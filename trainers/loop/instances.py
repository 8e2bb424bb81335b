"""Instances of a run's task: constants and a program to start from that are their own.

What is right on one instance (a window for its drift, a strength for its noise) is wrong on another, so a policy that
learns on several has to read what the prompt says.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Instance:
    """How an instance differs from the run's task."""

    env_args: Mapping[str, Any] = field(default_factory=dict)
    """Keywords laid on the run's `env_args`."""
    start: str = ""
    """Its starting program by name; empty: the run's."""
    weakened: int = 0
    """How many constants of its start are changed at random, so that it scores lower. 0: the start as it is."""

    def __post_init__(self) -> None:
        if self.weakened < 0:
            raise ValueError("weakened cannot be negative")


@dataclass(frozen=True)
class MeasureSettings:
    """What the base model is asked, and every policy after its phase: instances that no phase sees."""

    samples: int = 0
    """Samples per question, 8 for the best of 8. 0: nothing is asked."""
    prompts: int = 4
    """Questions per instance: edit sites of its program, drawn at random."""
    instances: tuple[Instance, ...] = (Instance(weakened=2),)
    """The instances. With constants that no instance of the run has they show whether learning carries over."""
    seeds: int = 4
    """Held-out seeds under which each instance is posed; each counts as an instance, and intervals need several."""

    def __post_init__(self) -> None:
        if self.samples < 0 or self.prompts < 1 or self.seeds < 1 or not self.instances:
            raise ValueError(
                "measure: samples cannot be negative, prompts and seeds must be at least 1, and there must be instances"
            )
