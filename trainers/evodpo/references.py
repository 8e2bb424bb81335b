"""Reference rules: how far the reference follows the policy after each phase.

A rule answers one question with one number, the weight w of the update

    reference ← w · policy + (1 − w) · reference

with w = 1 a promotion (an exact copy) and w = 0 no change at all. For a language model the update acts on
the adapter's tensors, in the regret study on the table of log-probabilities; the rules are the same objects
in both.

The reference rule and the *initialisation* of the next phase are independent settings (a common confusion:
a trainer that re-initialises from the base model in every phase differs from a warm-started one whatever
its reference does). EvoTune = fixed + base; the EvoDPO ablation = every_phase + previous; ATLAS = gated +
previous.
"""

from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt

from atlas_gym.trainers.store.plain import require

Reference = Literal["fixed", "every_phase", "timed", "averaged", "gated"]


@dataclass(frozen=True)
class ReferenceRule:
    """A strategy of the reference."""

    name: Reference = "gated"
    """`fixed`: it never moves (DPO as published, EvoTune). `every_phase`: it becomes the policy after each phase, asked
    or not. `timed`: after every `period`-th phase (TR-DPO's hard update). `averaged`: it moves part of the way after
    each phase (TR-DPO's soft update). `gated`: it becomes the candidate of Eq. 4 if, and only if, Eq. 5 lets it."""
    period: int = 2
    """Phases between two updates of `timed`, at least 1 (which is the same as `every_phase`)."""
    mixing: float = 0.6
    """Share of the policy in the new reference of `averaged`, in (0, 1]; 0.6 is TR-DPO's and TRL's default."""

    def __post_init__(self) -> None:
        require(self, {"at least 1": "period", "in (0, 1]": "mixing"})

    def weight(self, phase: int, promote: npt.ArrayLike) -> npt.NDArray[np.float64]:
        """Weight of the policy in the next reference.

        `phase` counts finished phases from 1. `promote` is Eq. 5's answer (a bool, or one per seed); only
        the gated rule listens to it. The result has the shape of `promote`.
        """
        if self.name == "gated":
            return np.asarray(promote, dtype=float)
        due = float(phase % self.period == 0)
        weights = {"fixed": 0.0, "every_phase": 1.0, "timed": due, "averaged": self.mixing}
        return np.full(np.shape(promote), weights[self.name])


def mixed_reference(
    weight: npt.ArrayLike, policy: npt.NDArray[np.float64], reference: npt.NDArray[np.float64]
) -> npt.NDArray[np.float64]:
    """w · policy + (1 − w) · reference for tables of shape (seeds, …), exact at w = 0 and w = 1."""
    w = np.asarray(weight, dtype=float)
    w = w.reshape(w.shape + (1,) * (policy.ndim - w.ndim))
    return np.where(w == 0.0, reference, np.where(w == 1.0, policy, w * policy + (1.0 - w) * reference))
