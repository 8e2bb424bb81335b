"""The fine-tuning strategist: reads a phase's telemetry and adjusts the next phase's settings.

It can move four controls: β, the score threshold of the pairs, epochs and learning rate. Whatever it proposes
is bounded here: per phase by a factor, and always by a declared range. A change that would leave the range
ends at its edge; a value the user set outside the range stays until the strategist moves it.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace

from atlas_gym.agents.supporters.call import Question, Supporter
from atlas_gym.agents.supporters.conversation import LLMSupporter
from atlas_gym.agents.supporters.replies import StrategyReply, parse_reply
from atlas_gym.agents.supporters.settings import ControlBounds
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


CONTROL_NAMES = ("beta", "score_threshold", "epochs", "learning_rate")


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
class Telemetry(Question):
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
    nearby: tuple[TuningControls, ...] = ()
    """Further settings under which policies may be trained, of which the gate chooses one: first those before the
    change, then a β one step weaker and one step stronger."""

    def summary(self) -> str:
        values = ", ".join(f"{name} = {getattr(self.controls, name):g}" for name in self.changed)
        return f"{values or 'no change'} | {self.reason}"


FineTuningStrategist = Supporter[Telemetry, StrategyAdvice]
"""Sets the next phase's controls; its neutral advice leaves them as they are."""


def bounded_advice(
    controls: TuningControls,
    bounds: ControlBounds,
    wanted: Mapping[str, float] | None = None,
    reason: str = "",
) -> StrategyAdvice:
    """What is `wanted` as far as the bounds allow it, by control name; others keep their value."""
    values = {
        name: getattr(bounds, name).bounded(getattr(controls, name), value)
        for name, value in (wanted or {}).items()
    }
    if "epochs" in values:  # rounded towards the current value, so that rounding never leaves the bounds
        toward = math.floor if values["epochs"] > controls.epochs else math.ceil
        values["epochs"] = toward(values["epochs"])
    after = replace(controls, **values)
    changed = tuple(name for name in CONTROL_NAMES if getattr(after, name) != getattr(controls, name))
    return StrategyAdvice(after, changed, reason, _nearby(controls, after, bounds))


def _nearby(
    before: TuningControls, after: TuningControls, bounds: ControlBounds
) -> tuple[TuningControls, ...]:
    step = bounds.beta.factor
    betas = [bounds.beta.bounded(after.beta, wanted) for wanted in (after.beta / step, after.beta * step)]
    # The score threshold concerns the pairs, not the training.
    unchanged = replace(before, score_threshold=after.score_threshold)
    found = [unchanged, *(replace(after, beta=beta) for beta in betas)]
    return tuple(dict.fromkeys(settings for settings in found if settings != after))


class LLMFineTuningStrategist(LLMSupporter[Telemetry, StrategyAdvice]):
    """A model that reads the telemetry and replies with new settings."""

    role = "strategist"
    reply = StrategyReply

    def values(self, request: Telemetry) -> dict[str, str]:
        """What the template's placeholders stand for: numbers only, so nothing needs delimiting."""
        shown = {name: _text(value) for name, value in vars(request).items() if name != "key"}
        shown["quantiles"] = shown.pop("score_quantiles")
        gate = [
            f"- {'promoted' if outcome.promoted else 'refused'}: gain {outcome.gain:.4g}, KL {outcome.kl:.4g}"
            for outcome in request.gate[-_SHOWN:]
        ]
        return shown | {
            "controls": "\n".join(self._control_line(request, name) for name in CONTROL_NAMES),
            "best_scores": _text(request.best_scores[-_SHOWN:]),
            "losses": _text(_thinned(request.losses)),
            "accuracies": _text(_thinned(request.accuracies)),
            "gate": "\n".join(gate) or "- no decisions yet",
        }

    def interpret(self, request: Telemetry, text: str) -> StrategyAdvice:
        reply = parse_reply(text, StrategyReply)
        wanted = {name: getattr(reply, name) for name in CONTROL_NAMES if getattr(reply, name) is not None}
        return bounded_advice(
            request.controls, self.settings.control_bounds, wanted, one_line(reply.reason, REASON_CHARS)
        )

    def _control_line(self, request: Telemetry, name: str) -> str:
        current, limits = getattr(request.controls, name), getattr(self.settings.control_bounds, name)
        return (
            f"- {name}: {current:.4g} (from {limits.low:g} to {limits.high:g}, "
            f"at most a factor of {limits.factor:g} per phase)"
        )

    def neutral(self, request: Telemetry) -> StrategyAdvice:
        return bounded_advice(request.controls, self.settings.control_bounds)


def _thinned(values: tuple[float, ...]) -> tuple[float, ...]:
    step = max(1, -(-len(values) // _SHOWN))
    return values[::step]


def _text(value: object) -> str:
    if isinstance(value, tuple):
        return ", ".join(map(_text, value)) or "none yet"
    if value is None:
        return "not measured"
    return f"{value:.5g}" if isinstance(value, float) else str(value)
