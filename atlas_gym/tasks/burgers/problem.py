"""Burgers as a `Problem`: everything that the shared environments, command line and gallery need of it."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from importlib.util import find_spec
from typing import Any, Self

import numpy as np
from gymnasium.error import DependencyNotInstalled

from atlas_gym.evaluation.result import Evaluation, Limits, limits_from
from atlas_gym.tasks.burgers import experts
from atlas_gym.tasks.burgers.params import METRICS, PRESETS, BurgersParams
from atlas_gym.tasks.burgers.prompts import PREAMBLE, SIGNATURE, description
from atlas_gym.tasks.burgers.rendering import draw_image, draw_text
from atlas_gym.tasks.burgers.scoring import METRIC_NAMES, WORST_METRIC
from atlas_gym.tasks.burgers.task import DEFAULT_LIMITS, BurgersTask
from atlas_gym.tasks.experts import without_docstring
from atlas_gym.tasks.problem import Expert, Problem, check_seed_and_split
from atlas_gym.tasks.spec import TaskSpec

STARTS = {"named": "weighted", "inlined": "weighted_inlined", "scratch": "from_scratch"}
"""Programs to start a search from: the plain loss twice, and one that learns nothing of the solution."""

#: The short task of a cascade: half the training of one replica.
_SHORTER = 2


@dataclass(frozen=True)
class BurgersProblem(Problem):
    """Burgers PINNs with the same constants."""

    params: BurgersParams = field(default_factory=BurgersParams)
    """The constants."""
    limits: Limits = field(default=DEFAULT_LIMITS)
    """Of one evaluation."""

    metric_names = METRIC_NAMES
    gallery_metrics = METRICS
    presets = tuple(PRESETS)
    initial = STARTS["named"]

    @classmethod
    def from_keywords(
        cls, *, preset: str = "default", limits: Limits | Mapping[str, float] | None = None, **constants: Any
    ) -> Self:
        """Build the problem from a preset and the constants that differ from it (see `BurgersParams`)."""
        return cls(BurgersParams.from_keywords(preset, **constants), limits_from(limits, DEFAULT_LIMITS))

    @property
    def spec(self) -> TaskSpec:
        return TaskSpec(
            env_id="ATLAS-Burgers-v0",
            function=BurgersTask.function,
            signature=SIGNATURE,
            preamble=PREAMBLE,
            description=description(self.params),
            starts={start: without_docstring(experts.__name__, name) for start, name in STARTS.items()},
            worst_score=-WORST_METRIC - 1.0,
            errors=("relative_l2", "residual", "residual_term", "initial_term", "boundary_term"),
        )

    def task(self, seed: int, split: str) -> BurgersTask:
        """See `Problem.task`; DependencyNotInstalled without torch, in which every program is run."""
        check_seed_and_split(seed, split)
        if find_spec("torch") is None:
            raise DependencyNotInstalled('ATLAS-Burgers-v0 needs torch: pip install "atlas-gym[burgers]"')
        return BurgersTask(self.params, int(seed), split, self.limits)

    def short_task(self, seed: int, split: str) -> BurgersTask:
        params = replace(self.params, replicas=1, steps=max(1, self.params.steps // _SHORTER))
        return replace(self.task(seed, split), params=params)

    def experts(self) -> Mapping[str, Expert]:
        return experts.experts()

    def controls(self) -> Mapping[str, Expert]:
        return experts.controls()

    def reference_scores(self, seed: int, split: str) -> Mapping[str, float]:
        """The ends of the scale of the default metric; the others have no such fixed points."""
        return {"u = 0": -1.0, "exact solution": 0.0} if self.params.metric == "relative_l2" else {}

    def text(self, evaluation: Evaluation | None) -> str:
        return draw_text(evaluation)

    def image(self, evaluation: Evaluation | None) -> np.ndarray:
        return draw_image(evaluation)
