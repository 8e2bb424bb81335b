"""Preference pairs: which of two completions of the *same prompt* the policy is to prefer.

Four kinds of pair carry four kinds of signal:

| kind | chosen | rejected | teaches |
|---|---|---|---|
| ``score`` | better half of the prompt's passed completions | worse half | to avoid edits that harm |
| ``failed`` | passed | failed | to write programs that run |
| ``improving`` | beats its parent | runs, but does not beat it | edits that improve |
| ``improving_failed`` | beats its parent | failed | both |

A *builder* is a mix of kinds. Plain pairs (the paper's and EvoTune's) raise the share of valid programs and
leave improving edits nearly alone; improving pairs do the opposite; so the default takes half of each.
Improving edits are few and alike (`window = 10`), so without caps the policy memorises a value: no hole,
edit text or prompt may supply more than its share, and among what is allowed the least used hole and text
go first (count-based selection).

The data is cumulative: hand in every completion of the run so far.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np

Kind = Literal["score", "failed", "improving", "improving_failed"]
Builder = Literal["plain", "margin", "improving", "mixed", "balanced"]

_SHARES: Mapping[str, Mapping[Kind, float]] = {
    "plain": {"score": 0.625, "failed": 0.375},
    "margin": {"score": 1.0},
    "improving": {"improving": 1.0},
    "mixed": {"improving": 0.5, "improving_failed": 0.5},
    "balanced": {"score": 0.25, "failed": 0.25, "improving": 0.25, "improving_failed": 0.25},
}
"""Share of each kind in a builder. What one kind cannot supply, the others of the builder fill."""


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

    @property
    def passed(self) -> bool:
        """Whether the program ran and was scored."""
        return self.status == "ok" and self.score is not None and math.isfinite(self.score)

    @property
    def value(self) -> float:
        """The score, −∞ for a failed program."""
        return float(self.score) if self.passed and self.score is not None else -math.inf


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
    """How pairs are built and how many."""

    builder: Builder = "balanced"
    """Which kinds of pair: `plain` (better half against worse half, passed against failed), `margin` (only
    score pairs that differ by `margin`), `improving` (improving against merely valid), `mixed` (improving
    against valid and against failed), `balanced` (plain and mixed, half each)."""
    count: int = 64
    """Pairs per phase, at most. 64 same-prompt pairs take about a minute on two cores with the embedded
    model."""
    margin: float = 0.002
    """Units of score. An edit improves if it beats its parent by more than this; `improving` pairs and
    those of the `margin` builder differ by more than this."""
    chosen_quantile: float = 0.3
    """A chosen completion's score reaches at least this quantile of all passed scores (EvoTune: the 30th
    percentile). 0 turns the threshold off."""
    per_prompt: int = 4
    """Pairs of one prompt, at most. Packing makes further pairs of a prompt nearly free."""
    prompts: int = 20
    """Distinct prompts, at most: they are what a packed phase spends its time on, not the pairs."""
    pool: int = 2000
    """Prompts that pairs are formed of before the caps choose, at most: of a longer run so many are drawn, so that
    a phase costs the same after a million candidates."""
    per_hole: int = 16
    """Pairs whose edit is at the same hole, at most."""
    per_text: int = 6
    """Pairs that choose the same edit text, at most, spaces at the ends ignored; likewise pairs that reject
    it."""

    def __post_init__(self) -> None:
        if self.builder not in get_args(Builder):
            raise ValueError(f"builder must be one of {', '.join(get_args(Builder))}, not {self.builder!r}")
        for name in ("count", "per_prompt", "prompts", "pool", "per_hole", "per_text"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} must be at least 1")
        if not self.margin >= 0.0:
            raise ValueError("margin cannot be negative")
        if not 0.0 <= self.chosen_quantile <= 1.0:
            raise ValueError("chosen_quantile must lie in [0, 1]")


def build_pairs(
    completions: Sequence[ScoredCompletion], settings: PairSettings, rng: np.random.Generator
) -> list[PreferencePair]:
    """At most `settings.count` pairs out of the completions; a function of its arguments alone.

    Fewer are returned where the completions or the caps allow no more. Order: by kind and order of selection.
    """
    pool = _candidates(completions, settings)
    usage = _Usage(settings)
    selected: list[PreferencePair] = []
    for kind, quota in _quotas(settings).items():
        selected += usage.take([pair for pair in pool if pair.kind == kind], quota, rng)
    used = set(selected)
    rest = [pair for pair in pool if pair not in used]
    return selected + usage.take(rest, settings.count - len(selected), rng)


def _quotas(settings: PairSettings) -> dict[Kind, int]:
    """Pairs per kind, rounded down; scarce kinds first, so that they are not kept out by the caps."""
    shares = _SHARES[settings.builder]
    order: tuple[Kind, ...] = ("improving", "improving_failed", "score", "failed")
    return {kind: int(shares[kind] * settings.count) for kind in order if kind in shares}


def _candidates(completions: Sequence[ScoredCompletion], settings: PairSettings) -> list[PreferencePair]:
    """Every pair the builder and the thresholds allow, in a fixed order."""
    passed = [completion.value for completion in completions if completion.passed]
    threshold = float(np.quantile(passed, settings.chosen_quantile)) if passed else -math.inf
    pairs: dict[tuple[str, str, str], PreferencePair] = {}
    for group in group_by_prompt([completion.prompt for completion in completions]):
        members = [completions[index] for index in group]
        for kind, good, bad in _combinations(members, settings):
            if good.value >= threshold and _differ(good, bad):
                pair = PreferencePair(
                    good.prompt,
                    good.completion,
                    bad.completion,
                    kind,
                    good.value - bad.value,
                    good.candidate_id,
                    bad.candidate_id,
                    good.hole,
                )
                # The same two texts of one prompt can come up in several kinds and from several candidates.
                pairs.setdefault((pair.prompt, pair.chosen, pair.rejected), pair)
    return list(pairs.values())


def _combinations(
    members: Sequence[ScoredCompletion], settings: PairSettings
) -> Iterator[tuple[Kind, ScoredCompletion, ScoredCompletion]]:
    """(kind, chosen, rejected) among one prompt's completions, the most telling kind of two texts first."""
    kinds = _SHARES[settings.builder]
    passed = sorted((m for m in members if m.passed), key=lambda m: (-m.value, m.candidate_id))
    failed = [m for m in members if not m.passed]
    good = [m for m in passed if not m.is_copy]
    improving = [m for m in good if _improves(m, settings.margin)]
    if "improving" in kinds:
        others = [m for m in passed if not _improves(m, settings.margin)]
        yield from (
            ("improving", a, b) for a in improving for b in others if a.value - b.value > settings.margin
        )
    if "improving_failed" in kinds:
        yield from (("improving_failed", a, b) for a in improving for b in failed)
    if "score" in kinds:
        gap = settings.margin if settings.builder == "margin" else 0.0
        half = len(passed) // 2
        better = [m for m in passed[:half] if not m.is_copy]
        yield from (("score", a, b) for a in better for b in passed[half:] if a.value - b.value > gap)
    if "failed" in kinds:
        yield from (("failed", a, b) for a in good for b in failed)


def _improves(completion: ScoredCompletion, margin: float) -> bool:
    parent = completion.parent_score
    return parent is not None and completion.value > parent + margin


def _differ(a: ScoredCompletion, b: ScoredCompletion) -> bool:
    same_program = a.program_key is not None and a.program_key == b.program_key
    return a.completion.strip() != b.completion.strip() and not same_program


class _Usage:
    """How often each prompt, hole and text was used, and the selection that keeps them level and under the
    caps."""

    def __init__(self, settings: PairSettings) -> None:
        self._settings = settings
        self._prompts: Counter[str] = Counter()
        self._holes: Counter[str] = Counter()
        self._chosen: Counter[str] = Counter()
        self._rejected: Counter[str] = Counter()

    def take(
        self, pool: Sequence[PreferencePair], count: int, rng: np.random.Generator
    ) -> list[PreferencePair]:
        """Up to `count` pairs, each the one whose hole, chosen and rejected text are least used by then;
        ties by lot."""
        waiting = dict(enumerate(rng.permutation(len(pool)).tolist()))
        taken: list[PreferencePair] = []
        while len(taken) < count:
            allowed = [index for index in waiting if self._allows(pool[index])]
            if not allowed:
                break
            best = min(allowed, key=lambda index: (self._load(pool[index]), waiting[index]))
            # A pair that is over a cap stays over it, so only the allowed ones are looked at again.
            waiting = {index: waiting[index] for index in allowed if index != best}
            self._count(pool[best])
            taken.append(pool[best])
        return taken

    def _allows(self, pair: PreferencePair) -> bool:
        limits = self._settings
        return (
            self._prompts[pair.prompt] < limits.per_prompt
            and (pair.prompt in self._prompts or len(self._prompts) < limits.prompts)
            and self._holes[pair.hole] < limits.per_hole
            and self._chosen[pair.chosen.strip()] < limits.per_text
            and self._rejected[pair.rejected.strip()] < limits.per_text
        )

    def _load(self, pair: PreferencePair) -> tuple[int, int]:
        texts = self._chosen[pair.chosen.strip()] + self._rejected[pair.rejected.strip()]
        return self._holes[pair.hole], texts

    def _count(self, pair: PreferencePair) -> None:
        self._prompts[pair.prompt] += 1
        self._holes[pair.hole] += 1
        self._chosen[pair.chosen.strip()] += 1
        self._rejected[pair.rejected.strip()] += 1


def group_by_prompt(prompts: Sequence[Hashable]) -> list[list[int]]:
    """Indices with equal prompts together, groups in the order of their first member."""
    groups: dict[Hashable, list[int]] = {}
    for index, prompt in enumerate(prompts):
        groups.setdefault(prompt, []).append(index)
    return list(groups.values())
