"""Exploration: prompts become candidates, generation and evaluation side by side, in an order that never varies.

A *unit* is one group of islands in one round. While the model writes for one group, the other group's programs
are being evaluated (and each completion is submitted the moment it ends, so its own group's evaluations start
early too):

    generate A1 | generate B1 | generate A2 | generate B2 | ...
                  evaluate A1   evaluate B1   evaluate A2

A unit is folded into its islands only when all of it is evaluated and stored, always in the same order
(A1, B1, A2, ...), so the result does not depend on how fast anything was. A resumed run goes through the same
steps; a unit that is already in the store is read instead of made.
"""

import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any

from agents.candidate import CandidateRecord
from agents.generation import Completion, Generator
from agents.research_agent import IslandPlan, ResearchAgent
from atlas_gym.evaluation import Evaluation, EvaluatorPool, Task
from atlas_gym.program import program_key
from trainers.measures import is_new
from trainers.store import RunStore


@dataclass(frozen=True)
class ExplorationSettings:
    """How a round is laid out."""

    islands: int = 6
    """Number of islands (paper: 6)."""
    samples: int = 8
    """Completions per island and round (EvoTune: 8)."""
    groups: int = 2
    """Groups the islands are split into; while one is generated the other is evaluated. 1 to `islands`."""

    def __post_init__(self) -> None:
        if not 1 <= self.groups <= self.islands:
            raise ValueError("groups must lie between 1 and the number of islands")
        if self.samples < 1:
            raise ValueError("samples must be at least 1")

    def members(self, group: int) -> list[int]:
        """The islands of a group."""
        return list(range(group, self.islands, self.groups))

    def candidate_id(self, round_: int, island: int, sample: int) -> int:
        """Arithmetic id: equal in every run of the same layout, and ascending in the order of recording
        within a unit."""
        return (round_ * self.islands + island) * self.samples + sample


@dataclass
class _Unit:
    """A unit under way: its plans and the evaluations still running, or what the store had of it."""

    round: int
    group: int
    plans: Sequence[IslandPlan] = ()
    completions: dict[tuple[int, int], Completion] = field(default_factory=dict)
    evaluations: dict[tuple[int, int], "Future[Evaluation]"] = field(default_factory=dict)
    generation_s: float = 0.0
    stored: list[CandidateRecord] | None = None


class ProgramCache:
    """Evaluations by normalised syntax tree: the same program is never run twice, nor stored as news twice."""

    def __init__(self, evaluator: EvaluatorPool, task: Task):
        self._evaluator = evaluator
        self._task = task
        self._running: dict[str, Future[Evaluation]] = {}
        self._first: dict[str, CandidateRecord] = {}

    def submit(self, program: str) -> "Future[Evaluation] | None":
        """Start an evaluation, or join one under way; None if the program's outcome is recorded already."""
        key = program_key(program)
        if key is None:
            return self._evaluator.submit(program, self._task)
        if key in self._first:
            return None
        if key not in self._running:
            self._running[key] = self._evaluator.submit(program, self._task)
        return self._running[key]

    def evaluate(self, program: str) -> Evaluation:
        """Evaluate one program and wait for it, whatever is recorded."""
        return self._evaluator.submit(program, self._task).result()

    def recorded(self, key: str | None) -> CandidateRecord | None:
        """The first recorded candidate with this syntax tree."""
        return None if key is None else self._first.get(key)

    def record(self, candidate: CandidateRecord) -> None:
        """Remember a recorded candidate's outcome."""
        if candidate.program_key is not None:
            self._first.setdefault(candidate.program_key, candidate)
            self._running.pop(candidate.program_key, None)


class Explorer:
    """Runs rounds of exploration over all islands.

    Args:
        settings: the layout of a round.
        agent: plans proposals and keeps the islands.
        generator: returns the backend to write with (asked anew for each unit: a tuned policy replaces it).
        cache: evaluates programs.
        store: every unit is stored before it is folded into the islands.
    """

    def __init__(
        self,
        settings: ExplorationSettings,
        agent: ResearchAgent,
        generator: Callable[[], Generator],
        cache: ProgramCache,
        store: RunStore,
    ):
        self.settings = settings
        self.agent = agent
        self.generator = generator
        self.cache = cache
        self.store = store

    def seed(self, program: str) -> CandidateRecord:
        """Evaluate the starting program (round 0) and give it to every island.

        Raises:
            ValueError: the starting program itself fails.
        """
        records = self.store.unit_candidates(0, range(self.settings.islands))
        if not records:
            evaluation = self.cache.evaluate(program)
            if not evaluation.ok:
                raise ValueError(f"the starting program fails: {evaluation.status}: {evaluation.detail}")
            records = [
                self._seed_record(program, island, evaluation) for island in range(self.settings.islands)
            ]
            self.store.add_unit(0, 0, records, {"round": 0, "group": 0})
        for record in records:
            self._fold(record)
        return records[0]

    def _seed_record(self, program: str, island: int, evaluation: Evaluation) -> CandidateRecord:
        first = self.settings.candidate_id(0, 0, 0)
        return CandidateRecord(
            id=self.settings.candidate_id(0, island, 0), round=0, island=island, origin="seed", style="", hole="",
            parent_id=None, prompt="", completion="", program=program, program_key=program_key(program),
            status=str(evaluation.status), score=evaluation.score, detail=evaluation.detail,
            metrics=dict(evaluation.metrics), duplicate_of=first if island else None,
        )  # fmt: skip

    def rounds(self, first: int, last: int) -> Iterator[dict[str, Any]]:
        """Explore rounds `first` to `last` inclusive; yields each unit's summary as it is folded."""
        under_way: deque[_Unit] = deque()
        for round_ in range(first, last + 1):
            for group in range(self.settings.groups):
                if len(under_way) == self.settings.groups:
                    yield self._collect(under_way.popleft())
                under_way.append(self._launch(round_, group))
        while under_way:
            yield self._collect(under_way.popleft())

    def _launch(self, round_: int, group: int) -> _Unit:
        unit = _Unit(round_, group)
        islands = self.settings.members(group)
        if self.store.unit_summary(round_, group) is not None:
            unit.stored = self.store.unit_candidates(round_, islands)
            return unit
        unit.plans = self.agent.plan(round_, islands, self.settings.samples)

        def submit(request: int, sample: int, completion: Completion) -> None:
            unit.completions[request, sample] = completion
            program = unit.plans[request].proposal.assemble(completion.text)
            future = self.cache.submit(program)
            if future is not None:
                unit.evaluations[request, sample] = future

        started = time.monotonic()
        self.generator().stream([plan.request for plan in unit.plans], submit)
        unit.generation_s = time.monotonic() - started
        return unit

    def _collect(self, unit: _Unit) -> dict[str, Any]:
        if unit.stored is not None:
            for record in unit.stored:
                self._fold(record)
            return self.store.unit_summary(unit.round, unit.group) or {}
        started = time.monotonic()
        records = self._records(unit)
        summary = self._summary(unit, records, waited=time.monotonic() - started)
        proposals = {plan.island: plan.proposal for plan in unit.plans}
        self.store.add_unit(unit.round, unit.group, records, summary, proposals)
        for record in records:
            self._fold(record)
        return summary

    def _fold(self, record: CandidateRecord) -> None:
        self.cache.record(record)
        self.agent.record(record)

    def _records(self, unit: _Unit) -> list[CandidateRecord]:
        records: list[CandidateRecord] = []
        seen: dict[str, CandidateRecord] = {}
        order = sorted(unit.completions, key=lambda at: (unit.plans[at[0]].island, at[1]))
        for request, sample in order:
            record = self._record(unit, request, sample, seen)
            if record.program_key is not None:
                seen.setdefault(record.program_key, record)
            records.append(record)
        return records

    def _record(
        self, unit: _Unit, request: int, sample: int, seen: dict[str, CandidateRecord]
    ) -> CandidateRecord:
        plan, completion = unit.plans[request], unit.completions[request, sample]
        program = plan.proposal.assemble(completion.text)
        key = program_key(program)
        earlier = self.cache.recorded(key) or (seen.get(key) if key else None)
        outcome = earlier or unit.evaluations[request, sample].result()
        return CandidateRecord(
            id=self.settings.candidate_id(unit.round, plan.island, sample), round=unit.round, island=plan.island,
            origin="agent", style=plan.proposal.style, hole=plan.proposal.hole, parent_id=plan.proposal.parent_id,
            prompt=plan.proposal.prompt, completion=completion.text, program=program, program_key=key,
            status=str(outcome.status), score=outcome.score, detail=outcome.detail,
            metrics=dict(outcome.metrics), parent_score=plan.parent_score, is_copy=key == plan.parent_key,
            duplicate_of=earlier.id if earlier is not None else None,
        )  # fmt: skip

    def _island_best(self, island: int, records: list[CandidateRecord]) -> float | None:
        """The island's best score once these records are folded in."""
        best = self.agent.islands[island].best
        scores = [best.score] if best is not None and best.score is not None else []
        return max(
            scores + [r.score for r in records if r.island == island and r.score is not None], default=None
        )

    def _summary(self, unit: _Unit, records: list[CandidateRecord], waited: float) -> dict[str, Any]:
        statuses: dict[str, int] = {}
        for record in records:
            statuses[record.status] = statuses.get(record.status, 0) + 1
        scores = [r.score for r in records if r.score is not None]
        return {
            "round": unit.round,
            "group": unit.group,
            "samples": len(records),
            "valid": sum(r.passed for r in records),
            "new": sum(map(is_new, records)),
            "improving": sum(map(self.agent.improves, records)),
            "distinct": len({r.program_key for r in records if is_new(r) and r.duplicate_of is None}),
            "statuses": statuses,
            "best": max(scores, default=None),
            "island_best": {str(plan.island): self._island_best(plan.island, records) for plan in unit.plans},
            "tokens": sum(c.tokens for c in unit.completions.values()),
            "generation_s": round(unit.generation_s, 3),
            "evaluation_wait_s": round(waited, 3),
        }
