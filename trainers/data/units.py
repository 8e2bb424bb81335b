"""A unit of exploration under way: what was written for its islands, and how that becomes records."""

from collections.abc import Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field

from agents.population.candidate import CandidateRecord, Origin
from agents.research_agent import IslandPlan
from agents.supporters import SupporterCall
from atlas_gym.evaluation import Evaluation


@dataclass(frozen=True)
class MadeFrom:
    """Where a program comes from, as far as its record says."""

    island: int
    parent_id: int | None
    parent_score: float | None = None
    parent_key: str | None = None
    prompt: str = ""
    hole: str = ""

    @classmethod
    def plan(cls, plan: IslandPlan, *, prompted: bool) -> "MadeFrom":
        """From a plan's parent, `prompted` if a model answered the plan's prompt."""
        parent = (plan.island, plan.proposal.parent_id, plan.parent_score, plan.parent_key)
        return cls(*parent, plan.proposal.prompt, plan.proposal.hole) if prompted else cls(*parent)


@dataclass(frozen=True)
class Written:
    """A program that somebody wrote for an island; its evaluation is under way, or recorded already (None)."""

    made_from: "MadeFrom"
    sample: int
    origin: Origin
    style: str
    completion: str
    program: str
    evaluation: "Future[Evaluation] | None"

    def outcome(self) -> Evaluation:
        """The evaluation, waited for. Raises `InfrastructureError` if the machine failed."""
        if self.evaluation is None:
            raise RuntimeError("a program was taken for recorded, but there is no record of it")
        return self.evaluation.result()

    def record(
        self, id_: int, round_: int, key: str | None, earlier: CandidateRecord | None
    ) -> CandidateRecord:
        """The candidate that it is.

        Args:
            id_: its id.
            round_: the unit's round.
            key: the program's normalised syntax tree.
            earlier: a candidate with the same tree, whose outcome it shares.
        """
        outcome = earlier if earlier is not None else self.outcome()
        source = self.made_from
        return CandidateRecord(
            id=id_, round=round_, island=source.island, origin=self.origin, style=self.style, hole=source.hole,
            parent_id=source.parent_id, prompt=source.prompt, completion=self.completion, program=self.program,
            program_key=key, status=str(outcome.status), score=outcome.score, detail=outcome.detail,
            metrics=dict(outcome.metrics), parent_score=source.parent_score, is_copy=key == source.parent_key,
            duplicate_of=earlier.id if earlier is not None else None, diagnosis=outcome.diagnosis,
        )  # fmt: skip


@dataclass
class Unit:
    """A unit under way: what was written and asked, or what the store had of it."""

    round: int
    group: int
    plans: Sequence[IslandPlan] = ()
    written: list[Written] = field(default_factory=list)
    calls: list[SupporterCall] = field(default_factory=list)
    critiques: dict[str, str] = field(default_factory=dict)
    spoiled: int = 0
    """Programs that the machine failed to evaluate; nothing is recorded of them."""
    tokens: int = 0
    generation_s: float = 0.0
    stored: list[CandidateRecord] | None = None
