"""Exploration: prompts become candidates, generation and evaluation side by side, in an order that never varies.

A *unit* is one group of islands in one round. While the model writes for one group, the other group's programs
are being evaluated (and each completion is submitted the moment it ends, so its own group's evaluations start
early too):

    generate A1 | generate B1 | generate A2 | generate B2 | ...
                  evaluate A1   evaluate B1   evaluate A2

A program that the machine failed to evaluate is counted and otherwise forgotten: it becomes no candidate, so that
nothing is learned from it. Where that happens to a whole unit, the run ends with the reason and can be resumed.

A unit is folded into its islands only when all of it is evaluated and stored, always in the same order
(A1, B1, A2, ...), so the result does not depend on how fast anything was. A resumed run goes through the same
steps; a unit that is already in the store is read instead of made.
"""

import time
from collections import Counter, deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from atlas_gym.agents.engines.engine import Completion, Generator
from atlas_gym.agents.population.candidate import CandidateRecord, Origin, Proposal
from atlas_gym.agents.proposals.completing import completion_of, opening_of
from atlas_gym.agents.research_agent import ResearchAgent
from atlas_gym.agents.supporters.consult import Consultation, SupporterCall
from atlas_gym.agents.supporters.exploration import (
    FAILURES_TOLD,
    ExplorationAdvice,
    ExplorationRequest,
    ExplorationSupporter,
)
from atlas_gym.evaluation import InfrastructureError, Task
from atlas_gym.program_text import program_key
from atlas_gym.trainers.data.measures import counts
from atlas_gym.trainers.data.rollouts import Pending, ProgramCache, outcome, write
from atlas_gym.trainers.loop.settings import ExplorationSettings
from atlas_gym.trainers.store.plain import SettingsError
from atlas_gym.trainers.store.protocol import Store


@dataclass
class Unit:
    """A unit under way: what was asked and written, or what the store had of it."""

    round: int
    group: int
    proposals: Sequence[Proposal] = ()
    pending: list[Pending] = field(default_factory=list)
    calls: list[SupporterCall] = field(default_factory=list)
    critiques: dict[str, str] = field(default_factory=dict)
    spoiled: int = 0
    """Programs that the machine failed to evaluate; nothing is recorded of them."""
    tokens: int = 0
    generation_s: float = 0.0
    stored: Sequence[CandidateRecord] = ()
    summary: dict[str, Any] | None = None
    """None until it is stored."""


@dataclass(eq=False)
class Explorer:
    """Runs rounds of exploration over all islands."""

    settings: ExplorationSettings
    """The layout of a round."""
    agent: ResearchAgent
    """Makes proposals and keeps the islands."""
    generator: Callable[[], Generator]
    """Returns the backend to write with (asked anew for each unit: a tuned policy replaces it)."""
    cache: ProgramCache
    """Evaluates programs."""
    store: Store
    """Every unit is stored before it is folded into the islands."""
    supporter: ExplorationSupporter | None = None
    """Adds patched programs of its own, recorded as such; None for none."""
    teaching: bool = False
    """Whether what the supporter adds answers the islands' prompts, and so may teach the agent."""
    notes: Sequence[Sequence[str]] = ((),)
    """What prompts say of each task, a line each."""
    _critiques: dict[int, str] = field(init=False, default_factory=dict)
    _carried: dict[int, list[CandidateRecord]] = field(init=False, default_factory=dict)

    def change_tasks(self, tasks: Sequence[Task]) -> None:
        """From the next round on programs are scored on other tasks; that round scores the islands' best again."""
        self.cache.change_tasks(tasks)
        most = min(self.settings.carried, self.settings.samples + self.settings.patches)
        self._carried = self.agent.forget(most)

    def seed(self, programs: Sequence[str]) -> CandidateRecord:
        """Evaluate the starting programs (round 0), one for each instance, and give every island its own.

        Raises:
            SettingsError: the starting program itself fails.
        """
        records = self.store.unit_candidates(0, range(self.settings.islands))
        if not records:
            starts = [self._start(number, program) for number, program in enumerate(programs)]
            for island in range(self.settings.islands):
                start = starts[island % len(starts)]
                id_ = self.settings.candidate_id(0, island, 0)
                same = start.id if island >= len(starts) else None
                records.append(replace(start, id=id_, island=island, duplicate_of=same))
            self.store.add_unit(0, 0, records, {"round": 0, "group": 0})
        for record in records:
            self._fold(record)
        return records[0]

    def _start(self, island: int, program: str) -> CandidateRecord:
        evaluation = self.cache.evaluate(program, island)
        if not evaluation.ok:
            raise SettingsError(f"the starting program fails: {evaluation.status}: {evaluation.detail}")
        return self._program("seed", 0, island, 0, program).judged(evaluation)

    def _program(
        self, origin: Origin, round_: int, island: int, slot: int, program: str, parent: int | None = None
    ) -> CandidateRecord:
        """A program that nobody wrote just now: the start, or one that is scored again."""
        return CandidateRecord(
            id=self.settings.candidate_id(round_, island, slot), round=round_, island=island, origin=origin,
            style="", hole="", parent_id=parent, prompt="", completion="", program=program,
            program_key=program_key(program), is_copy=parent is not None,
        )  # fmt: skip

    def rounds(self, first: int, last: int) -> Iterator[dict[str, Any]]:
        """Explore rounds `first` to `last` inclusive; yields each unit's summary as it is folded."""
        under_way: deque[Unit] = deque()
        for round_ in range(first, last + 1):
            for group in range(self.settings.groups):
                if len(under_way) == self.settings.groups:
                    yield self._collect(under_way.popleft())
                under_way.append(self._launch(round_, group))
            self._carried = {}
        while under_way:
            yield self._collect(under_way.popleft())

    def _launch(self, round_: int, group: int) -> Unit:
        unit = Unit(round_, group)
        islands = self.settings.members(group)
        unit.summary = self.store.unit_summary(round_, group)
        if unit.summary is not None:
            unit.stored = self.store.unit_candidates(round_, islands)
        elif self._carried:
            self._carry(unit, islands)
        else:
            self._generate(unit, islands)
        return unit

    def _carry(self, unit: Unit, islands: Sequence[int]) -> None:
        for island in islands:
            for slot, record in enumerate(self._carried[island]):
                again = self._program("carried", unit.round, island, slot, record.program, record.id)
                self._submit(unit, again)

    def _generate(self, unit: Unit, islands: Sequence[int]) -> None:
        unit.proposals = self.agent.propose(
            unit.round,
            islands,
            max(1, self.settings.samples),
            notes={island: self._notes(island) for island in islands},
            sites=self.settings.sites,
        )
        first = _first_samples(unit.proposals)

        def submit(request: int, sample: int, completion: Completion) -> None:
            proposal = unit.proposals[request]
            id_ = self.settings.candidate_id(unit.round, proposal.island, first[request] + sample)
            unit.tokens += completion.tokens
            self._submit(unit, proposal.candidate(id_, unit.round, completion.text))

        started = time.monotonic()
        if self.settings.samples:
            write(self.generator, unit.proposals, submit)
        unit.generation_s = time.monotonic() - started
        if self.supporter is not None and self.settings.asks_supporter(unit.round):
            self._consult(unit, self.supporter)

    def _notes(self, island: int) -> list[str]:
        critique = self._critiques.get(island)
        return [*self.notes[island % len(self.notes)], *([critique] if critique else [])]

    def _submit(self, unit: Unit, candidate: CandidateRecord) -> None:
        unit.pending.append((candidate, self.cache.submit(candidate.program, candidate.island)))

    def _consult(self, unit: Unit, supporter: ExplorationSupporter) -> None:
        """Ask about each parent of the unit, and start evaluating the patches that come back."""
        # Of several proposals of an island the last: whoever advises looks at the parent, which is the same.
        for proposal in {proposal.island: proposal for proposal in unit.proposals}.values():
            consultation = self._ask(unit.round, proposal, supporter)
            unit.calls.append(consultation.call)
            unit.critiques[str(proposal.island)] = consultation.advice.critique
            patches = consultation.advice.patches[: self.settings.patches]
            for slot, patch in enumerate(patches, start=self.settings.samples):
                id_ = self.settings.candidate_id(unit.round, proposal.island, slot)
                completion = completion_of(proposal, patch.program) if self.teaching else None
                self._submit(
                    unit,
                    proposal.patched(id_, unit.round, patch.kind, patch.program)
                    if completion is None
                    else proposal.taught(id_, unit.round, patch.kind, completion),
                )

    def _ask(
        self, round_: int, proposal: Proposal, supporter: ExplorationSupporter
    ) -> Consultation[ExplorationAdvice]:
        parent = self.store.candidate(proposal.parent_id)
        failed = list(self.agent.islands[proposal.island].failed)
        request = ExplorationRequest(
            ("round", round_, "island", proposal.island), self.agent.spec, parent, failed[-FAILURES_TOLD:],
            tried=self.cache.keys(proposal.island), max_patches=self.settings.patches,
            opening=opening_of(proposal, parent.program) if self.teaching else None,
        )  # fmt: skip
        return supporter.consult(request)

    def _collect(self, unit: Unit) -> dict[str, Any]:
        summary = self._store(unit) if unit.summary is None else unit.summary
        for record in unit.stored:
            self._fold(record)
        if self.settings.show_critique:
            self._critiques |= {int(island): text for island, text in summary.get("critiques", {}).items()}
        return summary

    def _store(self, unit: Unit) -> dict[str, Any]:
        """Wait for the unit's evaluations and store what came of them."""
        started = time.monotonic()
        records = unit.stored = self._records(unit)
        summary = self._summary(unit, records, waited=time.monotonic() - started)
        self.store.add_unit(unit.round, unit.group, records, summary, unit.proposals, unit.calls)
        return summary

    def _fold(self, record: CandidateRecord) -> None:
        self.cache.record(record)
        self.agent.record(record)

    def _records(self, unit: Unit) -> list[CandidateRecord]:
        """The unit's candidates in the order of their ids, whatever order they were written in.

        Raises `InfrastructureError` if the machine failed with every one of them.
        """
        seen: dict[tuple[int, str | None], CandidateRecord] = {}
        records = []
        for candidate, evaluation in sorted(unit.pending, key=lambda pending: pending[0].id):
            key = self.cache.instance(candidate.island), candidate.program_key
            earlier = self.cache.recorded(candidate.program_key, candidate.island) or seen.get(key)
            try:
                found = candidate.judged(earlier or outcome(evaluation), earlier.id if earlier else None)
            except InfrastructureError:
                unit.spoiled += 1
                if unit.spoiled == len(unit.pending):
                    raise
                continue
            if candidate.program_key is not None:
                seen.setdefault(key, found)
            records.append(found)
        return records

    def _summary(self, unit: Unit, records: list[CandidateRecord], waited: float) -> dict[str, Any]:
        return {
            "round": unit.round,
            "group": unit.group,
            **counts(records, self.agent.settings.min_gain),
            "spoiled": unit.spoiled,
            "island_best": {str(i): self._island_best(i, records) for i in self.settings.members(unit.group)},
            "critiques": unit.critiques,
            "consulted": len(unit.calls),
            "skipped": [call.reason for call in unit.calls if call.status == "skipped"],
            "tokens": unit.tokens,
            "generation_s": round(unit.generation_s, 3),
            "evaluation_wait_s": round(waited, 3),
        }

    def _island_best(self, island: int, records: list[CandidateRecord]) -> float | None:
        """The island's best score once these records are folded in."""
        known = self.agent.islands.get(island)
        best = [known.best] if known is not None and known.best is not None else []
        own = [*best, *(record for record in records if record.island == island)]
        return max((r.score for r in own if r.score is not None), default=None)


def _first_samples(proposals: Sequence[Proposal]) -> list[int]:
    """For each proposal how many samples of its island come before."""
    asked: Counter[int] = Counter()
    first = []
    for proposal in proposals:
        first.append(asked[proposal.island])
        asked[proposal.island] += proposal.n
    return first
