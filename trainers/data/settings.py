"""How preference pairs are built: the kinds of pair, the builders, and their thresholds and caps."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from atlas_gym.trainers.store.plain import require

Kind = Literal["improving", "improving_parent", "improving_failed", "score", "failed", "repair"]
Builder = Literal["teach", "plain", "margin", "improving", "mixed", "balanced"]
GateScore = Literal["gain", "likelihood"]
"""What Ŝ counts: `mean_gain`, or `trainers.dpo.kl.log_known_gain`."""

SHARES: Mapping[str, Mapping[Kind, float]] = {
    "teach": {"improving": 0.35, "improving_parent": 0.15, "improving_failed": 0.25, "repair": 0.25},
    "plain": {"score": 0.625, "failed": 0.375},
    "margin": {"score": 1.0},
    "improving": {"improving": 1.0},
    "mixed": {"improving": 0.5, "improving_failed": 0.5},
    "balanced": {"score": 0.25, "failed": 0.25, "improving": 0.25, "improving_failed": 0.25},
}
"""Share of each kind in a builder. What one kind cannot supply, the others of the builder fill, except repairs: of them
there are at most `PairSettings.repairs`."""


@dataclass(frozen=True)
class PairSettings:
    """How preference pairs are built and how many."""

    builder: Builder = "teach"
    """Which kinds of pair: `teach` (improving edits against all others, and repairs), `plain` (better half against
    worse half, passed against failed), `margin` (only score pairs that differ by `margin`), `improving` (improving
    against merely valid), `mixed` (improving against valid and against failed), `balanced` (plain and mixed)."""
    count: int = 256
    """Pairs per phase, at most. Those that gain most come first, and a phase ends at its divergence: in one run 64
    pairs brought good lines as near as 256, and 750 less near (docs/study/phases)."""
    margin: float = 0.002
    """Units of score. An edit improves if it beats its parent by more than this; `improving` pairs and
    those of the `margin` builder differ by more than this."""
    chosen_quantile: float = 0.3
    """A chosen completion's score reaches at least this quantile of all passed scores of its task (EvoTune: the 30th
    percentile). 0 turns the threshold off."""
    repairs: float = 0.25
    """Share of the pairs that may be repairs, at most, in [0, 1)."""
    numbers: float = 0.25
    """Share of `count` that may choose nothing but a number, at most: improving constants are plentiful, and easily
    learnt by heart."""
    length_ratio: float = 2.0
    """Chosen and rejected text differ in length by at most this factor (and 12 characters): a phase whose chosen
    texts are the longer ones teaches length, and ends in long invalid lines. 0: any lengths."""
    reuse: int = 2
    """Phases in which the same completion may be rejected, at most. 0: any number."""
    per_prompt: int = 8
    """Pairs of one prompt, at most. Packing makes further pairs of a prompt nearly free."""
    prompts: int = 64
    """Distinct prompts, at most: they are what a packed phase spends its time on, not the pairs."""
    pool: int = 2000
    """Prompts that pairs are formed of before the caps choose, at most: of a longer run so many are drawn, so that
    a phase costs the same after a million candidates."""
    per_hole: int = 48
    """Pairs whose edit is at the same site, at most; more where there are too few sites to fill `count` with (a style
    that rewrites whole functions has one)."""
    per_text: int = 6
    """Pairs that choose the same edit text, at most, spaces at the ends ignored; likewise pairs that reject
    it."""

    def __post_init__(self) -> None:
        bounds = {"at least 1": "count per_prompt prompts pool per_hole per_text", "in [0, 1)": "repairs"}
        require(self, bounds | {"at least 0": "margin reuse", "in [0, 1]": "chosen_quantile numbers"})
        if self.length_ratio != 0.0 and not self.length_ratio >= 1.0:
            raise ValueError("length_ratio must be at least 1, or 0 for any lengths")
