"""One candidate, one record that grows: what was asked, what was written, how it scored.

    proposal.candidate(id, round, completion)     a completion became a program, not yet evaluated
    candidate.judged(evaluation)                  ... and was

Records are immutable and hold only plain values, so that the run store can write one before anything acts on
it and everything else (islands, clusters, preference pairs, tables) can be rebuilt by folding over the stored
records in their order.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Literal

from atlas_gym.agents.engines.answers import patched, program_of
from atlas_gym.agents.engines.engine import Request, cut
from atlas_gym.evaluation.result import Evaluation
from atlas_gym.program_text import program_key

AGENT, SUPPORTER, NUMBERS, EXPRESSIONS = WRITERS = ("agent", "supporter", "numbers", "expressions")
"""Who writes programs: the language model, the exploration supporter, and two that draw at random."""
Origin = Literal["seed", "agent", "supporter", "numbers", "expressions"]


@dataclass(frozen=True)
class Candidate:
    """One program that was tried."""

    id: int
    """Unique in the run, ascending in the order in which candidates were recorded; below -1 for what a supporter wrote
    for a phase, -1 for a measurement's samples."""
    round: int  # exploration round; 0 for the programs the islands start from
    island: int  # island whose prompt (or start) produced the program
    origin: Origin  # who wrote it: the task (its start), or one of the writers
    style: str  # proposal style, for example ``edit_line``, or a supporter's kind of change; empty for seeds
    # label of the place that was rewritten, equal across programs that share the line's left side; may be empty
    site: str
    parent_id: int | None  # candidate this one was derived from; None for seeds
    prompt: str  # prompt the completion was sampled from; empty when no model was asked
    completion: str  # what the model wrote, exactly as sampled, its end marker included
    program: str  # complete program text that was evaluated
    program_key: str | None  # hash of the normalised syntax tree; None if the program does not parse
    status: str = ""
    """Outcome of the evaluation: ok, invalid, error, timeout, memory, violation or crashed; empty before it."""
    score: float | None = None  # score, higher is better; None unless the status is ok
    detail: str = ""  # what went wrong, sanitised; empty if nothing did
    metrics: Mapping[str, float] = field(default_factory=dict)
    """Further measurements of the evaluation (per-replica regret and the like)."""
    parent_score: float | None = None  # the parent's score when the prompt was made; None for seeds
    is_copy: bool = False  # true if the program equals its parent up to comments and formatting
    duplicate_of: int | None = None
    """Earlier candidate with the same normalised syntax tree, whose evaluation was reused."""
    diagnosis: str = ""  # where the score was lost, in the environment's words; empty unless the program ran
    evaluated: bool = True  # false if it failed its smoke run, whose outcome this is, and was not evaluated

    def judged(self, outcome: Evaluation | Candidate, duplicate_of: int | None = None) -> Candidate:
        """The candidate with what came of its program, which may have been `duplicate_of` an earlier one's."""
        return replace(
            self, status=str(outcome.status), score=outcome.score, detail=outcome.detail,
            metrics=dict(outcome.metrics), diagnosis=outcome.diagnosis, duplicate_of=duplicate_of,
        )  # fmt: skip

    def patched(self, id: int, round: int, island: int, kind: str, program: str) -> Candidate:
        """A whole program that the exploration supporter made of this one."""
        key = program_key(program)
        return Candidate(
            id=id, round=round, island=island, origin="supporter", style=kind, site="", parent_id=self.id, prompt="",
            completion="", program=program, program_key=key, parent_score=self.score, is_copy=key == self.program_key,
        )  # fmt: skip

    @property
    def writer(self) -> str:
        """Who wrote it, the agent by the style in which it was asked."""
        return self.style if self.origin == AGENT else self.origin

    @property
    def passed(self) -> bool:
        """Whether the program ran and was scored."""
        return self.status == "ok" and self.score is not None

    @property
    def value(self) -> float:
        """The score, −∞ for a failed program."""
        return self.score if self.passed and self.score is not None else -math.inf

    @property
    def gain(self) -> float | None:
        """Score minus the parent's score; None if either is missing."""
        if self.score is None or self.parent_score is None:
            return None
        return self.score - self.parent_score


@dataclass(frozen=True)
class Proposal(Request):
    """What an island asks for: a prompt, how often, and how a completion of it becomes a program."""

    island: int = -1  # the island that asks; -1 for a measurement
    texts: tuple[str, ...] | None = None
    """Completions that were made without a model, at least ``n``; None if a model is to be asked."""
    style: str = ""  # name of the style that made it
    site: str = ""  # label of the place that is rewritten
    parent_id: int = -1  # id of the parent candidate
    parent_score: float | None = None  # the parent's score
    parent_key: str | None = None  # the parent's normalised syntax tree, by which a copy is recognised
    prefix: str = ""  # program text before the completion; all of the parent for a ``diff``
    suffix: str = ""  # program text after the completion

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.texts is not None and len(self.texts) < self.n:
            raise ValueError("fewer completions were written than are asked for")

    @property
    def writer(self) -> Origin:
        """Who answers it: a model, unless the style writes its completions itself."""
        if self.style == NUMBERS:
            return "numbers"
        return "expressions" if self.style == EXPRESSIONS else "agent"

    def assemble(self, completion: str) -> str:
        """The program that ``completion`` makes; anything beyond its end is cut off."""
        if self.stop == "program":
            return program_of(completion)
        if self.stop == "diff":
            return patched(self.prefix, completion)
        text, _ = cut(completion, self.stop)
        return self.prefix + text.rstrip() + self.suffix

    def candidate(self, id: int, round: int, completion: str) -> Candidate:
        """The candidate that a completion makes, the research agent's or, of `texts`, another writer's."""
        program = self.assemble(completion)
        key = program_key(program)
        return Candidate(
            id=id, round=round, island=self.island, origin=self.writer, style=self.style, site=self.site,
            parent_id=self.parent_id, prompt=self.prompt, completion=completion, program=program, program_key=key,
            parent_score=self.parent_score, is_copy=key == self.parent_key,
        )  # fmt: skip

    def taught(self, id: int, round: int, kind: str, completion: str) -> Candidate:
        """The candidate that a supporter's completion of the prompt makes."""
        return replace(self.candidate(id, round, completion), origin="supporter", style=kind)
