"""The fine-tuning strategist as a language model behind an OpenAI-compatible endpoint."""

from agents.supporters.conversation import LLMSupporter
from agents.supporters.replies import StrategyReply, parse_reply
from agents.supporters.strategist import (
    CONTROL_NAMES,
    REASON_CHARS,
    StrategyAdvice,
    Telemetry,
    bounded_advice,
)
from atlas_gym.text import one_line

_SHOWN = 8
"""Entries of a history that are shown, the latest ones."""


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
