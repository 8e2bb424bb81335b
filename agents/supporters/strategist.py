"""The fine-tuning strategist: reads a phase's telemetry and adjusts the next phase's settings.

It can move four controls: β, the score threshold of the pairs, epochs and learning rate. Whatever it proposes
is bounded here: per phase by a factor, and always by a declared range. A change that would leave the range
ends at its edge; a value the user set outside the range stays until the strategist moves it.

Its rules are the table `RULES`: each line says when it fires, what it multiplies and why. Rules that fire together
multiply.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, cast

from pydantic import Field

from atlas_gym.agents.supporters.consult import Supporter, SupporterRequest
from atlas_gym.agents.supporters.messages import Reply
from atlas_gym.text import one_line

REASON_CHARS = 400
"""Longest reason, characters."""

_SHOWN = 8
"""Entries of a history that a model is shown, the latest ones."""


@dataclass(frozen=True)
class TuningControls:
    """The settings of a fine-tuning phase that a strategist may change."""

    beta: float = 0.1
    """DPO's β: strength of the preference margin, > 0."""
    score_threshold: float = 0.3
    """Quantile of the passed candidates' scores below which none is a chosen completion, in [0, 1]."""
    epochs: int = 1
    """Passes over the phase's pairs, at most."""
    learning_rate: float = 2e-4
    """Peak learning rate."""


@dataclass(frozen=True)
class ControlRange:
    """What one control may become."""

    low: float
    """Smallest value, > 0."""
    high: float
    """Largest value."""
    factor: float
    """Largest change in one phase: the new value lies between current/factor and current·factor."""

    def bounded(self, current: float, proposed: float) -> float:
        """``proposed`` moved into reach of ``current``; ``current`` itself if it is not a finite number."""
        if not math.isfinite(proposed) or proposed == current:
            return current
        low = max(min(self.low, current), current / self.factor)
        high = min(max(self.high, current), current * self.factor)
        return min(max(proposed, low), high)


RANGES: Mapping[str, ControlRange] = {
    # EvoTune's default is 0.4, the embedded set-up's 0.1; the paper's logs move between 0.5 and 0.7.
    "beta": ControlRange(0.02, 1.0, 1.5),
    # EvoTune takes the 30th percentile.
    "score_threshold": ControlRange(0.05, 0.8, 1.5),
    # A phase ends at its target divergence, so that many epochs are only a limit.
    "epochs": ControlRange(1.0, 8.0, 2.0),
    # The embedded set-up uses 2e-4, EvoTune 1e-5 for larger models.
    "learning_rate": ControlRange(1e-6, 1e-3, 2.0),
}
"""The controls, and what each may become."""


@dataclass(frozen=True)
class GateOutcome:
    """One earlier decision of the gate."""

    promoted: bool
    """Whether the reference was replaced."""
    gain: float
    """Ŝ(candidate) − Ŝ(reference)."""
    kl: float
    """KL per token to the reference, nats."""


@dataclass(frozen=True)
class Telemetry(SupporterRequest):
    """What the strategist is told about the phase that is about to run and those before it."""

    controls: TuningControls
    """The settings now."""
    pairs: int
    """Preference pairs at hand."""
    passed: int
    """Candidates of the last rounds that ran and were scored."""
    failed: int
    """Candidates of the last rounds that failed."""
    score_quantiles: tuple[float, float, float, float, float]
    """Minimum, lower quartile, median, upper quartile and maximum of the passed candidates' scores."""
    initial_score: float
    """Score of the program the search began with."""
    best_scores: tuple[float, ...] = ()
    """Best score at the end of each phase so far, oldest first."""
    distinct_share: float | None = None
    """Distinct programs as a share of the *valid* samples since the last phase, in [0, 1]."""
    entropy: float | None = None
    """Mean entropy of the policy's next token over the completions of the last phase's pairs while it was tuned,
    nats; None before the first phase."""
    losses: tuple[float, ...] = ()
    """Training losses of the last phase, in order."""
    accuracies: tuple[float, ...] = ()
    """Shares of pairs with a positive margin along the last phase, in order."""
    chosen_shift: float | None = None
    """Mean log π/π_ref of the chosen completions at the end of the last phase, nats; None before the first."""
    kl: float | None = None
    """K̂L to the reference of the policy that the last phase proposed, nats per token; None before the first."""
    target_kl: float = 0.0
    """By how much a phase is to raise K̂L, nats per token; 0 if it trains all its epochs."""
    gate: tuple[GateOutcome, ...] = ()
    """Decisions of the gate, oldest first."""
    min_gain: float = 0.0
    """ε_s of Eq. 5."""
    max_kl: float = math.inf
    """δ_H of Eq. 5, nats per token."""


@dataclass(frozen=True)
class StrategyAdvice:
    """What the strategist says, bounded. With ``controls`` unchanged it is neutral."""

    controls: TuningControls
    """The settings for the next phase."""
    changed: tuple[str, ...] = ()
    """Names of the controls that differ from before."""
    reason: str = ""
    """Why."""

    def summary(self) -> str:
        values = ", ".join(f"{name} = {getattr(self.controls, name):g}" for name in self.changed)
        return f"{values or 'no change'} | {self.reason}"


def bounded_advice(
    controls: TuningControls, wanted: Mapping[str, float] | None = None, reason: str = ""
) -> StrategyAdvice:
    """What is `wanted` as far as the ranges allow it, by control name; others keep their value."""
    values = {
        name: RANGES[name].bounded(getattr(controls, name), value) for name, value in (wanted or {}).items()
    }
    if "epochs" in values:  # rounded towards the current value, so that rounding never leaves the bounds
        toward = math.floor if values["epochs"] > controls.epochs else math.ceil
        values["epochs"] = toward(values["epochs"])
    after = replace(controls, **cast("dict[str, Any]", values))
    changed = tuple(name for name in RANGES if getattr(after, name) != getattr(controls, name))
    return StrategyAdvice(after, changed, reason)


@dataclass(frozen=True)
class StrategyRule:
    """One line of the table."""

    name: str
    """Its name in the reason."""
    applies: Callable[[Telemetry], bool]
    """Whether it fires."""
    why: str
    """What for."""
    factors: Mapping[str, float] = field(default_factory=dict)
    """Factors on controls, by name."""
    epochs: int = 0
    """Epochs added."""


def _used(telemetry: Telemetry) -> float | None:
    """How much of what it may move the last phase has moved, as a share of the target (or of half the budget)."""
    goal = telemetry.target_kl or telemetry.max_kl / 2
    return None if telemetry.kl is None or not 0.0 < goal < math.inf else telemetry.kl / goal


def _over(telemetry: Telemetry) -> bool:
    return telemetry.kl is not None and telemetry.kl > telemetry.max_kl


def _head_room(telemetry: Telemetry) -> bool:
    used = _used(telemetry)
    return used is not None and used < 0.5


def _repetitive(telemetry: Telemetry) -> bool:
    few_kinds = telemetry.distinct_share is not None and telemetry.distinct_share < 0.35
    narrow = telemetry.entropy is not None and telemetry.entropy < 0.3
    return (few_kinds or narrow) and not _head_room(telemetry)


def _sinking(telemetry: Telemetry) -> bool:
    return telemetry.chosen_shift is not None and telemetry.chosen_shift < -5.0


def _memorised(telemetry: Telemetry) -> bool:
    return bool(telemetry.losses) and telemetry.losses[-1] < 0.15 and not _over(telemetry)


def _unfit(telemetry: Telemetry) -> bool:
    """The policy has moved, yet it does not tell chosen from rejected."""
    late = telemetry.accuracies[-max(1, len(telemetry.accuracies) // 4) :]
    used = _used(telemetry)
    return bool(late) and used is not None and used >= 0.5 and sum(late) / len(late) < 0.6


def _plateau(telemetry: Telemetry) -> bool:
    best = telemetry.best_scores[-4:]
    return len(best) == 4 and best[-1] <= best[0] and telemetry.pairs >= 64


RULES: tuple[StrategyRule, ...] = (
    StrategyRule(
        "few pairs", lambda t: t.pairs < 24, "admit more chosen completions before anything else",
        factors={"score_threshold": 1 / 1.25},
    ),
    StrategyRule(
        "many pairs", lambda t: t.pairs > 900, "there are enough to be choosy",
        factors={"score_threshold": 1.25},
    ),
    StrategyRule(
        "too far", _over, "the last phase left the KL budget: smaller steps",
        factors={"beta": 1.25, "learning_rate": 1 / 1.5}, epochs=-1,
    ),
    StrategyRule(
        "head-room", _head_room, "most of what the policy may move was left unused: larger steps, more passes",
        factors={"learning_rate": 1.5}, epochs=1,
    ),
    StrategyRule(
        "repetition", _repetitive, "valid programs repeat: stay closer to the reference, admit more kinds",
        factors={"beta": 1.25, "score_threshold": 1 / 1.25},
    ),
    StrategyRule(
        "sinking", _sinking, "the chosen completions lose likelihood too: smaller steps, closer to the reference",
        factors={"beta": 1.4, "learning_rate": 1 / 1.4},
    ),
    StrategyRule(
        "memorised", _memorised, "the last loss says the pairs are learnt by heart",
        epochs=-1,
    ),
    StrategyRule(
        "not learning", _unfit, "the policy moved without telling chosen from rejected: clearer pairs",
        factors={"score_threshold": 1.2, "learning_rate": 1 / 1.25},
    ),
    StrategyRule(
        "plateau", _plateau, "no better best score in three phases: learn from the top only",
        factors={"score_threshold": 1.15},
    ),
)  # fmt: skip


class StrategyReply(Reply):
    """The strategist's reply; a control that is left out or null keeps its value."""

    reason: str = Field(json_schema_extra={"maxLength": 300})
    beta: float | None = None
    score_threshold: float | None = None
    epochs: float | None = None
    learning_rate: float | None = None


class FineTuningStrategist(Supporter[Telemetry, StrategyAdvice, StrategyReply]):
    """Sets the next phase's controls; its neutral advice leaves them as they are."""

    role = "strategist"
    reply = StrategyReply

    def advise(self, request: Telemetry) -> tuple[StrategyAdvice, str]:
        values = vars(request.controls).copy()
        fired = [rule for rule in RULES if rule.applies(request)]
        for rule in fired:
            values["epochs"] += rule.epochs
            for name, factor in rule.factors.items():
                values[name] *= factor
        reason = "; ".join(f"{rule.name}: {rule.why}" for rule in fired) or "nothing stands out"
        return bounded_advice(request.controls, values, one_line(reason, REASON_CHARS)), ""

    def values(self, request: Telemetry) -> dict[str, str]:
        """Numbers only, so nothing needs delimiting."""
        shown = {name: _text(value) for name, value in vars(request).items() if name != "key"}
        shown["quantiles"] = shown.pop("score_quantiles")
        controls = [
            f"- {name}: {getattr(request.controls, name):.4g} (from {limits.low:g} to {limits.high:g}, "
            f"at most a factor of {limits.factor:g} per phase)"
            for name, limits in RANGES.items()
        ]
        gate = [
            f"- {'promoted' if outcome.promoted else 'refused'}: gain {outcome.gain:.4g}, KL {outcome.kl:.4g}"
            for outcome in request.gate[-_SHOWN:]
        ]
        return shown | {
            "controls": "\n".join(controls),
            "best_scores": _text(request.best_scores[-_SHOWN:]),
            "losses": _text(_thinned(request.losses)),
            "accuracies": _text(_thinned(request.accuracies)),
            "gate": "\n".join(gate) or "- no decisions yet",
        }

    def bounded(self, request: Telemetry, reply: StrategyReply) -> StrategyAdvice:
        wanted = {name: getattr(reply, name) for name in RANGES if getattr(reply, name) is not None}
        return bounded_advice(request.controls, wanted, one_line(reply.reason, REASON_CHARS))

    def neutral(self, request: Telemetry) -> StrategyAdvice:
        return bounded_advice(request.controls)


def _thinned(values: tuple[float, ...]) -> tuple[float, ...]:
    step = max(1, -(-len(values) // _SHOWN))
    return values[::step]


def _text(value: object) -> str:
    if isinstance(value, tuple):
        return ", ".join(map(_text, value)) or "none yet"
    if value is None:
        return "not measured"
    return f"{value:.5g}" if isinstance(value, float) else str(value)
