"""The exploration supporter as a teacher: it answers the agent's own prompts, and the answers become preference data.

Paper, section 2.1: in a fine-tuning phase the supporter proposes completions for each prompt, informed by recent
failures, from which preference supervision is constructed. Each is a program like any other: it is evaluated, counts in
the run's budget, may be its best and a parent of others, and is stored with the prompt. Pairs may choose such an answer
or reject it (`trainers.data.pairs`).
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Sequence, Set
from dataclasses import replace

import numpy as np

from atlas_gym.agents.population.candidate import Candidate, Proposal
from atlas_gym.agents.population.choice_statistics import ChoiceStatistics
from atlas_gym.agents.proposals.completing import completion_of, site_of
from atlas_gym.agents.supporters.consult import SupporterCall
from atlas_gym.agents.supporters.exploration import FAILURES_TOLD, ExplorationRequest, ExplorationSupporter
from atlas_gym.seeding import stream
from atlas_gym.trainers.data.measures import is_improving
from atlas_gym.trainers.data.rollouts import Pending, again, judged
from atlas_gym.trainers.data.settings import MARGIN
from atlas_gym.trainers.loop.resources import Parts

_TURNS = 3
"""In so many turns the further answers are written; each looks at what the turns before have found."""
_EVEN = 0.2
"""Share of the answers that all edit sites have alike, whatever has paid there."""
Asked = tuple[int, Proposal]
"""A prompt of exploration: the round that asked it, and what was asked, with the island that asked."""


class Teacher:
    """Has the supporter's answers written, scored and stored."""

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
        """Have the prompts answered: each once, then again and again those whose edit sites have paid so far."""
        calls: list[SupporterCall] = []
        answers: list[Candidate] = []
        next_id = self._store.last_taught_id() - 1
        # At most half of what may still be executed: the rounds that follow are to use what was learned.
        most = len(asked) * self._config.taught_per_prompt
        if budget := self._config.evaluations:
            most = min(most, (budget - self._store.candidate_counts()["evaluated"]) // 2)
        rng = stream(self._config.seed, "teaching", phase, "sites")
        paid = ChoiceStatistics(decay=1.0, uniform=_EVEN)
        tried: defaultdict[int, set[str]] = defaultdict(set)  # by prompt
        queues: dict[str, list[int]] = {}  # the prompts of each site, in turn
        for number, (_, proposal) in enumerate(asked):
            queues.setdefault(proposal.site, []).append(number)
        alike = dict.fromkeys(queues, 1.0)
        first: dict[tuple[int, str | None], int] = {}  # two prompts may have one program for their answer
        further = max(0, most - len(asked))
        for turn in range(1 + _TURNS):
            wanted = Counter(range(min(most, len(asked))) if turn == 0 else ())
            for _ in range(further * turn // _TURNS - further * (turn - 1) // _TURNS if turn else 0):
                queue = queues[paid.sample(alike, rng)]
                wanted[queue[0]] += 1
                queue.append(queue.pop(0))
            pending: list[Pending] = []
            for number, count in sorted(wanted.items()):
                round_, proposal = asked[number]
                parent = self._store.candidate(proposal.parent_id)
                site = site_of(proposal, parent.program)
                if site is None:
                    continue
                told = self._store.round_candidates(round_, proposal.island)
                failed = [answer for answer in told if answer.prompt == proposal.prompt and not answer.passed]
                request = ExplorationRequest(
                    ("phase", phase, "prompt", number, turn), self._run.agent.spec, parent,
                    failed[-FAILURES_TOLD:], tried=frozenset(tried[number]), max_patches=count, site=site,
                )  # fmt: skip
                consultation = self._supporter.consult(request)
                calls.append(consultation.call)
                for patch in consultation.advice.patches:
                    completion = completion_of(proposal, patch.program)
                    if completion is not None:
                        answer = proposal.taught(next_id, round_, patch.kind, completion)
                        pending.append((answer, self._run.cache.submit(answer.program, answer.island)))
                        tried[number].add(answer.program_key or "")
                        next_id -= 1
            for record in judged(pending, self._run.cache):
                key = self._run.cache.instance(record.island), record.program_key
                earlier = first.setdefault(key, record.id)
                answers.append(replace(record, duplicate_of=earlier) if earlier != record.id else record)
                paid.add(record.site, is_improving(answers[-1], MARGIN))
        self._store.add_taught(phase, last, answers, calls)


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
