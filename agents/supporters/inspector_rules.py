"""The policy inspector in its rule-based form.

It objects when a measurement got much worse behind a better score (the paper's case: the residual fell while
the initial condition's error rose, the trivial solution), when a quantity is not a number, and by option when
the gain is within its noise. Everything that got noticeably worse is named, objection or not.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterable

from agents.supporters.call import Consultation, SupporterCall, rules_call
from agents.supporters.inspector import Inspection, InspectorVerdict, Regression
from agents.supporters.settings import InspectorSettings


class RulePolicyInspector:
    """Names regressions and objects to the bad ones."""

    def __init__(self, settings: InspectorSettings | None = None) -> None:
        self._settings = settings or InspectorSettings()

    def consult(self, request: Inspection) -> Consultation[InspectorVerdict]:
        """The rule's decision, or a veto."""
        began = time.monotonic()
        verdict = self._inspect(request)
        call = rules_call("inspector", request.key, began, verdict.summary())
        return Consultation(verdict, call)

    def resume(self, calls: Iterable[SupporterCall]) -> None:
        """Nothing to take up: rules have no budget."""

    def _inspect(self, request: Inspection) -> InspectorVerdict:
        regressions = named_regressions(request, self._settings.name_factor, self._settings.floor)
        reasons = [
            f"Regression: {regression.metric} is worse by a factor of {regression.factor:.3g}."
            for regression in regressions
            if regression.factor >= self._settings.veto_factor
        ]
        if not (math.isfinite(request.gain) and math.isfinite(request.kl)):
            reasons.append("The gain or the KL is not a finite number.")
        error = request.gain_error
        if error is not None and self._settings.noise > 0 and request.gain < self._settings.noise * error:
            reasons.append(f"The gain is below {self._settings.noise:g} standard errors.")
        return InspectorVerdict(request.rule_accepts, bool(reasons), tuple(reasons), regressions)


def named_regressions(request: Inspection, factor: float, floor: float) -> tuple[Regression, ...]:
    """Measurements that are worse by at least ``factor``, the worst first."""
    found = [Regression(metric.name, metric.regression(floor)) for metric in request.metrics]
    return tuple(sorted((r for r in found if r.factor >= factor), key=lambda r: -r.factor))
