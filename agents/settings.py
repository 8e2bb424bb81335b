"""What the research agent asks for."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import ClassVar

_STYLES = {"edit_line", "complete", "rewrite"}


@dataclass(frozen=True)
class AgentSettings:
    """How the research agent proposes."""

    styles: Mapping[str, float] = field(default_factory=lambda: {"edit_line": 1.0})
    """How it asks its model: ``edit_line``, ``complete``, ``rewrite``. Each is a writer of its own; the weights count
    where shares are fixed."""
    min_gain: float = 0.002
    """A candidate counts as an improvement if it beats its parent by more, in units of the task's score."""
    temperature: float = 0.01
    """Parents are drawn by softmax of score / temperature, in units of the task's score, > 0. The model's own is
    `sampling.temperature`."""
    migrate_every: ClassVar[int] = 5
    """Every so many rounds an island receives its neighbour's best program (a ring); 0 keeps islands
    apart."""
    evolve: bool = True
    """Whether parents are drawn from what the islands found; otherwise the starting program is the only parent
    ever (best-of-n)."""
    scores: bool = False
    """Whether prompts give the scores of the two versions they show, so that a direction can be read off."""
    variants: int = 0
    """How many scored versions of the line at hand ``edit_line`` shows in its prompt."""

    def __post_init__(self) -> None:
        unknown = sorted(set(self.styles) - _STYLES)
        if unknown:
            raise ValueError(f"unknown proposal style {unknown[0]!r}")
        if not any(weight > 0 for weight in self.styles.values()) or min(self.styles.values()) < 0:
            raise ValueError("styles need weights of at least 0, one of them positive")
        if not self.temperature > 0:
            raise ValueError("temperature must be positive")
        for name in ("min_gain", "variants"):
            if not getattr(self, name) >= 0:
                raise ValueError(f"{name} cannot be negative, got {getattr(self, name)}")
