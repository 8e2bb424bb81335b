"""Preference pairs: which of two completions of the *same prompt* the policy is to prefer.

| kind | chosen | rejected | teaches |
|---|---|---|---|
| ``improving`` | beats its parent by the margin | runs, and is worse by the margin | edits that improve |
| ``improving_parent`` | beats its parent by the margin | the parent's own text | to change what is there |
| ``improving_failed`` | beats its parent by the margin | failed | both |
| ``repair`` | runs, and is not its parent again | failed | to write programs that run |
| ``score`` | better half of the prompt's passed completions | worse half | to avoid edits that harm |
| ``failed`` | passed | failed | to write programs that run |

A *builder* is a mix of kinds. Plain pairs (the paper's and EvoTune's: ``score``, ``failed``) raise the share of
valid programs and leave improving edits nearly alone, so the default *teaches*: what is chosen beats its parent,
and only a bounded share repairs failures. A completion that scores exactly like its parent is the parent again
in other words; it is never chosen over one that runs.

Strength decides what comes first: the distance between the ranks of the two gains among all completions of the
same task, so that sizes of gains count, near ties come last, and no threshold crosses scales. Improving edits
are few and alike (`window = 10`), so without caps the policy memorises a value: no site, edit text or prompt
may supply more than its share (`trainers.data.pair_selection`). What one phase has rejected, another rejects only a
bounded number of times: pushing down the same texts again pulls the chosen ones down with them.

This module says what completions, pairs and settings are; `trainers.data.pair_builder` builds.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, get_args

Kind = Literal["improving", "improving_parent", "improving_failed", "score", "failed", "repair"]
Builder = Literal["teach", "plain", "margin", "improving", "mixed", "balanced"]
GateScore = Literal["gain", "best_of_n", "quality"]
"""What Ŝ counts: see `worth`."""

SHARES: Mapping[str, Mapping[Kind, float]] = {
    "teach": {"improving": 0.35, "improving_parent": 0.15, "improving_failed": 0.25, "repair": 0.25},
    "plain": {"score": 0.625, "failed": 0.375},
    "margin": {"score": 1.0},
    "improving": {"improving": 1.0},
    "mixed": {"improving": 0.5, "improving_failed": 0.5},
    "balanced": {"score": 0.25, "failed": 0.25, "improving": 0.25, "improving_failed": 0.25},
}
"""Share of each kind in a builder. What one kind cannot supply, the others of the builder fill, except repairs."""


@dataclass(frozen=True)
class ScoredCompletion:
    """One completion with the outcome of its program; what pairs are made of."""

    candidate_id: int
    """The candidate it became, unique in the run."""
    prompt: str
    """Prompt it was sampled from."""
    completion: str
    """Its text, exactly as sampled."""
    status: str
    """Outcome of the evaluation; "ok" is the only one that passed."""
    score: float | None
    """Score, higher is better; None unless it passed."""
    parent_score: float | None
    """The score it had to beat; None if the parent has none, and then nothing is called improving."""
    is_copy: bool = False
    """True if the program is its parent again. A copy may be rejected, never chosen."""
    hole: str = ""
    """Label of the place that was edited."""
    program_key: str | None = None
    """Hash of the program's normalised syntax tree; equal keys are never paired."""
    task: int = 0
    """The round in which the task that scored it began; scores of different tasks are never compared."""
    instance: int = 0
    """The instance of the task; scores of different instances are never compared either."""
    parent_id: int | None = None
    """The parent's candidate."""
    parent_text: str | None = None
    """The parent's own text at the site, None where the prompt asks for a whole function."""

    @property
    def scale(self) -> tuple[int, int]:
        """What its score is comparable within."""
        return self.task, self.instance

    @property
    def passed(self) -> bool:
        """Whether the program ran and was scored."""
        return self.status == "ok" and self.score is not None and math.isfinite(self.score)

    @property
    def value(self) -> float:
        """The score, −∞ for a failed program."""
        return float(self.score) if self.passed and self.score is not None else -math.inf

    @property
    def gain(self) -> float:
        """The score beyond the parent's, −∞ for a failed program; the score itself where the parent has none."""
        return self.value - (self.parent_score or 0.0)

    @property
    def stands_still(self) -> bool:
        """Whether it is its parent again, in the same words or with exactly the same score."""
        return self.is_copy or self.value == self.parent_score


@dataclass(frozen=True)
class PreferencePair:
    """Two completions of one prompt, the first preferred."""

    prompt: str
    """The common prompt."""
    chosen: str
    """The preferred completion."""
    rejected: str
    """The other one."""
    kind: Kind
    """Why it is preferred."""
    margin: float
    """Difference of the scores; infinite where the rejected one failed."""
    chosen_id: int
    """Candidate of the chosen completion."""
    rejected_id: int
    """Candidate of the rejected completion."""
    hole: str
    """Label of the edited place."""


@dataclass(frozen=True)
class PairSettings:
    """How preference pairs are built and how many."""

    builder: Builder = "teach"
    """Which kinds of pair: `teach` (improving edits against all others, and repairs), `plain` (better half against
    worse half, passed against failed), `margin` (only score pairs that differ by `margin`), `improving` (improving
    against merely valid), `mixed` (improving against valid and against failed), `balanced` (plain and mixed)."""
    count: int = 256
    """Pairs per phase, at most; 256 to 1,000 are a phase that trains."""
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
        if self.builder not in get_args(Builder):
            raise ValueError(f"builder must be one of {', '.join(get_args(Builder))}, not {self.builder!r}")
        for name in ("count", "per_prompt", "prompts", "pool", "per_hole", "per_text"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} must be at least 1")
        if not self.margin >= 0.0 or self.reuse < 0:
            raise ValueError("margin and reuse cannot be negative")
        if not (
            0.0 <= self.chosen_quantile <= 1.0 and 0.0 <= self.numbers <= 1.0 and 0.0 <= self.repairs < 1.0
        ):
            raise ValueError("chosen_quantile and numbers must lie in [0, 1], repairs in [0, 1)")
        if self.length_ratio != 0.0 and not self.length_ratio >= 1.0:
            raise ValueError("length_ratio must be at least 1, or 0 for any lengths")


def group_by_prompt(prompts: Sequence[Hashable]) -> list[list[int]]:
    """Indices with equal prompts together, groups in the order of their first member."""
    groups: dict[Hashable, list[int]] = {}
    for index, prompt in enumerate(prompts):
        groups.setdefault(prompt, []).append(index)
    return list(groups.values())
