"""Exploration: prompts become candidates, generation and evaluation side by side, in an order that never varies.

In each round every island asks for completions of its parent, and the exploration supporter may add programs of its
own. Each completion is submitted for evaluation the moment it ends, while the model goes on writing. When all of a
round is evaluated it is stored, and only then folded into the islands, in the order of the candidates' ids: the result
does not depend on how fast anything was. A resumed run goes through the same steps; a round that is already in the
store is read instead of made.

A program that the machine failed to evaluate is counted and otherwise forgotten: it becomes no candidate, so that
nothing is learned from it. Where that happens to a whole round, the run ends with the reason and can be resumed.
"""

import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from atlas_gym.agents.engines.engine import Completion, Engine
from atlas_gym.agents.population.candidate import Candidate, Proposal
from atlas_gym.agents.proposals.completing import completion_of, site_of
from atlas_gym.agents.research_agent import ResearchAgent
from atlas_gym.agents.supporters.consult import SupporterCall
from atlas_gym.agents.supporters.exploration import FAILURES_TOLD, ExplorationRequest, ExplorationSupporter
from atlas_gym.evaluation import InfrastructureError
from atlas_gym.program_text import program_key
from atlas_gym.trainers.data.measures import counts
from atlas_gym.trainers.data.rollouts import Pending, ProgramCache, outcome, write
from atlas_gym.trainers.loop.settings import ExplorationSettings
from atlas_gym.trainers.store.plain import SettingsError
from atlas_gym.trainers.store.store import RunStore


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
        """Write, evaluate and store a round; returns its summary."""
        islands = range(self.settings.islands)
        notes = {i: self.notes[i % len(self.notes)] for i in islands}
        proposals = self.agent.propose(
            round_, islands, max(1, self.settings.samples), notes=notes, sites=self.settings.sites
        )
        pending: list[Pending] = []
        # The samples of an island's proposals are numbered on.
        before, asked = [], Counter[int]()
        for proposal in proposals:
            before.append(asked[proposal.island])
            asked[proposal.island] += proposal.n
        tokens = 0

        def submit(request: int, sample: int, completion: Completion) -> None:
            nonlocal tokens
            tokens += completion.tokens
            proposal = proposals[request]
            id_ = self.settings.candidate_id(round_, proposal.island, before[request] + sample)
            candidate = proposal.candidate(id_, round_, completion.text)
            pending.append((candidate, self.cache.submit(candidate.program, candidate.island)))

        started = time.monotonic()
        if self.settings.samples:
            write(self.generator, proposals, submit)
        written = time.monotonic()
        calls = self._consult(round_, proposals, pending)
        records, lost = self._judged(pending)
        waited = time.monotonic() - written
        summary = {
            "round": round_,
            **counts(records, self.agent.settings.min_gain),
            "lost": lost,
            "island_best": {str(i): self._island_best(i, records) for i in islands},
            "consulted": len(calls),
            "skipped": [call.reason for call in calls if call.status == "skipped"],
            "tokens": tokens,
            "generation_s": round(written - started, 3),
            "evaluation_wait_s": round(waited, 3),
        }
        self.store.add_round(round_, records, summary, proposals, calls)
        return summary

    def _consult(
        self, round_: int, proposals: Sequence[Proposal], pending: list[Pending]
    ) -> list[SupporterCall]:
        """Ask the supporter about each island's parent and submit what it writes; returns the calls."""
        calls: list[SupporterCall] = []
        if self.supporter is None or not self.settings.patches:
            return calls
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
            for slot, patch in enumerate(patches, start=self.settings.samples):
                id_ = self.settings.candidate_id(round_, island, slot)
                completion = completion_of(proposal, patch.program) if self.teaching else None
                candidate = (
                    proposal.patched(id_, round_, patch.kind, patch.program)
                    if completion is None
                    else proposal.taught(id_, round_, patch.kind, completion)
                )
                pending.append((candidate, self.cache.submit(candidate.program, island)))
        return calls

    def _judged(self, pending: Sequence[Pending]) -> tuple[list[Candidate], int]:
        """The evaluated candidates in the order of their ids, and how many the machine failed to evaluate.

        Raises:
            InfrastructureError: it failed with every one of them.
        """
        seen: dict[tuple[int, str], Candidate] = {}
        records: list[Candidate] = []
        lost = 0
        for candidate, evaluation in sorted(pending, key=lambda each: each[0].id):
            key = candidate.program_key
            instance = self.cache.instance(candidate.island)
            earlier = self.cache.recorded(key, candidate.island)
            if earlier is None and key is not None:
                earlier = seen.get((instance, key))
            try:
                found = candidate.judged(earlier or outcome(evaluation), earlier.id if earlier else None)
            except InfrastructureError:
                lost += 1
                if lost == len(pending):
                    raise
                continue
            if key is not None:
                seen.setdefault((instance, key), found)
            records.append(found)
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
