"""How a round of exploration is laid out (islands, samples, groups, and the ids that follow), and what a phase's probe
samples."""

from dataclasses import dataclass


@dataclass(frozen=True)
class ExplorationSettings:
    """How a round is laid out."""

    islands: int = 6
    """Number of islands (paper: 6)."""
    samples: int = 8
    """Completions per island and round (EvoTune: 8). 0: only the supporter writes."""
    sites: int = 1
    """Edit sites of its parent at which an island asks in a round, at most; its samples are divided among them. The
    prompts of one parent are read together, so further sites cost little."""
    groups: int = 2
    """Groups the islands are split into; while one is generated the other is evaluated. 1 to `islands`."""

    patches: int = 2
    """Programs the exploration supporter may add per island and round; 0: it adds none, and is not asked unless its
    critique is shown."""
    advise_every: int = 1
    """The exploration supporter is asked every so many rounds."""
    show_critique: bool = False
    """Whether an island's next prompt shows the supporter's latest critique, as a comment. For models that can
    read one; the embedded one cannot."""
    carried: int = 4
    """Programs per island that are scored again when the task changes, the start among them; they take the place
    of the round's samples, so at most `samples` + `patches` are."""

    def __post_init__(self) -> None:
        if not 1 <= self.groups <= self.islands:
            raise ValueError("groups must lie between 1 and the number of islands")
        if not 1 <= self.sites <= max(1, self.samples):
            raise ValueError("sites must lie between 1 and the number of samples")
        if (
            min(self.samples, self.patches) < 0
            or min(self.samples + self.patches, self.advise_every, self.carried) < 1
        ):
            raise ValueError(
                "advise_every, carried and samples + patches must be at least 1, samples and patches at least 0"
            )

    def members(self, group: int) -> list[int]:
        """The islands of a group."""
        return list(range(group, self.islands, self.groups))

    def asks_supporter(self, round_: int) -> bool:
        """Whether the exploration supporter is asked in a round."""
        return (self.patches > 0 or self.show_critique) and round_ % self.advise_every == 0

    def candidate_id(self, round_: int, island: int, sample: int) -> int:
        """Arithmetic id: equal in every run of the same layout, and ascending in the order of recording
        within a unit."""
        return (round_ * self.islands + island) * (self.samples + self.patches) + sample


@dataclass(frozen=True)
class ProbeSettings:
    """How much is sampled before and after each phase."""

    samples: int = 10
    """Samples per prompt. 0: no probe."""
    prompts: int = 0
    """Prompts drawn from the islands; 0: one for each hole of the starting program."""

    def __post_init__(self) -> None:
        if self.samples < 0 or self.prompts < 0:
            raise ValueError("probe.samples and probe.prompts cannot be negative")
