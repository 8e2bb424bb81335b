"""The gate subset G_k within a run: which prompts it is made of, and what a policy's answers to them are worth."""

from collections.abc import Sequence

import numpy as np

from agents.population.candidate import CandidateRecord
from trainers.data.pairs import GateScore, ScoredCompletion


def set_apart(
    completions: Sequence[ScoredCompletion], prompts: int, rng: np.random.Generator
) -> tuple[list[ScoredCompletion], list[ScoredCompletion]]:
    """What is left for pairs, and one preferred completion (the best) of each prompt of the gate subset.

    Up to `prompts` prompts of the latest task with a completion that passed are drawn, each as likely as any other,
    and a quarter of them at most. Fewer than two tell nothing about spread: then none is set apart.
    """
    latest = max((completion.task for completion in completions), default=0)
    best: dict[str, ScoredCompletion] = {}
    for completion in completions:
        held = best.get(completion.prompt)
        if (
            completion.task == latest
            and completion.passed
            and (held is None or completion.value > held.value)
        ):
            best[completion.prompt] = completion
    count = min(prompts, len(best) // 4)
    if count < 2:
        return list(completions), []
    drawn = [list(best)[index] for index in sorted(rng.choice(len(best), count, replace=False))]
    apart = set(drawn)
    return [c for c in completions if c.prompt not in apart], [best[prompt] for prompt in drawn]


def worth(group: Sequence[CandidateRecord], kind: GateScore, clip: float) -> float:
    """What one prompt's answers are worth.

    Args:
        group: the answers, at least one.
        kind: `gain`: the mean gain over the parent, between 0 and `clip`, 0 for a failure; `best_of_n`: the largest
            such gain; `quality`: the mean normalised score, 0 for a failure, which mostly counts validity.
        clip: the largest gain that counts, in units of score.
    """
    if kind == "quality":
        return sum(max(0.0, r.metrics["normalized_score"]) if r.passed else 0.0 for r in group) / len(group)
    gains = [min(max(0.0, r.gain), clip) if r.passed and r.gain is not None else 0.0 for r in group]
    return max(gains) if kind == "best_of_n" else sum(gains) / len(gains)
