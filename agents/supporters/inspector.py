"""The policy inspector: sees what the gate saw and may object to a promotion, never cause one.

The rule of Eq. 5 decides first. The inspector is handed its verdict together with the numbers behind it and a
comparison of further measurements (validity, distinct programs, single loss terms) of candidate and
reference. Its own verdict *is* the rule's, minus a veto: acceptance is computed from the two and cannot be
set, so no reply can turn a refusal into a promotion.

The rule-based form objects when a measurement got much worse behind a better score (the paper's case: the residual fell
while the initial condition's error rose, the trivial solution), when a quantity is not a number, and by option when the
gain is within its noise. Everything that got noticeably worse is named, objection or not.
"""

import math
import time
from collections.abc import Mapping
from dataclasses import dataclass, field

from agents.supporters.call import Consultation, Key, Supporter, rules_call
from agents.supporters.settings import InspectorSettings

REASON_CHARS = 400
"""Longest reason, characters."""


@dataclass(frozen=True)
class MetricChange:
    """One further measurement of the candidate policy beside the reference."""

    name: str
    """What was measured, for example ``initial_condition_mse`` or ``valid_share``."""
    reference: float
    """The reference's value."""
    candidate: float
    """The candidate's value."""
    higher_is_better: bool = False
    """False for errors and losses, True for shares and scores."""

    def regression(self, floor: float = 1e-6) -> float:
        """Factor by which the candidate is worse; 1 if it is not, infinite if it is not a number.

        Meant for measurements that are not negative. Values below ``floor`` count as ``floor``: among tiny
        errors a large ratio means nothing.
        """
        if not math.isfinite(self.candidate):
            return math.inf
        reference = self.reference if math.isfinite(self.reference) else self.candidate
        better, worse = reference, self.candidate
        if self.higher_is_better:
            better, worse = worse, better
        return max(1.0, max(worse, floor) / max(better, floor))


@dataclass(frozen=True)
class Inspection:
    """What the inspector is told about one proposed promotion."""

    key: Key
    """Name of the consultation, for example ``("phase", 4)``."""
    rule_accepts: bool
    """The gate's own decision by Eq. 5."""
    gain: float
    """Ŝ(candidate) − Ŝ(reference)."""
    kl: float
    """KL per token from candidate to reference, nats (Eq. 3)."""
    min_gain: float
    """ε_s of Eq. 5."""
    max_kl: float
    """δ_H of Eq. 5, nats per token."""
    gain_error: float | None = None
    """Standard error of the gain; None if it was not estimated."""
    samples: int = 0
    """Completions that each of the two scores rests on."""
    metrics: tuple[MetricChange, ...] = ()
    """Further measurements."""
    recent: tuple[bool, ...] = ()
    """Whether each of the last phases ended in a promotion, oldest first."""


@dataclass(frozen=True)
class InspectorVerdict:
    """The gate's decision after inspection. Without a veto it is neutral: the rule's decision stands."""

    rule_accepts: bool
    """The decision by Eq. 5."""
    veto: bool = False
    """Whether the inspector objects."""
    reasons: tuple[str, ...] = ()
    """Why, one sentence each."""
    regressions: Mapping[str, float] = field(default_factory=dict)
    """Measurements that got worse, whether or not they were a reason to object: the factor of each, at least 1."""

    @property
    def accept(self) -> bool:
        """Whether the reference is promoted."""
        return self.rule_accepts and not self.veto

    def summary(self) -> str:
        """The verdict in one line, for the record."""
        worse = ", ".join(f"{name} ×{factor:.3g}" for name, factor in self.regressions.items())
        decision = "accept" if self.accept else "veto" if self.rule_accepts else "refused by the rule"
        return f"{decision} | regressions: {worse or 'none'} | {'; '.join(self.reasons)}"


PolicyInspector = Supporter[Inspection, InspectorVerdict]
"""Decides on one promotion; its neutral advice is the rule's own decision."""


class RulePolicyInspector(PolicyInspector):
    """Names regressions and objects to the bad ones."""

    def __init__(self, settings: InspectorSettings | None = None) -> None:
        self._settings = settings or InspectorSettings()

    def consult(self, request: Inspection) -> Consultation[InspectorVerdict]:
        """The rule's decision, or a veto."""
        began = time.monotonic()
        verdict = self._inspect(request)
        call = rules_call("inspector", request.key, began, verdict.summary())
        return Consultation(verdict, call)

    def _inspect(self, request: Inspection) -> InspectorVerdict:
        found = {metric.name: metric.regression(self._settings.floor) for metric in request.metrics}
        worst_first = sorted(found.items(), key=lambda pair: -pair[1])
        named = {name: factor for name, factor in worst_first if factor >= self._settings.name_factor}
        reasons = [
            f"Regression: {name} is worse by a factor of {factor:.3g}."
            for name, factor in named.items()
            if factor >= self._settings.veto_factor
        ]
        if not (math.isfinite(request.gain) and math.isfinite(request.kl)):
            reasons.append("The gain or the KL is not a finite number.")
        error = request.gain_error
        if error is not None and self._settings.noise > 0 and request.gain < self._settings.noise * error:
            reasons.append(f"The gain is below {self._settings.noise:g} standard errors.")
        return InspectorVerdict(request.rule_accepts, bool(reasons), tuple(reasons), named)
