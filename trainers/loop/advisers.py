"""What the strategist and the inspector are told, and what comes of their advice.

Both are asked once per phase. The strategist's settings carry over: a phase starts from the controls of the one
before, as they are in the store. The inspector hears the gate's decision with the numbers behind it and may refuse
what the gate would promote; the type of its verdict leaves it nothing else.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from statistics import fmean

import numpy as np

from atlas_gym.agents.models.policy import REFERENCE
from atlas_gym.agents.supporters.build import Supporters
from atlas_gym.agents.supporters.consult import SupporterCall
from atlas_gym.agents.supporters.inspector import Inspection, MetricChange
from atlas_gym.agents.supporters.strategist import (
    GateOutcome,
    StrategyAdvice,
    Telemetry,
    TuningControls,
    bounded_advice,
)
from atlas_gym.trainers.data.measures import DISTINCT_SHARE, VALID_SHARE, distinct_programs
from atlas_gym.trainers.dpo.gate import GateDecision
from atlas_gym.trainers.dpo.phase import Checkpoint
from atlas_gym.trainers.dpo.settings import PhaseSettings
from atlas_gym.trainers.loop.config import RunConfig
from atlas_gym.trainers.store.store import RunStore

Measured = Callable[[str], tuple[int, Mapping[str, float]]]
"""How many fresh samples of an adapter there are, and their measurements (`trainers.data.measures.measurements`)."""


def trained_under(settings: PhaseSettings, controls: TuningControls) -> PhaseSettings:
    """A phase's settings under what the strategist may change."""
    return replace(settings, beta=controls.beta, epochs=controls.epochs, learning_rate=controls.learning_rate)


@dataclass(eq=False)
class PhaseAdvisers:
    """Strategist and inspector of a run."""

    config: RunConfig  # the run's, from which the first phase's controls come
    supporters: Supporters  # the run's; a role that is off leaves things as they are
    store: RunStore  # where earlier phases and candidates are read
    calls: list[SupporterCall] = field(init=False, default_factory=list)  # the calls of the phase under way

    def strategy(self, number: int, pairs: int) -> StrategyAdvice:
        """The settings of phase `number`, which begins here, after the strategist has heard how many `pairs` there are
        under the current ones."""
        self.calls = []
        current = self.current_controls()
        strategist = self.supporters.strategist
        if strategist is None:
            return bounded_advice(current)
        consultation = strategist.consult(self._telemetry(number, current, pairs))
        self.calls.append(consultation.call)
        return consultation.advice

    def current_controls(self) -> TuningControls:
        """The controls of the latest tuned phase, or the configuration's."""
        if tuned := self.store.tuned_phases():
            return TuningControls(**tuned[-1]["controls"])
        phase, pairs = self.config.phase, self.config.pairs
        return TuningControls(phase.beta, pairs.chosen_quantile, phase.epochs, phase.learning_rate)

    def _telemetry(self, number: int, current: TuningControls, pairs: int) -> Telemetry:
        first, last = self.config.blocks[number - 1]
        rows = self.store.tuned_phases()
        recent = list(self.store.candidates("c.round BETWEEN ? AND ?", (first, last)))
        scores = [r.score for r in recent if r.score is not None]
        quantiles = np.quantile(scores or [0.0], (0, 0.25, 0.5, 0.75, 1)).tolist()
        start = self.store.start()
        steps = rows[-1]["steps"] if rows else ()
        return Telemetry(
            key=("phase", number), controls=current, pairs=pairs, passed=len(scores),
            failed=len(recent) - len(scores), score_quantiles=tuple(quantiles), initial_score=start.score or 0.0,
            best_scores=tuple(fmean(self.store.best_scores(0, row["round"]).values() or [0.0]) for row in rows),
            distinct_share=len(distinct_programs(recent)) / len(scores) if scores else None,
            entropy=fmean(step["entropy"] for step in steps) if steps else None,
            losses=tuple(step["loss"] for step in steps),
            accuracies=tuple(step["accuracy"] for step in steps),
            chosen_shift=rows[-1]["chosen_reward"] / rows[-1]["controls"]["beta"] if rows else None,
            kl=rows[-1]["kl"] if rows else None, target_kl=self.config.phase.target_kl,
            gate=tuple(GateOutcome(row["promoted"], row["gain"], row["kl"]) for row in rows if row["decision"]),
            min_gain=self.config.gate.min_gain, max_kl=self.config.gate.max_kl,
        )  # fmt: skip

    def review(
        self, number: int, measured: Measured, decision: GateDecision, chosen: Checkpoint
    ) -> GateDecision:
        """The gate's decision on the chosen checkpoint after the inspector; refused at most."""
        inspector = self.supporters.inspector
        if inspector is None:
            return decision
        (samples, before), (_, after) = measured(REFERENCE), measured(chosen.name)
        changes = (  # where both have a measurement
            MetricChange(name, before[name], value, name in (VALID_SHARE, DISTINCT_SHARE))
            for name, value in after.items()
            if name in before
        )
        consultation = inspector.consult(Inspection(
            key=("phase", number), rule_accepts=decision.promote, gain=decision.gain, kl=decision.kl,
            min_gain=decision.min_gain, max_kl=decision.max_kl, gain_error=chosen.gain_error,
            samples=samples, metrics=tuple(changes),
            recent=tuple(bool(row["promoted"]) for row in self.store.tuned_phases()),
        ))  # fmt: skip
        self.calls.append(consultation.call)
        verdict = consultation.advice
        if not verdict.veto:
            return decision
        said = "the inspector objects: " + "; ".join(verdict.reasons)
        return decision.refuse(
            said if decision.promote else f"{decision.reason.removeprefix('kept: ')}; {said}"
        )
