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

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from trainers.evodpo.settings import PhaseSettings


class ReferenceRule(Protocol):
    """A strategy of the reference."""

    def weight(self, phase: int, promote: npt.ArrayLike) -> npt.NDArray[np.float64]:
        """Weight of the policy in the next reference.

        `phase` counts finished phases from 1. `promote` is Eq. 5's answer (a bool, or one per seed); only
        the gated rule listens to it. The result has the shape of `promote`.
        """


@dataclass(frozen=True)
class Fixed:
    """The reference never moves: DPO as published, EvoTune."""

    def weight(self, phase: int, promote: npt.ArrayLike) -> npt.NDArray[np.float64]:
        return np.zeros(np.shape(promote))


@dataclass(frozen=True)
class EveryPhase:
    """The reference becomes the policy after each phase, asked or not."""

    def weight(self, phase: int, promote: npt.ArrayLike) -> npt.NDArray[np.float64]:
        return np.ones(np.shape(promote))


@dataclass(frozen=True)
class Timed:
    """The reference becomes the policy after every `period`-th phase (TR-DPO's hard update)."""

    period: int = 2
    """Phases between two updates, at least 1 (which is the same as `EveryPhase`)."""

    def __post_init__(self) -> None:
        if self.period < 1:
            raise ValueError(f"period counts phases and must be at least 1, got {self.period}")

    def weight(self, phase: int, promote: npt.ArrayLike) -> npt.NDArray[np.float64]:
        return np.full(np.shape(promote), float(phase % self.period == 0))


@dataclass(frozen=True)
class Averaged:
    """The reference moves part of the way after each phase (TR-DPO's soft update)."""

    mixing: float = 0.6
    """Share of the policy in the new reference, in (0, 1]; 0.6 is TR-DPO's and TRL's default."""

    def __post_init__(self) -> None:
        if not 0.0 < self.mixing <= 1.0:
            raise ValueError(f"mixing is a share and must lie in (0, 1], got {self.mixing}")

    def weight(self, phase: int, promote: npt.ArrayLike) -> npt.NDArray[np.float64]:
        return np.full(np.shape(promote), self.mixing)


@dataclass(frozen=True)
class Gated:
    """The reference becomes the candidate of Eq. 4 if, and only if, Eq. 5 lets it."""

    def weight(self, phase: int, promote: npt.ArrayLike) -> npt.NDArray[np.float64]:
        return np.asarray(promote, dtype=float)


_RULES: dict[str, Callable[..., ReferenceRule]] = {
    "fixed": Fixed,
    "every_phase": EveryPhase,
    "timed": Timed,
    "averaged": Averaged,
    "gated": Gated,
}

REFERENCE_RULES: tuple[str, ...] = tuple(_RULES)


def reference_rule(name: str, **options: Any) -> ReferenceRule:
    """The rule of that name: `reference_rule("timed", period=3)`, `reference_rule("averaged",
    mixing=0.5)`."""
    if name not in _RULES:
        raise ValueError(f"no reference rule is called {name!r}; choose one of {', '.join(REFERENCE_RULES)}")
    return _RULES[name](**options)


def rule_of(settings: PhaseSettings) -> ReferenceRule:
    """The rule that a phase's settings name."""
    if settings.reference == "timed":
        return Timed(settings.reference_period)
    if settings.reference == "averaged":
        return Averaged(settings.reference_mixing)
    return reference_rule(settings.reference)


def mixed_reference(
    weight: npt.ArrayLike, policy: npt.NDArray[np.float64], reference: npt.NDArray[np.float64]
) -> npt.NDArray[np.float64]:
    """w · policy + (1 − w) · reference for tables of shape (seeds, …), exact at w = 0 and w = 1."""
    w = np.asarray(weight, dtype=float)
    w = w.reshape(w.shape + (1,) * (policy.ndim - w.ndim))
    return np.where(w == 0.0, reference, np.where(w == 1.0, policy, w * policy + (1.0 - w) * reference))
