"""Groups: what the policy wrote for one prompt, each completion rewarded by what it does to the program in the prompt.

GRPO (Shao et al., 2024, arXiv 2402.03300) learns from them as DPO learns from pairs. The reward is *graded*:

    failed < a copy < worse than the parent < better than the parent

and differences to the parent, the best program that a prompt shows whole, are clipped. Relative to the parent,
because the score itself as a reward taught nothing in published work (CALM, Huang et al., 2025, arXiv 2505.12285).

A completion's *advantage* is its reward less the mean of its group. It is not divided by the group's standard
deviation: that would count a group whose programs differ by a hair as much as one with a failure and an improvement
(Dr. GRPO, Liu et al., 2025, arXiv 2503.20783). A group whose rewards are equal says nothing and is left out.
"""

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass

import numpy as np

from atlas_gym.agents.population.candidate import CandidateRecord
from atlas_gym.trainers.data.measures import grouped, thinned
from atlas_gym.trainers.data.pairs import PreferencePair

FAILED, COPY, WORST, BEST = -1.0, -0.75, -0.5, 1.0
"""Rewards of a program that fails and of a copy, and the bounds of all others."""

_SAME = 1e-6
"""Rewards that differ by less are equal: the same sums in another order."""


def graded(score: float | None, parent: float, copy: bool) -> float:
    """The reward of a program.

    Args:
        score: its score, None if it failed.
        parent: the score of the program in the prompt; differences are shares of it, or as they are if it is 0.
        copy: whether the program is known; one that scores exactly like the one in the prompt counts as known, too.
    """
    if score is None:
        return FAILED
    if copy or score == parent:
        return COPY
    return min(BEST, max(WORST, (score - parent) / (abs(parent) or 1.0)))


@dataclass(frozen=True)
class CompletionGroup:
    """Completions of one prompt by the same policy, repetitions included, and their rewards."""

    prompt: str
    """The common prompt."""
    completions: tuple[str, ...]
    """What was written, at least two."""
    rewards: tuple[float, ...]
    """`graded`, of each."""
    ids: tuple[int, ...]
    """Candidate of each."""

    @property
    def advantages(self) -> tuple[float, ...]:
        """Each reward less their mean."""
        mean = sum(self.rewards) / len(self.rewards)
        return tuple(reward - mean for reward in self.rewards)

    @property
    def chosen(self) -> str:
        """The completion with the highest reward, the first of equals."""
        return self.completions[self._best]

    @property
    def chosen_id(self) -> int:
        """Its candidate."""
        return self.ids[self._best]

    @property
    def _best(self) -> int:
        return self.rewards.index(max(self.rewards))


Example = PreferencePair | CompletionGroup
Examples = Sequence[Example]
"""What a phase is trained on, all of one kind; both kinds have `prompt`, `completions`, `chosen` and `chosen_id`."""


def group_of(records: Sequence[CandidateRecord]) -> CompletionGroup:
    """The group that these candidates are, which answer one prompt and so have a parent."""
    return CompletionGroup(
        prompt=records[0].prompt,
        completions=tuple(record.completion for record in records),
        rewards=tuple(graded(r.score, r.parent_score or 0.0, r.is_copy) for r in records),
        ids=tuple(record.id for record in records),
    )


def build_groups(
    records: Sequence[CandidateRecord],
    limit: int,
    rng: np.random.Generator,
    scale: Callable[[CandidateRecord], Hashable] = lambda record: 0,
) -> list[CompletionGroup]:
    """At most `limit` groups with different rewards, drawn at random if there are more, in the candidates' order.

    Args:
        records: judged candidates that the policy wrote, each with the prompt that its completion answers.
        limit: groups at most.
        rng: draws them.
        scale: what a candidate's score is comparable within; candidates of different scales are of different groups.
    """
    answers = grouped(records, lambda record: (scale(record), record.prompt)).values()
    groups = [group_of(own) for own in answers]
    telling = [group for group in groups if max(group.rewards) - min(group.rewards) > _SAME]
    return thinned(telling, limit, rng)


def why_no_groups(records: Sequence[CandidateRecord]) -> str:
    """In words, why a phase has nothing to train on."""
    prompts = len({record.prompt for record in records})
    return (
        f"it cannot train: since it was tuned last, the policy answered {prompts} prompts with {len(records)} short "
        "enough completions, and all of a prompt earned the same reward"
    )
