"""What preference pairs are formed of: a run's answered prompts, or a draw of them where there are too many."""

from collections.abc import Collection

import numpy as np

from agents.population.candidate import CandidateRecord
from trainers.data.pairs import ScoredCompletion
from trainers.store.queries import StoreQueries


def pair_pool(
    store: StoreQueries, last: int, limit: int, rng: np.random.Generator, without: Collection[int] = ()
) -> list[ScoredCompletion]:
    """Every completion of at most `limit` prompts of the rounds up to `last`, by id.

    Args:
        store: the run's store.
        last: the last round that counts.
        limit: prompts at most; more are thinned out at random, each as likely as any other.
        rng: draws them.
        without: islands that do not count, since their prompts are none that the policy continues.
    """
    asked = [(round_, island) for round_, island in store.asked(last) if island not in without]
    if len(asked) > limit:
        asked = [asked[index] for index in sorted(rng.choice(len(asked), limit, replace=False))]
    return [
        scored(record)
        for round_, island in asked
        for record in store.unit_candidates(round_, (island,))
        if record.prompt
    ]


def scored(record: CandidateRecord) -> ScoredCompletion:
    """A candidate as what pairs are made of."""
    return ScoredCompletion(
        candidate_id=record.id, prompt=record.prompt, completion=record.completion, status=record.status,
        score=record.score, parent_score=record.parent_score, is_copy=record.is_copy, hole=record.hole,
        program_key=record.program_key,
    )  # fmt: skip
