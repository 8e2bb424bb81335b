"""The policy inspector: sees what the gate saw and may object to a promotion, never cause one: acceptance is the
verdict of Eq. 5 minus a veto, so no reply can turn a refusal into a promotion.

The rules object when a measurement (validity, distinct programs, single loss terms) got much worse behind a better
score, unless chance may explain a share's fall, and when a quantity is not a number. Everything that got noticeably
worse is named. A language model may object for any reason, but only what was measured and got worse counts as a
regression.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from pydantic import Field

from atlas_gym.agents.supporters.consult import Supporter, SupporterRequest
from atlas_gym.agents.supporters.messages import Reply, delimited
from atlas_gym.text import one_line

REASON_CHARS = 400
"""Longest reason, characters."""

_NAMED, _VETOED = 1.5, 3.0
"""A measurement that is worse by these factors is named, and is a reason to object."""
_FLOOR = 1e-6
"""Measurements below this count as equal to it: among tiny errors a large ratio means nothing."""
_MOST_ITEMS = 8
"""Reasons and regressions of a model's reply that are looked at."""


@dataclass(frozen=True)
class MetricChange:
    """A further measurement of the candidate policy and the reference."""

    name: str  # for example ``initial_condition_mse`` or ``valid_share``
    reference: float  # the reference's value
    candidate: float  # the candidate's value
    higher_is_better: bool = False  # false for errors and losses, True for shares and scores

    @property
    def regression(self) -> float:
        """Factor (>= 1) by which the candidate is worse, infinite if it is not a number; for values >= 0."""
        if not math.isfinite(self.candidate):
            return math.inf
        reference = self.reference if math.isfinite(self.reference) else self.candidate
        better, worse = reference, self.candidate
        if self.higher_is_better:
            better, worse = worse, better
        return max(1.0, max(worse, _FLOOR) / max(better, _FLOOR))

    def may_be_chance(self, samples: int) -> bool:
        """True for a share of so many samples that fell by less than two standard errors of the difference: of sixteen
        samples seven and two are valid under the same policy now and then."""
        if not self.higher_is_better or not samples:
            return False
        both = (self.reference + self.candidate) / 2
        error = math.sqrt(max(0.0, both * (1 - both)) * 2 / samples)
        return self.reference - self.candidate < 2 * error  # False for what is not a number


@dataclass(frozen=True)
class Inspection(SupporterRequest):
    """Request for the verdict on one proposed promotion."""

    rule_accepts: bool  # the gate's own decision by Eq. 5
    gain: float  # Ŝ(candidate) − Ŝ(reference)
    kl: float  # KL per token from candidate to reference, nats (Eq. 3)
    min_gain: float  # ε_s of Eq. 5
    max_kl: float  # δ_H of Eq. 5, nats per token
    gain_error: float | None = None  # standard error of the gain; None if it was not estimated
    samples: int = 0  # completions that each of the two scores rests on
    metrics: tuple[MetricChange, ...] = ()  # further measurements
    recent: tuple[bool, ...] = ()  # true for each earlier phase that ended in a promotion, oldest first


@dataclass(frozen=True)
class InspectorVerdict:
    """The gate's decision after inspection. Without a veto it is neutral: the rule's decision stands."""

    rule_accepts: bool  # the decision by Eq. 5
    veto: bool = False  # true if the inspector objects
    reasons: tuple[str, ...] = ()  # why, one sentence each
    # measurements that got worse, a reason to object or not: the factor of each, above 1
    regressions: Mapping[str, float] = field(default_factory=dict)

    @property
    def accept(self) -> bool:
        """True if the reference is promoted."""
        return self.rule_accepts and not self.veto

    def summary(self) -> str:
        worse = ", ".join(f"{name} ×{factor:.3g}" for name, factor in self.regressions.items())
        decision = "accept" if self.accept else "veto" if self.rule_accepts else "refused by the rule"
        return f"{decision} | regressions: {worse or 'none'} | {'; '.join(self.reasons)}"


class RegressionReply(Reply):
    """One measurement that got worse."""

    metric: str = Field(description="one of the measurements listed", json_schema_extra={"maxLength": 60})
    note: str = Field("", json_schema_extra={"maxLength": 160})


class InspectionReply(Reply):
    """The inspector's reply."""

    decision: Literal["accept", "veto"]
    reasons: list[str] = Field(default_factory=list, json_schema_extra={"maxItems": 3})
    regressions: list[RegressionReply] = Field(default_factory=list, json_schema_extra={"maxItems": 4})


class PolicyInspector(Supporter[Inspection, InspectorVerdict, InspectionReply]):
    """Decides on one promotion; its neutral advice is the rule's own decision."""

    role = "inspector"
    reply = InspectionReply

    def advise(self, request: Inspection) -> tuple[InspectorVerdict, str]:
        worst_first = sorted(request.metrics, key=lambda metric: -metric.regression)
        found = {metric.name: metric for metric in worst_first if metric.regression >= _NAMED}
        reasons = [
            f"Regression: {name} is worse by a factor of {metric.regression:.3g}."
            for name, metric in found.items()
            if metric.regression >= _VETOED and not metric.may_be_chance(request.samples)
        ]
        if not (math.isfinite(request.gain) and math.isfinite(request.kl)):
            reasons.append("The gain or the KL is not a finite number.")
        named = {name: metric.regression for name, metric in found.items()}
        return InspectorVerdict(request.rule_accepts, bool(reasons), tuple(reasons), named), ""

    def values(self, request: Inspection) -> dict[str, str]:
        metrics = "\n".join(
            f"- {one_line(metric.name, 60)}: {metric.reference:.5g} -> {metric.candidate:.5g} "
            f"({'higher' if metric.higher_is_better else 'lower'} is better)"
            for metric in request.metrics
        )
        error = "" if request.gain_error is None else f" (standard error {request.gain_error:.4g})"
        return {
            "rule": "accepts" if request.rule_accepts else "refuses",
            "gain": f"{request.gain:.5g}{error}",
            "min_gain": f"{request.min_gain:.5g}",
            "kl": f"{request.kl:.5g}",
            "max_kl": f"{request.max_kl:.5g}",
            "samples": str(request.samples),
            "metrics": delimited(metrics, 3_000),
            "recent": ", ".join("promoted" if done else "kept" for done in request.recent[-8:]) or "none yet",
        }

    def bounded(self, request: Inspection, reply: InspectionReply) -> InspectorVerdict:
        measured = {metric.name: metric.regression for metric in request.metrics}
        regressions = {
            named.metric: measured[named.metric]
            for named in reply.regressions[:_MOST_ITEMS]
            if measured.get(named.metric, 1.0) > 1
        }
        reasons = tuple(one_line(reason, REASON_CHARS) for reason in reply.reasons[:_MOST_ITEMS])
        return InspectorVerdict(request.rule_accepts, reply.decision == "veto", reasons, regressions)

    def neutral(self, request: Inspection) -> InspectorVerdict:
        return InspectorVerdict(request.rule_accepts)
