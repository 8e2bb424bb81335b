"""The gate of EvoDPO: which candidate is proposed as the next reference, and whether it becomes it.

A phase ends with a small candidate set C_k (intermediate checkpoints and the phase-final policy). For each
candidate the inspector has a score Ŝ (how much fresh completions on the gate subset gain) and K̂L, its
divergence from the reference in nats per token (Eq. 3). Then

    Eq. 4:  π_kl = argmax over C_k of  Ŝ(π) − β_ref · K̂L(π)
    Eq. 5:  promote  iff  Ŝ(π_kl) − Ŝ(π_ref) ≥ ε_s  and  K̂L(π_kl) ≤ δ_H

The maximum of a noisy set beats 0 more often than not, so ε_s is asked for in standard errors of the gain, paired
by prompt. A gain that is one prompt's alone is one standard error to the last digit: what is asked for in standard
errors has to be exceeded, by more than rounding.

Both are plain arithmetic on arrays, so the regret study applies the very same code to many seeds at once;
nothing here knows about language models. A gate can silently freeze: with a budget below the divergence of
one phase nothing is ever promoted, and no phase gets further than the one before. `gate_warnings` is there to say
so.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from atlas_gym.trainers.evodpo.settings import GateSettings

_ROUNDING = 1e-6
"""Relative size of what rounding may add to a gain."""


@dataclass(frozen=True)
class GateDecision:
    """One decision of the gate, with both sides of Eq. 5 so that it can be read without the run."""

    promote: bool
    """Whether the candidate becomes the reference."""
    reason: str
    """The decision in words."""
    gain: float
    """Ŝ(candidate) − Ŝ(reference)."""
    kl: float
    """K̂L of the candidate, nats per token."""
    min_gain: float
    """ε_s that was applied, in units of Ŝ."""
    max_kl: float
    """δ_H that was applied."""
    lowest_kl: float
    """Smallest K̂L in the whole candidate set: above the budget, no candidate could have passed whatever
    its score."""

    @property
    def frozen(self) -> bool:
        """True if the budget excluded every candidate of the phase."""
        return not self.promote and self.lowest_kl > self.max_kl

    def refuse(self, reason: str) -> "GateDecision":
        """The same decision, refused. There is no counterpart: an inspector may only be more careful than
        the rule."""
        return replace(self, promote=False, reason=f"kept: {reason}")


def choose_candidate(
    scores: npt.ArrayLike, kls: npt.ArrayLike, settings: GateSettings
) -> np.intp | npt.NDArray[np.intp]:
    """Eq. 4: index of the best penalised score along the last axis, (candidates,) → int, (seeds,
    candidates) → (seeds,).

    Of equal candidates the first wins. A candidate whose score or KL is not a number is never chosen; if
    none is left, ValueError.
    """
    penalised = np.asarray(scores, dtype=float) - settings.kl_penalty * np.asarray(kls, dtype=float)
    penalised = np.where(np.isnan(penalised) | np.isnan(np.asarray(kls, dtype=float)), -np.inf, penalised)
    if penalised.shape[-1:] in ((), (0,)):
        raise ValueError("the candidate set is empty; it always holds at least the phase-final policy")
    if np.any(np.all(np.isneginf(penalised), axis=-1)):
        raise ValueError("no candidate has both a score and a KL that are numbers")
    return np.argmax(penalised, axis=-1)


def passes_gate(
    gain: npt.ArrayLike, kl: npt.ArrayLike, settings: GateSettings, gain_error: npt.ArrayLike | None = None
) -> npt.NDArray[np.bool_]:
    """Eq. 5, elementwise. NaN on any side fails. `gain_error`: standard error of the gain; None if it has none."""
    within = np.asarray(kl) <= settings.max_kl
    if gain_error is None or settings.standard_errors == 0.0:
        return (np.asarray(gain) >= settings.min_gain) & within
    gain = np.asarray(gain, dtype=float)
    luck = settings.standard_errors * np.asarray(gain_error, dtype=float) * (1.0 + _ROUNDING)
    return (gain >= settings.min_gain) & (gain > luck) & within


def gate_decision(
    gain: float,
    kl: float,
    settings: GateSettings,
    candidate_kls: Sequence[float] | None = None,
    gain_error: float | None = None,
) -> GateDecision:
    """Eq. 5 for one candidate. `candidate_kls`: the KL of every candidate of the phase (default: only this
    one). `gain_error`: standard error of the gain."""
    lowest = min(candidate_kls) if candidate_kls else kl
    needed = settings.min_gain
    if gain_error is not None and settings.standard_errors > 0.0:
        needed = float(np.maximum(needed, settings.standard_errors * gain_error))
    promote = bool(passes_gate(gain, kl, settings, gain_error))
    return GateDecision(
        promote,
        _reason(promote, gain, kl, needed, settings.max_kl),
        float(gain),
        float(kl),
        needed,
        settings.max_kl,
        float(lowest),
    )


def _reason(promote: bool, gain: float, kl: float, needed: float, max_kl: float) -> str:
    if promote:
        return f"promoted: gain {gain:.4g} over {needed:.4g} and KL {kl:.4g} ≤ {max_kl:.4g}"
    complaints = []
    if not kl <= max_kl:
        complaints.append(f"KL {kl:.4g} per token is over the budget {max_kl:.4g}")
    if math.isnan(gain) or math.isnan(needed):
        complaints.insert(0, f"gain {gain:.4g} or its standard error is not a number")
    elif not gain >= needed:
        complaints.insert(0, f"gain {gain:.4g} is below the tolerance {needed:.4g}")
    elif not complaints:
        complaints.append(f"gain {gain:.4g} is not above the tolerance {needed:.4g}")
    return "kept: " + " and ".join(complaints)


def gate_warnings(decisions: Sequence[GateDecision], patience: int = 3) -> list[str]:
    """What a person has to hear after the latest of `decisions` (oldest first); empty if all is well.

    Says if the last `patience` phases were all refused, and if the KL budget left the latest phase no
    candidate at all.
    """
    warnings = []
    latest = decisions[-1] if decisions else None
    if latest is not None and latest.frozen:
        warnings.append(
            f"GATE FROZEN: even the closest candidate has moved {latest.lowest_kl:.3g} nats per token, over "
            f"the budget max_kl = {latest.max_kl:.3g}. Nothing can be promoted, and the policy is back where the "
            "phase began: raise max_kl or phase.checks, or lower the learning rate."
        )
    if len(decisions) >= patience and not any(decision.promote for decision in decisions[-patience:]):
        refused = next((n for n, d in enumerate(reversed(decisions)) if d.promote), len(decisions))
        warnings.append(
            f"GATE REFUSED {refused} phases in a row; the reference has not moved. "
            f"Latest: {decisions[-1].reason}. If this is not wanted, look at min_gain against the noise of the "
            "score and at max_kl."
        )
    return warnings
