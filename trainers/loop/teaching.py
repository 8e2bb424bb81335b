"""The exploration supporter as a teacher: it answers the agent's own prompts, and the answers become preference data.

Paper, section 2.1: in a fine-tuning phase the supporter proposes completions for each prompt, informed by recent
failures, from which preference supervision is constructed. A *lesson* is such a completion. Its program is scored like
any candidate's and stored with the prompt, but it enters no island: whatever a run finds, the agent has written. Pairs
may choose a lesson or reject it (`trainers.data.pairs`).
"""

from collections.abc import Collection, Sequence, Set
from dataclasses import dataclass

import numpy as np

from agents.population.candidate import CandidateRecord, Proposal
from agents.proposals.completing import completion_of, opening_of
from agents.supporters.call import SupporterCall
from agents.supporters.exploration import FAILURES_TOLD, ExplorationRequest, ExplorationSupporter
from atlas_gym.seeding import stream
from atlas_gym.tasks.program_task import ProgramTask
from trainers.data.rollouts import Pending, ProgramCache, again, judged
from trainers.store.store import RunStore


@dataclass(frozen=True)
class Asked:
    """A prompt of exploration."""

    round: int
    """When it was asked."""
    proposal: Proposal
    """What was asked, with the island that asked."""
    parent: CandidateRecord
    """The program that was to be changed."""


@dataclass(eq=False)
class Teacher:
    """Has lessons written, scored and stored."""

    supporter: ExplorationSupporter
    """Writes them."""
    spec: ProgramTask
    """The task, in what its programs have in common."""
    cache: ProgramCache
    """Evaluates programs."""
    store: RunStore
    """Where prompts are read and lessons are kept."""
    lessons: int
    """Completions for each prompt, at most."""
    prompts: int
    """Prompts of a phase, at most."""
    seed: int
    """The run's."""
    without: Collection[int] = ()
    """Islands whose prompts are none that the policy continues."""

    def teach(self, phase: int, first: int, last: int, apart: Set[str], exam: bool = False) -> None:
        """Store the phase's lessons, on prompts of the rounds `first` to `last` that are not `apart`, unless they are
        stored already. `exam`: the prompts set apart are answered as well, whatever round asked them."""
        if self.store.taught() < phase:
            lessons = [one for one in self._asked(first, last) if one.proposal.prompt not in apart]
            asked = _spread(lessons, stream(self.seed, "teaching", phase))[: self.prompts]
            if exam:
                asked += [one for one in self._asked(1, last, apart) if one.proposal.prompt in apart]
            self._write(phase, asked, last)

    def _asked(self, first: int, last: int, only: Set[str] = frozenset()) -> list[Asked]:
        """The prompts of these rounds, each once; if `only` some are wanted, these."""
        found: dict[str, Asked] = {}
        for round_, island, prompt in self.store.asked(last):
            if round_ < first or island in self.without or (only and prompt not in only):
                continue
            proposal = self.store.proposal(round_, island, prompt)
            if proposal.prompt:
                parent = self.store.candidate(proposal.parent_id)
                found.setdefault(proposal.prompt, Asked(round_, again(proposal, island, parent), parent))
        return list(found.values())

    def _write(self, phase: int, asked: Sequence[Asked], last: int) -> None:
        calls: list[SupporterCall] = []
        pending: list[Pending] = []
        next_id = self.store.last_lesson() - 1
        for number, one in enumerate(asked):
            opening = opening_of(one.proposal, one.parent.program)
            if opening is None:
                continue
            request = ExplorationRequest(
                ("phase", phase, "prompt", number), self.spec, one.parent, self._failures(one),
                max_patches=self.lessons, opening=opening,
            )  # fmt: skip
            consultation = self.supporter.consult(request)
            calls.append(consultation.call)
            for patch in consultation.advice.patches:
                completion = completion_of(one.proposal, patch.program)
                if completion is not None:
                    lesson = one.proposal.taught(next_id, one.round, patch.kind, completion)
                    pending.append((lesson, self.cache.submit(lesson.program, lesson.island)))
                    next_id -= 1
        self.store.add_lessons(phase, last, judged(pending, self.cache), calls)

    def _failures(self, asked: Asked) -> list[CandidateRecord]:
        answers = self.store.unit_candidates(asked.round, (asked.proposal.island,))
        failed = [
            answer for answer in answers if answer.prompt == asked.proposal.prompt and not answer.passed
        ]
        return failed[-FAILURES_TOLD:]


def _spread(asked: Sequence[Asked], rng: np.random.Generator) -> list[Asked]:
    """In random order, but every edit site once before any comes twice: a site that is not taught does not gain."""
    turns: dict[tuple[str, str], int] = {}
    order: list[tuple[int, int, int]] = []
    for index in rng.permutation(len(asked)).tolist():
        site = (asked[index].proposal.style, asked[index].proposal.hole)
        turns[site] = turns.get(site, 0) + 1
        order.append((turns[site], len(order), index))
    return [asked[index] for *_, index in sorted(order)]
