"""Exploration: prompts become programs, those that run are evaluated, in an order that never varies.

In each round every island shares its evaluations among the writers (`ResearchAgent.shares`), who write several programs
for each: the exploration supporter patches the island's parent, the model completes prompts, and two writers draw at
random. A patch of one line is an answer to the prompt that asks for that line, and may teach the model.

Each program has a smoke run the moment it is written, and what needs no model is evaluated while the model goes on
writing. Of those that pass it and are new every writer's first are evaluated, as many as its share; what it cannot
deliver falls to the others, the most successful first. What failed is kept as a failure, to learn from. When all of a
round is evaluated it is stored, and only then folded into the islands, in the order of the candidates' ids: the result
does not depend on how fast anything was. A resumed run goes through the same steps; a round that is already in the
store is read instead of made.

A program that the machine failed to evaluate is counted and otherwise forgotten: it becomes no candidate, so that
nothing is learned from it. Where that happens to a whole round, the run ends with the reason and can be resumed.
"""

import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, replace
from typing import Any

from atlas_gym.agents.engines.engine import Completion, Engine
from atlas_gym.agents.population.candidate import SUPPORTER, Candidate, Proposal
from atlas_gym.agents.proposals.completing import completion_of
from atlas_gym.agents.research_agent import ResearchAgent
from atlas_gym.agents.supporters.consult import SupporterCall
from atlas_gym.agents.supporters.exploration import FAILURES_TOLD, ExplorationRequest, ExplorationSupporter
from atlas_gym.evaluation import Evaluation, InfrastructureError
from atlas_gym.program_text import program_key
from atlas_gym.tasks.smoke import passes
from atlas_gym.trainers.data.measures import counts
from atlas_gym.trainers.data.rollouts import ProgramCache, judged, write, write_at_once
from atlas_gym.trainers.loop.settings import ExplorationSettings
from atlas_gym.trainers.store.plain import SettingsError
from atlas_gym.trainers.store.store import RunStore


@dataclass(frozen=True)
class Draft:
    """A program that may be evaluated."""

    candidate: Candidate  # the program
    request: int  # which of the round's proposals it answers; −1: a supporter's patch
    smoke: "Future[Evaluation] | None"  # its smoke run; None if the program is known already, and is left out


@dataclass(eq=False)
class Explorer:
    """Runs rounds of exploration over all islands."""

    settings: ExplorationSettings  # the layout of a round
    writers: Mapping[str, float]  # who writes, by weight
    agent: ResearchAgent  # makes proposals and keeps the islands
    generator: Callable[[], Engine]
    """Returns the engine to write with (asked anew in each round: a tuned policy replaces it)."""
    cache: ProgramCache  # evaluates programs
    store: RunStore  # every round is stored before it is folded into the islands
    evaluations: int = 0  # programs that the run executes, at most; 0: no bound
    supporter: ExplorationSupporter | None = None  # patches the islands' parents; None for none
    notes: Sequence[Sequence[str]] = ((),)  # what prompts say of each instance, a line each

    def seed(self, programs: Sequence[str]) -> None:
        """Evaluate the starting programs (round 0), one for each instance, and give every island its own. Raises
        `SettingsError`: a starting program fails."""
        records = self.store.round_candidates(0)
        if not records:
            for island in range(self.settings.islands):
                program = programs[island % len(programs)]
                same = records[island % len(programs)] if island >= len(programs) else None
                found = same or self.cache.evaluate(program, island)
                if found.status != "ok":
                    raise SettingsError(f"the starting program fails: {found.status}: {found.detail}")
                start = Candidate(
                    id=self.settings.candidate_id(0, island, 0), round=0, island=island, origin="seed", style="",
                    site="", parent_id=None, prompt="", completion="", program=program,
                    program_key=program_key(program),
                )  # fmt: skip
                records.append(start.judged(found, same.id if same else None))
            self.store.add_round(0, records, {"round": 0})
        self.fold(records)

    def rounds(self, first: int, last: int) -> Iterator[dict[str, Any]]:
        """Explore the rounds `first` to `last`; yields each one's summary when it is folded."""
        for round_ in range(first, last + 1):
            summary = self.store.round_summary(round_)
            if summary is None:
                most = self.settings.islands * self.settings.samples
                if self.evaluations:
                    most = min(most, self.evaluations - self.store.candidate_counts()["evaluated"])
                if most < 1:
                    return
                summary = self._explore(round_, most)
            self.fold(self.store.round_candidates(round_))
            yield summary

    def _explore(self, round_: int, most: int) -> dict[str, Any]:
        """Write, try, evaluate and store a round, up to `most` programs; returns its summary."""
        layout = self.settings
        drafts: list[Draft] = []
        shares: list[Counter[str]] = []
        proposals: list[Proposal] = []
        answered: dict[tuple[int, str], Proposal] = {}  # prompts that a patch of one line answers
        calls: list[SupporterCall] = []
        first: list[int] = []  # of each proposal, its first completion's number in its island's round
        started, tokens = time.monotonic(), 0

        def draft(candidate: Candidate, request: int) -> None:
            known = candidate.program_key in self.cache.keys(candidate.island)
            smoke = None if known else self.cache.smoke(candidate.program, candidate.island)
            drafts.append(Draft(candidate, request, smoke))

        def written(request: int, sample: int, completion: Completion) -> None:
            nonlocal tokens
            tokens += completion.tokens
            proposal = proposals[request]
            id_ = layout.candidate_id(round_, proposal.island, first[request] + sample)
            draft(proposal.candidate(id_, round_, completion.text), request)

        for island in range(layout.islands):
            parent, worse = self.agent.parents(round_, island)
            samples = most // layout.islands + (island < most % layout.islands)
            shares.append(
                self.agent.shares(round_, island, parent, self.writers, samples, by_yield=layout.by_yield)
            )
            asked = Counter({writer: layout.draws * n for writer, n in shares[island].items()})
            notes, critique = self.notes[island % len(self.notes)], ""
            number = asked.pop(SUPPORTER, 0)
            if number and self.supporter is not None:
                request = ExplorationRequest(
                    ("round", round_, "island", island), self.agent.spec, parent,
                    list(self.agent.islands[island].failed)[-FAILURES_TOLD:],
                    tried=self.cache.keys(island), max_patches=number,
                )  # fmt: skip
                consultation = self.supporter.consult(request)
                calls.append(consultation.call)
                critique = consultation.advice.critique
                for place, patch in enumerate(consultation.advice.patches[:number]):
                    id_ = layout.candidate_id(round_, island, place)
                    asked_for = self.agent.answered(island, parent, worse, patch.program, notes)
                    completion = completion_of(asked_for, patch.program) if asked_for else None
                    if asked_for and completion:
                        answered[island, asked_for.prompt] = asked_for
                        draft(asked_for.taught(id_, round_, patch.kind, completion), -1)
                    else:
                        draft(parent.patched(id_, round_, island, patch.kind, patch.program), -1)
            for proposal in self.agent.propose(
                round_, island, parent, worse, asked, notes=notes, critique=critique, sites=layout.sites
            ):
                proposals.append(proposal)
                first.append(number)
                number += proposal.n
        # What needs no model is evaluated while the model writes.
        write_at_once(proposals, written)
        for candidate in self._choose(drafts, shares, fill=False)[0]:
            self.cache.submit(candidate.program, candidate.island)
        write(self.generator, proposals, written)
        generated = time.monotonic()
        chosen, failed = self._choose(drafts, shares)
        self.cache.forget_smoke_runs()
        records = judged([(c, self.cache.submit(c.program, c.island)) for c in chosen], self.cache)
        evaluated = Counter(record.writer for record in records)
        improving = Counter(record.writer for record in records if self.agent.improves(record))
        summary = {
            "round": round_,
            **counts(records, self.agent.settings.min_gain),
            "drawn": len(drafts),
            "smoke_runs": sum(draft.smoke is not None for draft in drafts),
            "smoke_failed": len(failed),
            "lost": len(chosen) - len(records),
            "writers": {name: [count, improving[name]] for name, count in evaluated.items()},
            "consulted": len(calls),
            "skipped": [call.reason for call in calls if call.status == "skipped"],
            "tokens": tokens,
            "generation_s": round(generated - started, 3),
            "evaluation_wait_s": round(time.monotonic() - generated, 3),
        }
        both = sorted([*records, *failed], key=lambda record: record.id)
        answered |= {(p.island, p.prompt): p for p in proposals if p.texts is None}
        self.store.add_round(round_, both, summary, answered.values(), calls)
        return summary

    def _choose(
        self, drafts: Sequence[Draft], shares: Sequence[Mapping[str, int]], *, fill: bool = True
    ) -> tuple[list[Candidate], list[Candidate]]:
        """What is to be evaluated, by id, and what failed its smoke run.

        A writer's programs that passed and are new stand in turn by edit site, the first of each before the second of
        any. Each writer has its share of them; then, to `fill` what is left, more of the others, by their yields.
        """
        passed: dict[tuple[int, str], list[tuple[int, int, Candidate]]] = defaultdict(list)
        failed: list[Candidate] = []
        seen, turns = set[tuple[int, str | None]](), Counter[tuple[int, int]]()
        for draft in sorted(drafts, key=lambda draft: draft.candidate.id):
            candidate, island = draft.candidate, draft.candidate.island
            key = self.cache.instance(island), candidate.program_key
            if draft.smoke is None or (candidate.program_key is not None and key in seen):
                continue
            seen.add(key)
            try:
                found = draft.smoke.result()
            except InfrastructureError:  # the evaluation will meet the machine's failure, or not
                found = None
            if found is not None and not passes(found):
                failed.append(replace(candidate.judged(found), evaluated=False))
                continue
            turns[island, draft.request] += 1
            queue = passed[island, candidate.writer]
            queue.append((turns[island, draft.request], candidate.id, candidate))
        chosen: list[Candidate] = []
        for island, share in enumerate(shares):
            queues = {writer: sorted(passed[island, writer], key=lambda entry: entry[:2]) for writer in share}
            spare = []
            for writer in sorted(queues, key=self.agent.yield_of, reverse=True):
                chosen += [candidate for *_, candidate in queues[writer][: share[writer]]]
                spare += [candidate for *_, candidate in queues[writer][share[writer] :]]
            missing = sum(share.values()) - sum(candidate.island == island for candidate in chosen)
            chosen += spare[: max(0, missing)] if fill else []
        return sorted(chosen, key=lambda candidate: candidate.id), failed

    def fold(self, records: Sequence[Candidate]) -> None:
        """Take stored candidates into the islands."""
        for record in records:
            self.cache.record(record)
            self.agent.record(record)
