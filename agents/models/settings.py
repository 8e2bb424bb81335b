"""Shape of a policy's adapters."""

from dataclasses import dataclass


@dataclass(frozen=True)
class LoraSettings:
    """Shape of the adapters; equal for all adapters of a policy."""

    rank: int = 16
    """r, the rank of the update of each matrix."""
    alpha: int = 32
    """The update is scaled by alpha / rank."""
    dropout: float = 0.0
    """Dropout on the adapter's input while training. 0 keeps training deterministic and packed = unpacked."""
    targets: str | tuple[str, ...] = "all-linear"
    """Modules that get an adapter: PEFT's "all-linear" (all but the output head), or names."""

    def __post_init__(self) -> None:
        if self.rank < 1 or self.alpha < 1 or not 0 <= self.dropout < 1:
            raise ValueError("rank and alpha must be at least 1, and dropout lie in [0, 1)")
