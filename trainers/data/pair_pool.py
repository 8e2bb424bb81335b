"""What preference pairs are formed of: a run's answered prompts, or a draw of them where there are too many."""

import numpy as np

from agents.population.candidate import CandidateRecord
from trainers.data.pairs import ScoredCompletion
from trainers.store.queries import StoreQueries


def pair_pool(store: StoreQueries, last: int, limit: int, rng: np.random.Generator) -> list[ScoredCompletion]:
    """Every completion of at most `limit` prompts of the rounds up to `last`, by id.

    Args:
        store: the run's store.
        last: the last round that counts.
        limit: prompts at most; more are thinned out at random, each as likely as any other.
        rng: draws them.
    """
    asked = store.asked(last)
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
