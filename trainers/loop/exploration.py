"""Exploration: prompts become programs, those that run are evaluated, in an order that never varies.

In each round every island asks for completions of its parent, several for each program that is to be evaluated, and
the exploration supporter may add programs of its own. Each has a smoke run the moment it is written, while the model
goes on writing. Of those that pass it and are new the first are evaluated; what failed is kept as a failure, to learn
from. When all of a round is evaluated it is stored, and only then folded into the islands, in the order of the
candidates' ids: the result does not depend on how fast anything was. A resumed run goes through the same steps; a
round that is already in the store is read instead of made.

A program that the machine failed to evaluate is counted and otherwise forgotten: it becomes no candidate, so that
nothing is learned from it. Where that happens to a whole round, the run ends with the reason and can be resumed.
"""

import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, replace
from typing import Any

from atlas_gym.agents.engines.engine import Completion, Engine
from atlas_gym.agents.population.candidate import Candidate, Proposal
from atlas_gym.agents.proposals.completing import completion_of, site_of
from atlas_gym.agents.research_agent import ResearchAgent
from atlas_gym.agents.supporters.consult import SupporterCall
from atlas_gym.agents.supporters.exploration import FAILURES_TOLD, ExplorationRequest, ExplorationSupporter
from atlas_gym.evaluation import Evaluation, InfrastructureError
from atlas_gym.program_text import program_key
from atlas_gym.tasks.smoke import passes
from atlas_gym.trainers.data.measures import counts
from atlas_gym.trainers.data.rollouts import Pending, ProgramCache, outcome, write
from atlas_gym.trainers.loop.settings import ExplorationSettings
from atlas_gym.trainers.store.plain import SettingsError
from atlas_gym.trainers.store.store import RunStore


@dataclass(frozen=True)
class Draft:
    """A program that may be evaluated."""

    candidate: Candidate
    """The program."""
    request: int
    """Which of the round's proposals it answers; −1: a supporter's patch."""
    smoke: "Future[Evaluation] | None"
    """Its smoke run; None if the program is known already, and is left out."""


@dataclass(eq=False)
class Explorer:
    """Runs rounds of exploration over all islands."""

    settings: ExplorationSettings
    """The layout of a round."""
    agent: ResearchAgent
    """Makes proposals and keeps the islands."""
    generator: Callable[[], Engine]
    """Returns the engine to write with (asked anew in each round: a tuned policy replaces it)."""
    cache: ProgramCache
    """Evaluates programs."""
    store: RunStore
    """Every round is stored before it is folded into the islands."""
    supporter: ExplorationSupporter | None = None
    """Adds programs of its own, recorded as such; None for none."""
    teaching: bool = False
    """Whether what the supporter adds answers the islands' prompts, and so may teach the agent."""
    notes: Sequence[Sequence[str]] = ((),)
    """What prompts say of each instance, a line each."""

    def seed(self, programs: Sequence[str]) -> None:
        """Evaluate the starting programs (round 0), one for each instance, and give every island its own.

        Raises:
            SettingsError: a starting program fails.
        """
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
        self._fold(records)

    def rounds(self, first: int, last: int) -> Iterator[dict[str, Any]]:
        """Explore the rounds `first` to `last`; yields each one's summary when it is folded."""
        for round_ in range(first, last + 1):
            summary = self.store.round_summary(round_)
            if summary is None:
                summary = self._explore(round_)
            self._fold(self.store.round_candidates(round_))
            yield summary

    def _explore(self, round_: int) -> dict[str, Any]:
        """Write, try, evaluate and store a round; returns its summary."""
        layout, islands = self.settings, range(self.settings.islands)
        proposals = self.agent.propose(
            round_, islands, max(1, layout.samples * layout.draws),
            notes={i: self.notes[i % len(self.notes)] for i in islands}, sites=layout.sites,
        )  # fmt: skip
        drafts: list[Draft] = []
        # The samples of an island's proposals are numbered on.
        before, asked = [], Counter[int]()
        for proposal in proposals:
            before.append(asked[proposal.island])
            asked[proposal.island] += proposal.n
        tokens = 0

        def draft(candidate: Candidate, request: int) -> None:
            known = candidate.program_key in self.cache.keys(candidate.island)
            smoke = None if known else self.cache.smoke(candidate.program, candidate.island)
            drafts.append(Draft(candidate, request, smoke))

        def written(request: int, sample: int, completion: Completion) -> None:
            nonlocal tokens
            tokens += completion.tokens
            proposal = proposals[request]
            id_ = layout.candidate_id(round_, proposal.island, before[request] + sample)
            draft(proposal.candidate(id_, round_, completion.text), request)

        started = time.monotonic()
        if layout.samples:
            write(self.generator, proposals, written)
        generated = time.monotonic()
        calls = self._consult(round_, proposals, draft)
        chosen, failed = self._choose(drafts)
        self.cache.forget_smoke_runs()
        records, lost = self._judged([(c, self.cache.submit(c.program, c.island)) for c in chosen])
        tried = sum(draft.smoke is not None for draft in drafts)
        summary = {
            "round": round_,
            **counts(records, self.agent.settings.min_gain),
            "drawn": len(drafts),
            "smoke_runs": tried,
            "smoke_failed": len(failed),
            "lost": lost,
            "island_best": {str(i): self._island_best(i, records) for i in islands},
            "consulted": len(calls),
            "skipped": [call.reason for call in calls if call.status == "skipped"],
            "tokens": tokens,
            "generation_s": round(generated - started, 3),
            "evaluation_wait_s": round(time.monotonic() - generated, 3),
        }
        both = sorted([*records, *failed], key=lambda record: record.id)
        self.store.add_round(round_, both, summary, proposals, calls)
        return summary

    def _consult(
        self, round_: int, proposals: Sequence[Proposal], draft: Callable[[Candidate, int], None]
    ) -> list[SupporterCall]:
        """Ask the supporter about each island's parent and hand over what it writes; returns the calls."""
        if self.supporter is None or not self.settings.patches:
            return []
        calls: list[SupporterCall] = []
        # Of several proposals of an island the last: whoever advises looks at the parent, which is the same.
        for proposal in {proposal.island: proposal for proposal in proposals}.values():
            island, parent = proposal.island, self.store.candidate(proposal.parent_id)
            request = ExplorationRequest(
                ("round", round_, "island", island), self.agent.spec, parent,
                list(self.agent.islands[island].failed)[-FAILURES_TOLD:],
                tried=self.cache.keys(island), max_patches=self.settings.patches,
                site=site_of(proposal, parent.program) if self.teaching else None,
            )  # fmt: skip
            consultation = self.supporter.consult(request)
            calls.append(consultation.call)
            patches = consultation.advice.patches[: self.settings.patches]
            for slot, patch in enumerate(patches, start=self.settings.samples * self.settings.draws):
                id_ = self.settings.candidate_id(round_, island, slot)
                completion = completion_of(proposal, patch.program) if self.teaching else None
                candidate = (
                    proposal.patched(id_, round_, patch.kind, patch.program)
                    if completion is None
                    else proposal.taught(id_, round_, patch.kind, completion)
                )
                draft(candidate, -1)
        return calls

    def _choose(self, drafts: Sequence["Draft"]) -> tuple[list[Candidate], list[Candidate]]:
        """What is to be evaluated, by id, and what failed its smoke run.

        Of each proposal the first drafts that passed and are new, its share of the island's samples; then those of the
        island's other proposals until there are `samples`; and every patch that passed.
        """
        chosen: list[Candidate] = []
        failed: list[Candidate] = []
        spare: dict[int, list[Candidate]] = {}
        taken, seen = Counter[int](), set[tuple[int, str | None]]()
        proposals_of: dict[int, set[int]] = {}
        for own in drafts:
            if own.request >= 0:
                proposals_of.setdefault(own.candidate.island, set()).add(own.request)
        for own in sorted(drafts, key=lambda draft: draft.candidate.id):
            candidate, island = own.candidate, own.candidate.island
            key = self.cache.instance(island), candidate.program_key
            if own.smoke is None or (candidate.program_key is not None and key in seen):
                continue
            seen.add(key)
            try:
                found = own.smoke.result()
            except InfrastructureError:  # the evaluation will meet the machine's failure, or not
                found = None
            if found is not None and not passes(found):
                failed.append(replace(candidate.judged(found), evaluated=False))
            elif own.request < 0:
                chosen.append(candidate)
            else:
                share = -(-self.settings.samples // len(proposals_of[island]))
                if taken[own.request] < share:
                    taken[own.request] += 1
                    chosen.append(candidate)
                else:
                    spare.setdefault(island, []).append(candidate)
        for island in range(self.settings.islands):
            own_drafts = [c for c in chosen if c.island == island and c.origin == "agent"]
            surplus = own_drafts[self.settings.samples :]
            chosen = [c for c in chosen if c not in surplus]
            chosen += spare.get(island, [])[: max(0, self.settings.samples - len(own_drafts))]
        return sorted(chosen, key=lambda candidate: candidate.id), failed

    def _judged(self, pending: Sequence[Pending]) -> tuple[list[Candidate], int]:
        """The evaluated candidates, and how many the machine failed to evaluate.

        Raises:
            InfrastructureError: it failed with every one of them.
        """
        records: list[Candidate] = []
        lost = 0
        for candidate, evaluation in pending:
            try:
                records.append(candidate.judged(outcome(evaluation)))
            except InfrastructureError:
                lost += 1
                if lost == len(pending):
                    raise
        return records, lost

    def _fold(self, records: Sequence[Candidate]) -> None:
        for record in records:
            self.cache.record(record)
            self.agent.record(record)

    def _island_best(self, island: int, records: Sequence[Candidate]) -> float | None:
        """The island's best score once these records are folded in."""
        known = self.agent.islands.get(island)
        best = [known.best] if known is not None and known.best is not None else []
        own = [*best, *(record for record in records if record.island == island)]
        return max((r.score for r in own if r.score is not None), default=None)
