"""The bandit as a `Problem`: everything that the shared environments, command line and gallery need of it."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Self

import numpy as np

from atlas_gym.evaluation.result import Evaluation, Limits, limits_from
from atlas_gym.tasks.bandit import experts
from atlas_gym.tasks.bandit.observations import observe
from atlas_gym.tasks.bandit.params import PRESETS, BanditParams
from atlas_gym.tasks.bandit.prompts import PREAMBLE, SIGNATURE, description
from atlas_gym.tasks.bandit.rendering import draw_image, draw_text
from atlas_gym.tasks.bandit.task import WORST_GAUSSIAN, BanditTask
from atlas_gym.tasks.experts import without_docstring
from atlas_gym.tasks.problem import Expert, Problem, check_seed_and_split
from atlas_gym.tasks.spec import TaskSpec

STARTS = {"named": "sw_linucb", "inlined": "sw_linucb_inlined", "scratch": "from_scratch"}
"""Programs to start a search from: the paper's initial one twice, and one that plays without learning."""

#: The short task of a cascade: a tenth of the horizon, at the same drift per step, and one replica.
_SHORTER = 10


@dataclass(frozen=True)
class BanditProblem(Problem):
    """Drifting linear bandits with the same constants."""

    params: BanditParams = field(default_factory=BanditParams)
    """The constants."""
    limits: Limits = field(default_factory=Limits)
    """Of one evaluation."""

    metric_names = ("normalized_score", "best_arm_share", "worst_replica", "best_replica")
    presets = tuple(PRESETS)
    initial = STARTS["named"]

    @classmethod
    def from_keywords(
        cls, *, preset: str = "default", limits: Limits | Mapping[str, float] | None = None, **constants: Any
    ) -> Self:
        """Build the problem from a preset and the constants that differ from it (see `BanditParams`)."""
        return cls(BanditParams.from_keywords(preset, **constants), limits_from(limits, Limits()))

    @property
    def spec(self) -> TaskSpec:
        return TaskSpec(
            env_id="ATLAS-Bandit-v0",
            function=BanditTask.function,
            signature=SIGNATURE,
            preamble=PREAMBLE,
            description=description(self.params),
            starts={start: without_docstring(experts.__name__, name) for start, name in STARTS.items()},
            # Below every score: regret per step is at most 2 between contexts of length 1, or cut off.
            worst_score=-3.0 if self.params.contexts == "unit" else WORST_GAUSSIAN - 1.0,
        )

    def task(self, seed: int, split: str) -> BanditTask:
        check_seed_and_split(seed, split)
        return BanditTask(self.params, int(seed), split, self.limits)

    def short_task(self, seed: int, split: str) -> BanditTask:
        shorter = max(self.params.horizon // _SHORTER, min(self.params.horizon, 100))
        budget = self.params.variation_budget * shorter / self.params.horizon
        params = replace(self.params, horizon=shorter, variation_budget=budget, replicas=1)
        return BanditTask(params, int(seed), split, self.limits)

    def experts(self) -> Mapping[str, Expert]:
        return experts.experts()

    def reference_scores(self, seed: int, split: str) -> Mapping[str, float]:
        instances = self.task(seed, split).instances()
        return {
            "uniform play, expected": -float(instances.uniform_regret.mean()),
            "full information (told θ of the last step)": -float(instances.informed_regret.mean()),
        }

    def observations(self, seed: int, split: str) -> tuple[str, ...]:
        check_seed_and_split(seed, split)
        return observe(self.params, int(seed), split)

    def text(self, evaluation: Evaluation | None) -> str:
        return draw_text(evaluation)

    def image(self, evaluation: Evaluation | None) -> np.ndarray:
        return draw_image(evaluation)
