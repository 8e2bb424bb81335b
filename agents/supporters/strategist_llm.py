"""The fine-tuning strategist as a language model behind an OpenAI-compatible endpoint."""

from agents.supporters.conversation import LLMSupporter
from agents.supporters.prompts import Data
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

    def values(self, request: Telemetry) -> dict[str, str | Data]:
        """What the template's placeholders stand for: numbers only, so nothing needs delimiting."""
        return {
            "controls": "\n".join(self._control_line(request, name) for name in CONTROL_NAMES),
            "pairs": str(request.pairs),
            "passed": str(request.passed),
            "failed": str(request.failed),
            "quantiles": _numbers(request.score_quantiles),
            "initial_score": f"{request.initial_score:.5g}",
            "best_scores": _numbers(request.best_scores[-_SHOWN:]),
            "distinct_share": _optional(request.distinct_share),
            "entropy": _optional(request.entropy),
            "losses": _numbers(_thinned(request.losses)),
            "accuracies": _numbers(_thinned(request.accuracies)),
            "chosen_shift": _optional(request.chosen_shift),
            "kl": _optional(request.kl),
            "target_kl": f"{request.target_kl:.4g}",
            "gate": "\n".join(
                f"- {'promoted' if outcome.promoted else 'refused'}: gain {outcome.gain:.4g}, KL {outcome.kl:.4g}"
                for outcome in request.gate[-_SHOWN:]
            )
            or "- no decisions yet",
            "min_gain": f"{request.min_gain:.4g}",
            "max_kl": f"{request.max_kl:.4g}",
        }

    def interpret(self, request: Telemetry, text: str) -> StrategyAdvice:
        """The bounded advice that a reply amounts to; raises ReplyError if it is no reply."""
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


def _numbers(values: tuple[float, ...]) -> str:
    return ", ".join(f"{value:.5g}" for value in values) or "none yet"


def _optional(value: float | None) -> str:
    return "not measured" if value is None else f"{value:.3g}"
