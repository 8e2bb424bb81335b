"""Attacks beside each other and beside an honest program, wherever a batch of programs is evaluated."""

from collections.abc import Callable, Sequence

from atlas_gym.evaluation import Evaluation
from tests.hostile.attack import Attack, Seat
from tests.hostile.scene import Scene

WIDTH = 4
"""Programs per batch, an honest one always among them."""


def trouble(
    seat: Seat, attacks: Sequence[Attack], evaluate: Callable[[list[str]], Sequence[Evaluation]]
) -> list[str]:
    """What went wrong, in words, when `evaluate` was given all attacks in batches; empty if nothing did."""
    found: list[str] = []
    (*_, first) = evaluate([seat.honest] * WIDTH)
    ceiling = (first.score or 0.0) + seat.margin
    with Scene() as scene:
        for start in range(0, len(attacks), WIDTH - 1):
            batch = attacks[start : start + WIDTH - 1]
            honest = [seat.honest] * (WIDTH - len(batch))
            evaluations = evaluate([*honest, *(seat.program(attack, scene) for attack in batch)])
            for evaluation in evaluations[: len(honest)]:
                if evaluation.score != first.score:
                    found.append(f"the honest program ended in {evaluation}")
            for attack, evaluation in zip(batch, evaluations[len(honest) :], strict=True):
                # What is found lying about may be another one's of the same batch.
                harm = scene.harm(evaluation, ceiling, seat.task.limits.wall_s)
                found += [f"{attack.name} (or one beside it) {what}" for what in harm]
                if evaluation.status not in attack.statuses:
                    found.append(f"{attack.name} ended in {evaluation}")
    return found
