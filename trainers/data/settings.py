"""How preference pairs are built: the kinds of pair, the builders, and their thresholds and caps."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from atlas_gym.trainers.store.plain import require

Kind = Literal["improving", "improving_parent", "improving_failed", "score", "failed", "repair"]
GateScore = Literal["gain", "likelihood"]
"""What Ŝ counts: `mean_gain`, or `trainers.dpo.kl.log_known_gain`."""

SHARES: Mapping[str, Mapping[Kind, float]] = {
    "teach": {"improving": 0.35, "improving_parent": 0.15, "improving_failed": 0.25, "repair": 0.25},
    "plain": {"score": 0.625, "failed": 0.375},
}
"""Share of each kind in a builder. What one kind cannot supply, the others of the builder fill, except repairs: of them
there are at most `REPAIRS`."""
REPAIRS = 0.25
"""Share of the pairs that may be repairs, at most."""
MARGIN = 0.002
"""Units of score: an edit improves if it beats its parent by more than this; completions that both run and differ by
less are no pair of an improving one."""


@dataclass(frozen=True)
class PairSettings:
    """How preference pairs are built and how many."""

    builder: Literal["teach", "plain"] = "teach"
    """Which kinds of pair: `teach` (improving edits against all others, and repairs) or `plain` (better half against
    worse half, passed against failed)."""
    count: int = 256
    """Pairs per phase, at most. Those that gain most come first, and a phase ends at its divergence: in one run 64
    pairs brought good lines as near as 256, and 750 less near (the study `phases`)."""
    chosen_quantile: float = 0.3
    """A chosen completion's score reaches at least this quantile of all passed scores of its task (EvoTune: the 30th
    percentile). 0 turns the threshold off."""
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
    per_site: int = 48
    """Pairs whose edit is at the same site, at most; more where there are too few sites to fill `count` with (a style
    that rewrites whole functions has one)."""
    per_text: int = 6
    """Pairs that choose the same edit text, at most, spaces at the ends ignored; likewise pairs that reject
    it."""

    def __post_init__(self) -> None:
        bounds = {"at least 1": "count per_prompt prompts per_site per_text", "at least 0": "reuse"}
        require(self, bounds | {"in [0, 1]": "chosen_quantile numbers"})
        if self.length_ratio != 0.0 and not self.length_ratio >= 1.0:
            raise ValueError("length_ratio must be at least 1, or 0 for any lengths")
