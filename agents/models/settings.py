"""Shape of a policy's adapters."""

from dataclasses import dataclass


@dataclass(frozen=True)
class LoraSettings:
    """Shape of the adapters; equal for all adapters of a policy."""

    rank: int = 16
    """r, the rank of the update of each matrix."""
    alpha: int = 32
    """The update is scaled by alpha / rank."""

    def __post_init__(self) -> None:
        if self.rank < 1 or self.alpha < 1:
            raise ValueError("rank and alpha must be at least 1")
