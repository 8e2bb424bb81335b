"""The fine-tuning strategist in its rule-based form.

The table :data:`RULES` is all of it: each line says when it fires, what it multiplies and why.

Rules that fire together multiply; the bounds of :mod:`agents.supporters.strategist` have the last word.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from atlas_gym.agents.supporters.call import RuleSupporter
from atlas_gym.agents.supporters.strategist import (
    REASON_CHARS,
    StrategyAdvice,
    Telemetry,
    bounded_advice,
)
from atlas_gym.text import one_line


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


class RuleFineTuningStrategist(RuleSupporter[Telemetry, StrategyAdvice]):
    """The table above, applied."""

    role = "strategist"

    def advise(self, request: Telemetry) -> tuple[StrategyAdvice, str]:
        """What the rules that fire want together, bounded."""
        values = vars(request.controls).copy()
        fired = [rule for rule in RULES if rule.applies(request)]
        for rule in fired:
            values["epochs"] += rule.epochs
            for name, factor in rule.factors.items():
                values[name] *= factor
        reason = "; ".join(f"{rule.name}: {rule.why}" for rule in fired) or "nothing stands out"
        bounds = self.settings.control_bounds
        return bounded_advice(request.controls, bounds, values, one_line(reason, REASON_CHARS)), ""
