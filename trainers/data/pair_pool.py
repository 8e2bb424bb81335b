"""What preference pairs are formed of: a run's answered prompts, or a draw of them where there are too many."""

from collections.abc import Collection, Iterable, Sequence
from typing import Any

import numpy as np

from agents.engines.engine import Sampling
from agents.models.tokens import encode_continuation
from agents.population.candidate import CandidateRecord
from trainers.data.pairs import ScoredCompletion
from trainers.store.queries import StoreQueries


def pair_pool(
    store: StoreQueries,
    last: int,
    limit: int,
    rng: np.random.Generator,
    without: Collection[int] = (),
    lessons: Iterable[CandidateRecord] = (),
) -> list[ScoredCompletion]:
    """Every completion of at most `limit` prompts of the rounds up to `last`, in the order of the prompts.

    Args:
        store: the run's store.
        last: the last round that counts.
        limit: prompts at most; more are thinned out at random, each as likely as any other.
        rng: draws them.
        without: islands that do not count, since their prompts are none that the policy continues.
        lessons: further answers to these prompts.
    """
    asked = [own for own in store.asked(last) if own[1] not in without]
    if len(asked) > limit:
        asked = [asked[index] for index in sorted(rng.choice(len(asked), limit, replace=False))]
    tasks = _tasks(store, [round_ for round_, *_ in asked])
    taught: dict[tuple[int, int], list[CandidateRecord]] = {}
    for lesson in lessons:
        taught.setdefault((lesson.round, lesson.island), []).append(lesson)
    found = []
    for round_, island, prompt in asked:
        proposal = store.proposal(round_, island, prompt)
        for record in (*store.unit_candidates(round_, (island,)), *taught.get((round_, island), ())):
            if record.prompt and record.prompt == prompt:
                found.append(scored(record, tasks[round_], proposal.avoid, island % store.instances))
    return found


def _tasks(store: StoreQueries, rounds: Sequence[int]) -> dict[int, int]:
    """For each round the round in which its task began."""
    tasks: dict[int, int] = {}
    for round_ in sorted(set(rounds), reverse=True):
        following = min(tasks.values(), default=round_ + 1)
        tasks[round_] = following if round_ >= following else store.task_began(round_)
    return tasks


def writable(
    completions: Sequence[ScoredCompletion], tokenizer: Any, sampling: Sampling
) -> list[ScoredCompletion]:
    """Those that the policy may write: a line, or a function, within the limit of tokens."""

    def fits(text: str) -> bool:
        several = "\n" in text.strip("\n")
        limit = sampling.max_function_tokens if several else sampling.max_new_tokens
        return len(encode_continuation(tokenizer, text)) <= limit

    return [completion for completion in completions if fits(completion.completion)]


def scored(
    record: CandidateRecord, task: int = 0, parent_text: str | None = None, instance: int = 0
) -> ScoredCompletion:
    """A candidate as what pairs are made of; `parent_text` is the parent's own text at the site."""
    return ScoredCompletion(
        candidate_id=record.id, prompt=record.prompt, completion=record.completion, status=record.status,
        score=record.score, parent_score=record.parent_score, is_copy=record.is_copy, hole=record.hole,
        program_key=record.program_key, task=task, parent_id=record.parent_id, parent_text=parent_text,
        instance=instance,
    )  # fmt: skip
