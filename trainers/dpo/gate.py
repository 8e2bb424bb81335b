"""The gate of EvoDPO: which checkpoint is proposed as the next reference, and whether it becomes it.

Each of a phase's checkpoints C_k has a score Ŝ (how much fresh completions on the gate subset gain) and K̂L, its
divergence from the reference in nats per token (Eq. 3). Then

    Eq. 4:  π_kl = argmax over C_k of  Ŝ(π) − β_ref · K̂L(π)
    Eq. 5:  promote  iff  Ŝ(π_kl) − Ŝ(π_ref) ≥ ε_s  and  K̂L(π_kl) ≤ δ_H

The maximum of a noisy set beats 0 more often than not, so ε_s is asked for in standard errors of the gain, paired by
prompt. A gain that is one prompt's alone is one standard error to the last digit: what is asked for in standard errors
has to be exceeded, by more than rounding.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from atlas_gym.intervals import standard_error
from atlas_gym.trainers.dpo.settings import GateSettings, ReferenceRule

_ROUNDING = 1e-6
"""Relative size of what rounding may add to a gain."""
_PATIENCE = 3
"""Refusals in a row that a person hears of."""


@dataclass(frozen=True)
class GateDecision:
    """One decision of the gate, with both sides of Eq. 5 so that it can be read without the run."""

    promote: bool  # whether the checkpoint becomes the reference
    reason: str  # the decision in words
    gain: float  # Ŝ(checkpoint) − Ŝ(reference)
    kl: float  # K̂L of the checkpoint, nats per token
    min_gain: float  # ε_s that was applied, in units of Ŝ
    max_kl: float  # δ_H that was applied
    # smallest K̂L in the whole of C_k: above the budget, no checkpoint could have passed whatever its score
    lowest_kl: float

    @property
    def frozen(self) -> bool:
        """True if the budget excluded every checkpoint of the phase."""
        return not self.promote and self.lowest_kl > self.max_kl

    def refuse(self, reason: str) -> "GateDecision":
        """The same decision, refused. There is no counterpart: an inspector may only be more careful than the rule."""
        return replace(self, promote=False, reason=f"kept: {reason}")


def propose(scores: Sequence[float], kls: Sequence[float], settings: GateSettings) -> int:
    """Eq. 4: index of the best penalised score within the budget, the first of equals. The nearest checkpoint, where
    none is within the budget or none has a score; NaN is no score."""
    penalised = np.asarray(scores, dtype=float) - settings.kl_penalty * np.asarray(kls, dtype=float)
    penalised[~(np.asarray(kls) <= settings.max_kl) | ~np.isfinite(penalised)] = -math.inf
    if penalised.max() == -math.inf:
        return int(np.argmin(np.nan_to_num(kls, nan=math.inf)))
    return int(np.argmax(penalised))


def gate_decision(
    gain: float,
    kl: float,
    settings: GateSettings,
    all_kls: Sequence[float] = (),
    gain_error: float | None = None,
) -> GateDecision:
    """Eq. 5 for one checkpoint, of its gain over the reference, with its standard error if it has one, and its K̂L in
    nats per token; NaN on any side fails. `all_kls`: of every checkpoint of the phase; default: only this one's."""
    needed, luck = settings.min_gain, -math.inf
    if gain_error is not None and settings.standard_errors > 0.0:
        luck = settings.standard_errors * gain_error
        needed = float(np.maximum(needed, luck))
    enough = gain >= settings.min_gain and gain > luck * (1.0 + _ROUNDING)
    complaints = []
    if math.isnan(gain):
        complaints.append(f"gain {gain:.4g} is not a number")
    elif math.isnan(needed):
        complaints.append(f"gain {gain:.4g} has no standard error, as of a single prompt")
    elif not enough:
        how = "below" if gain < needed else "not above"
        complaints.append(f"gain {gain:.4g} is {how} the tolerance {needed:.4g}")
    if not kl <= settings.max_kl:
        complaints.append(f"KL {kl:.4g} per token is over the budget {settings.max_kl:.4g}")
    reason = "kept: " + " and ".join(complaints)
    if not complaints:
        reason = f"promoted: gain {gain:.4g} over {needed:.4g} and KL {kl:.4g} ≤ {settings.max_kl:.4g}"
    lowest = min(all_kls, default=kl)
    return GateDecision(
        not complaints, reason, float(gain), float(kl), needed, settings.max_kl, float(lowest)
    )


def paired_gain(own: Sequence[float], reference: Sequence[float]) -> tuple[float, float]:
    """Mean gain over the reference and its standard error, paired by prompt; NaN where there is no prompt."""
    gains = np.asarray(own, dtype=float) - np.asarray(reference, dtype=float)
    return float(gains.mean()) if len(gains) else math.nan, float(standard_error(gains))


def reference_moves(
    rule: ReferenceRule, decision: GateDecision | None, kl: float, max_kl: float
) -> tuple[bool, bool]:
    """Whether the reference becomes the policy, and whether the policy goes back, because it is beyond the budget or
    its divergence `kl` is no number. `decision`: the gate's, under the gated rule."""
    beyond = not kl <= max_kl
    if decision is not None:
        return decision.promote, beyond and not decision.promote
    return rule == "every_phase" and not beyond, beyond


def gate_warnings(decisions: Sequence[GateDecision]) -> list[str]:
    """What a person has to hear after the latest of `decisions` (oldest first): that the KL budget left the phase no
    checkpoint at all, or that the last three phases were all refused. Empty if all is well."""
    warnings = []
    latest = decisions[-1] if decisions else None
    if latest is not None and latest.frozen:
        warnings.append(
            f"GATE FROZEN: even the closest checkpoint has moved {latest.lowest_kl:.3g} nats per token, over "
            f"the budget max_kl = {latest.max_kl:.3g}. Nothing can be promoted, and the policy is back where the "
            "phase began: raise max_kl or phase.checks, or lower the learning rate."
        )
    if len(decisions) >= _PATIENCE and not any(decision.promote for decision in decisions[-_PATIENCE:]):
        refused = next((n for n, d in enumerate(reversed(decisions)) if d.promote), len(decisions))
        warnings.append(
            f"GATE REFUSED {refused} phases in a row; the reference has not moved. "
            f"Latest: {decisions[-1].reason}. If this is not wanted, look at min_gain against the noise of the "
            "score and at max_kl."
        )
    return warnings
