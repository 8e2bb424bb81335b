"""What distinguishes one environment from another, so that everything else is written once.

A `Problem` is a frozen dataclass of parameters. The single environment, the vector environment, the command
line and the gallery are all built on it; none of them knows what a bandit or a PINN is.
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from atlas_gym.evaluation.protocols import Task
from atlas_gym.evaluation.result import Evaluation
from atlas_gym.tasks.spec import TaskSpec

SPLITS = ("train", "held_out")


@dataclass(frozen=True)
class Expert:
    """A program written by hand, itself a candidate."""

    name: str
    """File name without the ending."""
    title: str
    """First line of its docstring."""
    program: str
    """The whole file."""


class Problem(ABC):
    """A family of tasks that programs are scored on."""

    metric_names: tuple[str, ...] = ()
    """Names in `Judgement.metrics`, the same for every evaluation; one of them is `normalized_score`."""
    gallery_metrics: tuple[str, ...] = ("normalized_score",)
    """The metrics that the gallery shows beside the score."""
    presets: tuple[str, ...] = ("default",)
    """Named sets of parameters, the default first."""

    @classmethod
    @abstractmethod
    def from_keywords(cls, *, preset: str = "default", **constants: Any) -> Self:
        """Build the problem from a preset and what differs from it; TypeError for an unknown keyword."""

    @property
    @abstractmethod
    def spec(self) -> TaskSpec:
        """What programs look like, in words and in code."""

    @abstractmethod
    def task(self, seed: int, split: str) -> Task:
        """The task of a seed; tasks of two splits share no random numbers."""

    @abstractmethod
    def short_task(self, seed: int, split: str) -> Task:
        """A much cheaper task that predicts the score on `task(seed, split)`: a cascade's first stage."""

    @abstractmethod
    def experts(self) -> Mapping[str, Expert]:
        """Programs written by hand, by name, in the order of the gallery."""

    def controls(self) -> Mapping[str, Expert]:
        """Programs that win by other means than the task is about, by name; rows of the gallery, and nowhere else:
        no sample, choice or prompt shows them. Here none."""
        return {}

    @property
    @abstractmethod
    def initial(self) -> str:
        """Name of the expert that improvements are counted from."""

    def reference_scores(self, seed: int, split: str) -> Mapping[str, float]:
        """Scores on the task that are no program's, such as the ends of the scale, by name; here none."""
        return {}

    def observations(self, seed: int, split: str) -> tuple[str, ...]:
        """Facts about the task that anybody could observe, one line each, for a prompt; here none."""
        return ()

    @abstractmethod
    def text(self, evaluation: Evaluation | None) -> str:
        """Draw an evaluation as text; None before the first."""

    @abstractmethod
    def image(self, evaluation: Evaluation | None) -> np.ndarray:
        """Draw an evaluation as an image, uint8 (height, width, 3); None before the first."""


def check_seed_and_split(seed: int, split: str) -> None:
    """Raise ValueError unless `seed` is a non-negative integer and `split` is one of SPLITS."""
    if split not in SPLITS:
        raise ValueError(f"split is {split!r}; it must be one of {', '.join(SPLITS)}")
    if seed != int(seed) or seed < 0:
        raise ValueError(f"seed is {seed!r}; it must be a non-negative integer")
