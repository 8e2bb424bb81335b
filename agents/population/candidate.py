"""The record of one candidate program: what wrote it, what it is, and how it scored.

Records are immutable and hold only plain values, so that the run store can write one before anything acts on
it and everything else (islands, clusters, preference pairs, tables) can be rebuilt by folding over the stored
records in their order.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

Origin = Literal["seed", "agent", "supporter", "carried"]


@dataclass(frozen=True)
class CandidateRecord:
    """One evaluated program."""

    id: int
    """Unique in the run, ascending in the order in which candidates were recorded."""
    round: int
    """Exploration round; 0 for the programs the islands start from."""
    island: int
    """Island whose prompt (or start) produced the program."""
    origin: Origin
    """Who wrote it: the task's start, the research agent, or a supporter; ``carried`` if it is an island's program
    scored again because the task changed."""
    style: str
    """Proposal style, for example ``edit_line``; empty for seeds."""
    hole: str
    """Label of the place that was rewritten, equal across programs that share the line's left side; may be
    empty."""
    parent_id: int | None
    """Candidate this one was derived from; None for seeds."""
    prompt: str
    """Prompt the completion was sampled from; empty when no model was asked."""
    completion: str
    """What the model wrote, exactly as sampled, its end marker included."""
    program: str
    """Complete program text that was evaluated."""
    program_key: str | None
    """Hash of the normalised syntax tree; None if the program does not parse."""
    status: str
    """Outcome of the evaluation: ok, invalid, error, timeout, memory, violation or crashed."""
    score: float | None
    """Score, higher is better; None unless the status is ok."""
    detail: str = ""
    """What went wrong, sanitised; empty if nothing did."""
    metrics: Mapping[str, float] = field(default_factory=dict)
    """Further measurements of the evaluation (per-replica regret and the like)."""
    parent_score: float | None = None
    """The parent's score when the prompt was made; None for seeds."""
    is_copy: bool = False
    """True if the program equals its parent up to comments and formatting."""
    duplicate_of: int | None = None
    """Earlier candidate with the same normalised syntax tree, whose evaluation was reused."""
    diagnosis: str = ""
    """Where the score was lost, in the environment's words; empty unless the program ran."""

    @property
    def passed(self) -> bool:
        """Whether the program ran and was scored."""
        return self.status == "ok" and self.score is not None

    @property
    def gain(self) -> float | None:
        """Score minus the parent's score; None if either is missing."""
        if self.score is None or self.parent_score is None:
            return None
        return self.score - self.parent_score
