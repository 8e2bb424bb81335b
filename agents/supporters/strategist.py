"""The fine-tuning strategist: reads a phase's telemetry and adjusts the next phase's settings.

It can move four controls: β, the score threshold of the pairs, epochs and learning rate. Whatever it proposes is
bounded here: per phase by a factor, and always by a declared range. A change that would leave the range ends at its
edge; a value the user set outside the range stays until the strategist moves it. The rules (`fired_rules`) multiply.
"""

import math
from collections.abc import Mapping
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

    beta: float = 0.1  # DPO's β: strength of the preference margin, > 0
    # quantile of the passed candidates' scores below which none is a chosen completion, in [0, 1]
    score_threshold: float = 0.3
    epochs: int = 1  # passes over the phase's pairs, at most
    learning_rate: float = 2e-4  # AdamW's, constant


@dataclass(frozen=True)
class ControlRange:
    """Bounds of one control."""

    low: float  # smallest value, > 0
    high: float  # largest value
    factor: float  # largest change in one phase: the new value lies between current/factor and current·factor

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
"""Bounds by control."""


@dataclass(frozen=True)
class GateOutcome:
    """One earlier decision of the gate."""

    promoted: bool  # true if the reference was replaced
    gain: float  # Ŝ(candidate) − Ŝ(reference)
    kl: float  # KL per token to the reference, nats


@dataclass(frozen=True)
class Telemetry(SupporterRequest):
    """Request for the settings of a phase: its pairs, and numbers of the phases before it."""

    controls: TuningControls  # the settings now
    pairs: int  # preference pairs at hand
    passed: int  # candidates of the last rounds that ran and were scored
    failed: int  # candidates of the last rounds that failed
    # minimum, lower quartile, median, upper quartile and maximum of the passed candidates' scores
    score_quantiles: tuple[float, float, float, float, float]
    initial_score: float  # score of the program the search began with
    best_scores: tuple[float, ...] = ()  # best score at the end of each phase so far, oldest first
    # distinct programs as a share of the *valid* samples since the last phase, in [0, 1]
    distinct_share: float | None = None
    # mean entropy of the next token over the last phase's completions, nats; None before the first phase
    entropy: float | None = None
    losses: tuple[float, ...] = ()  # training losses of the last phase, in order
    # shares of pairs with a positive margin along the last phase, in order
    accuracies: tuple[float, ...] = ()
    # mean log π/π_ref of the chosen completions at the end of the last phase, nats; None before the first
    chosen_shift: float | None = None
    # K̂L to the reference of the policy that the last phase proposed, nats per token; None before the first
    kl: float | None = None
    # by how much a phase is to raise K̂L, nats per token; 0 if it trains all its epochs
    target_kl: float = 0.0
    gate: tuple[GateOutcome, ...] = ()  # decisions of the gate, oldest first
    min_gain: float = 0.0  # ε_s of Eq. 5
    max_kl: float = math.inf  # δ_H of Eq. 5, nats per token


@dataclass(frozen=True)
class StrategyAdvice:
    """Bounded settings; neutral if they are unchanged."""

    controls: TuningControls  # the settings for the next phase
    changed: tuple[str, ...] = ()  # names of the controls that differ from before
    reason: str = ""  # why

    def summary(self) -> str:
        values = ", ".join(f"{name} = {getattr(self.controls, name):g}" for name in self.changed)
        return f"{values or 'no change'} | {self.reason}"


def bounded_advice(
    controls: TuningControls, wanted: Mapping[str, float] | None = None, reason: str = ""
) -> StrategyAdvice:
    """Values `wanted`, by control name, as far as the ranges allow; other controls keep theirs."""
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
    """Change of the controls, and its reason."""

    name: str  # its name in the reason
    why: str  # purpose
    factors: Mapping[str, float] = field(default_factory=dict)  # factors on controls, by name
    epochs: int = 0  # epochs added


def fired_rules(t: Telemetry) -> list[StrategyRule]:
    """The rules whose condition holds; their factors multiply."""
    goal = t.target_kl or t.max_kl / 2
    used = None if t.kl is None or not 0.0 < goal < math.inf else t.kl / goal  # share of the movement allowed
    too_far = t.kl is not None and t.kl > t.max_kl
    head_room = used is not None and used < 0.5
    narrow = (t.distinct_share is not None and t.distinct_share < 0.35) or (
        t.entropy is not None and t.entropy < 0.3
    )
    late = t.accuracies[-max(1, len(t.accuracies) // 4) :]
    confused = bool(late) and sum(late) / len(late) < 0.6
    best = t.best_scores[-4:]
    table = (
        (t.pairs < 24, StrategyRule(
            "few pairs", "admit more chosen completions before anything else", {"score_threshold": 1 / 1.25})),
        (t.pairs > 900, StrategyRule("many pairs", "there are enough to be choosy", {"score_threshold": 1.25})),
        (too_far, StrategyRule(
            "too far", "the last phase left the KL budget: smaller steps",
            {"beta": 1.25, "learning_rate": 1 / 1.5}, epochs=-1)),
        (head_room, StrategyRule(
            "head-room", "most of what the policy may move was left unused: larger steps, more passes",
            {"learning_rate": 1.5}, epochs=1)),
        (narrow and not head_room, StrategyRule(
            "repetition", "valid programs repeat: stay closer to the reference, admit more kinds",
            {"beta": 1.25, "score_threshold": 1 / 1.25})),
        (t.chosen_shift is not None and t.chosen_shift < -5.0, StrategyRule(
            "sinking", "the chosen completions lose likelihood too: smaller steps, closer to the reference",
            {"beta": 1.4, "learning_rate": 1 / 1.4})),
        (bool(t.losses) and t.losses[-1] < 0.15 and not too_far, StrategyRule(
            "memorised", "the last loss says the pairs are learnt by heart", epochs=-1)),
        (confused and used is not None and used >= 0.5, StrategyRule(
            "not learning", "the policy moved without telling chosen from rejected: clearer pairs",
            {"score_threshold": 1.2, "learning_rate": 1 / 1.25})),
        (len(best) == 4 and best[-1] <= best[0] and t.pairs >= 64, StrategyRule(
            "plateau", "no better best score in three phases: learn from the top only",
            {"score_threshold": 1.15})),
    )  # fmt: skip
    return [rule for fires, rule in table if fires]


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
        fired = fired_rules(request)
        for rule in fired:
            values["epochs"] += rule.epochs
            for name, factor in rule.factors.items():
                values[name] *= factor
        reason = "; ".join(f"{rule.name}: {rule.why}" for rule in fired) or "nothing stands out"
        return bounded_advice(request.controls, values, one_line(reason, REASON_CHARS)), ""

    def values(self, request: Telemetry) -> dict[str, str]:  # numbers only: nothing to delimit
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
