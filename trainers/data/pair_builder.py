"""Builds preference pairs: what they are and why is in `trainers.data.pairs`."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import replace
from typing import get_args

import numpy as np

from trainers.data.pair_selection import Cap, Selection
from trainers.data.pairs import SHARES, Kind, PairSettings, PreferencePair, ScoredCompletion, group_by_prompt

_SLACK = 12
"""Characters by which two texts may always differ in length."""


def build_pairs(
    completions: Sequence[ScoredCompletion],
    settings: PairSettings,
    rng: np.random.Generator,
    rejected_before: Mapping[int, int] | None = None,
    fresh_from: int = 0,
) -> list[PreferencePair]:
    """At most `settings.count` pairs out of the completions; a function of its arguments alone.

    Fewer are returned where the completions or the caps allow no more. Order: by kind and order of selection.

    Args:
        completions: what pairs are formed of.
        settings: the builder, the caps and the thresholds.
        rng: breaks ties.
        rejected_before: by candidate, the earlier phases that rejected it.
        fresh_from: the first candidate that the present policy wrote. To reject what it writes teaches it more than to
            reject what an earlier policy or a supporter wrote, which counts half.
    """
    before = rejected_before or {}
    usable = {
        c.candidate_id
        for c in completions
        if not settings.reuse or before.get(c.candidate_id, 0) < settings.reuse
    }
    pool = _candidates(completions, settings, usable)
    selection = _selection(pool, completions, settings, before, fresh_from)
    shares = SHARES[settings.builder]
    selected: list[PreferencePair] = []
    # Scarce kinds first, so that they are not kept out by the caps.
    for kind in [kind for kind in get_args(Kind) if kind in shares and kind != "repair"]:
        own = [pair for pair in pool if pair.kind == kind]
        selected += selection.take(own, int(shares[kind] * settings.count), rng)
    used, repairs = set(selected), [pair for pair in pool if pair.kind == "repair"]
    rest = [pair for pair in pool if pair not in used and pair.kind != "repair"]
    room = settings.count - len(selected)
    reserved = min(int(settings.repairs * settings.count), len(repairs)) if repairs else 0
    selected += selection.take(rest, room - reserved, rng)
    bound = int(settings.repairs / (1.0 - settings.repairs) * len(selected) + 1e-9)
    selected += selection.take(repairs, min(bound, settings.count - len(selected)), rng)
    rest = [pair for pair in rest if pair not in set(selected)]
    return selected + selection.take(rest, settings.count - len(selected), rng)


def why_no_pairs(completions: Sequence[ScoredCompletion], settings: PairSettings) -> str:
    """In words, why a phase has nothing to train on."""
    passed = [completion for completion in completions if completion.passed]
    improving = sum(not c.is_copy and _improves(c, settings.margin) for c in passed)
    found = f"of {len(completions)} completions {len(passed)} ran and {improving} beat their parent"
    return (
        f"it cannot train: {found} by more than {settings.margin:g}, and no two of one prompt make a pair "
        f"(builder {settings.builder})"
    )


def _candidates(
    completions: Sequence[ScoredCompletion], settings: PairSettings, rejectable: Set[int]
) -> list[PreferencePair]:
    """Every pair the builder and the thresholds allow, in a fixed order."""
    thresholds = _thresholds(completions, settings.chosen_quantile)
    pairs: dict[tuple[str, str, str], PreferencePair] = {}
    for group in group_by_prompt([(completion.scale, completion.prompt) for completion in completions]):
        members = [completions[index] for index in group]
        for kind, good, bad in _combinations(members, settings):
            known = kind == "improving_parent" or bad.candidate_id in rejectable
            if (
                known
                and good.value >= thresholds[good.scale]
                and _comparable(good, bad, settings.length_ratio)
            ):
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


def _thresholds(completions: Sequence[ScoredCompletion], quantile: float) -> dict[tuple[int, int], float]:
    """By task and instance, the quantile of the passed scores."""
    passed: dict[tuple[int, int], list[float]] = {completion.scale: [] for completion in completions}
    for completion in completions:
        if completion.passed:
            passed[completion.scale].append(completion.value)
    return {
        scale: float(np.quantile(values, quantile)) if values else -math.inf
        for scale, values in passed.items()
    }


def _combinations(
    members: Sequence[ScoredCompletion], settings: PairSettings
) -> Iterator[tuple[Kind, ScoredCompletion, ScoredCompletion]]:
    """(kind, chosen, rejected) among one prompt's completions, the most telling kind of two texts first."""
    kinds = SHARES[settings.builder]
    passed = sorted((m for m in members if m.passed), key=lambda m: (-m.value, m.candidate_id))
    failed = [m for m in members if not m.passed]
    improving = [m for m in passed if not m.is_copy and _improves(m, settings.margin)]
    if "improving" in kinds:
        yield from (
            ("improving", a, b) for a in improving for b in passed if a.value - b.value > settings.margin
        )
    if "improving_parent" in kinds:
        yield from (("improving_parent", a, parent) for a in improving for parent in _parent(a))
    if "improving_failed" in kinds:
        yield from (("improving_failed", a, b) for a in improving for b in failed)
    if "score" in kinds:
        gap = settings.margin if settings.builder == "margin" else 0.0
        half = len(passed) // 2
        better = [m for m in passed[:half] if not m.stands_still]
        yield from (("score", a, b) for a in better for b in passed[half:] if a.value - b.value > gap)
    if "failed" in kinds:
        yield from (("failed", a, b) for a in passed if not a.is_copy for b in failed)
    if "repair" in kinds:
        yield from (("repair", a, b) for a in passed if not a.stands_still for b in failed)


def _parent(completion: ScoredCompletion) -> list[ScoredCompletion]:
    """The parent's own text as a completion of the same prompt, if there is such a text."""
    if completion.parent_text is None or completion.parent_id is None:
        return []
    end = "\n" if completion.completion.endswith("\n") else ""
    return [
        replace(
            completion, candidate_id=completion.parent_id, completion=completion.parent_text.rstrip("\n") + end,
            score=completion.parent_score, is_copy=True, program_key=None,
        )
    ]  # fmt: skip


def _improves(completion: ScoredCompletion, margin: float) -> bool:
    parent = completion.parent_score
    return parent is not None and completion.value > parent + margin


def _comparable(a: ScoredCompletion, b: ScoredCompletion, length_ratio: float) -> bool:
    """Whether two completions are different programs of about the same length."""
    texts = a.completion.strip(), b.completion.strip()
    short, long = sorted(map(len, texts))
    alike = length_ratio == 0.0 or long <= length_ratio * short + _SLACK
    same_program = a.program_key is not None and a.program_key == b.program_key
    return alike and texts[0] != texts[1] and not same_program


def _selection(
    pool: Sequence[PreferencePair],
    completions: Sequence[ScoredCompletion],
    settings: PairSettings,
    before: Mapping[int, int],
    fresh_from: int,
) -> Selection[PreferencePair]:
    """The caps, and the strength of a pair: how far its gains' ranks lie apart."""
    sites = len({pair.hole for pair in pool})
    per_site = max(settings.per_hole, math.ceil(settings.count / max(1, sites)))
    caps: list[Cap[PreferencePair]] = [
        Cap(lambda pair: pair.prompt, settings.per_prompt, wear=0.0),
        Cap(lambda pair: pair.hole, per_site, wear=1.0 / per_site),
        Cap(lambda pair: pair.chosen.strip(), settings.per_text),
        Cap(lambda pair: pair.rejected.strip(), settings.per_text),
        Cap(lambda pair: _is_number(pair.chosen) or None, int(settings.numbers * settings.count), wear=0.0),
    ]
    chosen = {completion.candidate_id: completion for completion in completions}
    gains = {
        scale: np.sort([c.gain for c in completions if c.scale == scale])
        for scale in {c.scale for c in completions}
    }

    def strength(pair: PreferencePair) -> float:
        good = chosen[pair.chosen_id]
        ranks = np.searchsorted(gains[good.scale], [good.gain, good.gain - pair.margin], side="right")
        foreign = pair.kind != "improving_parent" and pair.rejected_id < fresh_from
        wear = 1.0 + before.get(pair.rejected_id, 0) + foreign
        return float(ranks[0] - ranks[1]) / len(gains[good.scale]) / wear

    return Selection(caps, strength, lambda pair: pair.prompt, settings.prompts)


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True
