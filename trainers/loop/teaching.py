"""The exploration supporter as a teacher: it answers the agent's own prompts, and the answers become preference data.

Paper, section 2.1: in a fine-tuning phase the supporter proposes completions for each prompt, informed by recent
failures, from which preference supervision is constructed. Each is a program like any other: it is evaluated, counts in
the run's budget and may be its best, and is stored with the prompt; but it is no parent of others. Pairs may choose
such an answer or reject it (`trainers.data.pairs`).
"""

from collections.abc import Callable, Sequence, Set
from dataclasses import replace

import numpy as np

from atlas_gym.agents.population.candidate import Candidate, Proposal
from atlas_gym.agents.proposals.completing import completion_of, site_of
from atlas_gym.agents.supporters.consult import SupporterCall
from atlas_gym.agents.supporters.exploration import FAILURES_TOLD, ExplorationRequest, ExplorationSupporter
from atlas_gym.seeding import stream
from atlas_gym.trainers.data.rollouts import Pending, again, judged
from atlas_gym.trainers.loop.resources import Parts

Asked = tuple[int, Proposal]
"""A prompt of exploration: the round that asked it, and what was asked, with the island that asked."""


class Teacher:
    """Has the supporter's answers written, scored and stored.

    Args:
        run: the parts of the run.
        supporter: writes them.
    """

    def __init__(self, run: Parts, supporter: ExplorationSupporter):
        self._run, self._supporter, self._store, self._config = run, supporter, run.store, run.config

    def teach(self, phase: int, first: int, last: int, held_apart: Set[str]) -> None:
        """Store the phase's answers, to prompts of the rounds `first` to `last` that are not `held_apart`, unless they
        are stored already. Where Ŝ is the likelihood of answers that are known to improve, those prompts (G_k's,
        which nobody is trained on) are answered as well, whatever round asked them."""
        if self._store.get_meta("taught", 0) < phase:
            prompts = self._asked(first, last, lambda prompt: prompt not in held_apart)
            order = _spread(prompts, stream(self._config.seed, "teaching", phase))
            asked = order[: self._config.pairs.prompts]
            if self._config.gate_score == "likelihood":
                asked += self._asked(1, last, lambda prompt: prompt in held_apart)
            self._write(phase, asked, last)

    def _asked(self, first: int, last: int, wanted: Callable[[str], bool]) -> list[Asked]:
        """The prompts of these rounds that are wanted, each once."""
        found: dict[str, Asked] = {}
        for round_, island, prompt in self._store.asked(last):
            if prompt and wanted(prompt) and round_ >= first:
                proposal = self._store.proposal(round_, island, prompt)
                parent = self._store.candidate(proposal.parent_id)
                found.setdefault(prompt, (round_, again(proposal, island, parent)))
        return list(found.values())

    def _write(self, phase: int, asked: Sequence[Asked], last: int) -> None:
        calls: list[SupporterCall] = []
        pending: list[Pending] = []
        next_id = self._store.last_taught_id() - 1
        # At most half of what may still be executed: the rounds that follow are to use what was learned.
        most = len(asked) * self._config.taught_per_prompt
        if budget := self._config.evaluations:
            most = min(most, (budget - self._store.candidate_counts()["evaluated"]) // 2)
        for number, (round_, proposal) in enumerate(asked):
            if len(pending) >= most:
                break
            parent = self._store.candidate(proposal.parent_id)
            site = site_of(proposal, parent.program)
            if site is None:
                continue
            request = ExplorationRequest(
                ("phase", phase, "prompt", number), self._run.agent.spec, parent, self._failures(round_, proposal),
                max_patches=min(self._config.taught_per_prompt, most - len(pending)), site=site,
            )  # fmt: skip
            consultation = self._supporter.consult(request)
            calls.append(consultation.call)
            for patch in consultation.advice.patches:
                completion = completion_of(proposal, patch.program)
                if completion is not None:
                    answer = proposal.taught(next_id, round_, patch.kind, completion)
                    pending.append((answer, self._run.cache.submit(answer.program, answer.island)))
                    next_id -= 1
        first: dict[tuple[int, str | None], int] = {}  # two prompts may have one program for their answer
        answers = []
        for record in judged(pending, self._run.cache):
            key = self._run.cache.instance(record.island), record.program_key
            earlier = first.setdefault(key, record.id)
            answers.append(replace(record, duplicate_of=earlier) if earlier != record.id else record)
        self._store.add_taught(phase, last, answers, calls)

    def _failures(self, round_: int, proposal: Proposal) -> list[Candidate]:
        answers = self._store.round_candidates(round_, proposal.island)
        failed = [answer for answer in answers if answer.prompt == proposal.prompt and not answer.passed]
        return failed[-FAILURES_TOLD:]


def _spread(asked: Sequence[Asked], rng: np.random.Generator) -> list[Asked]:
    """In random order, but every edit site once before any comes twice: a site that is not taught does not gain."""
    turns: dict[tuple[str, str], int] = {}
    order: list[tuple[int, int, int]] = []
    for index in rng.permutation(len(asked)).tolist():
        proposal = asked[index][1]
        site = (proposal.style, proposal.site)
        turns[site] = turns.get(site, 0) + 1
        order.append((turns[site], len(order), index))
    return [asked[index] for *_, index in sorted(order)]
