"""Preference pairs: which of two completions of the *same prompt* the policy is to prefer.

| kind | chosen | rejected | teaches |
|---|---|---|---|
| ``improving`` | beats its parent by the margin | runs, and is worse by the margin | edits that improve |
| ``improving_parent`` | beats its parent by the margin | the parent's own text | to change what is there |
| ``improving_failed`` | beats its parent by the margin | failed | both |
| ``repair`` | runs, and is not its parent again | failed | to write programs that run |
| ``score`` | better half of the prompt's passed completions | worse half | to avoid edits that harm |
| ``failed`` | passed | failed | to write programs that run |

A *builder* is a mix of kinds. Plain pairs (the paper's and EvoTune's) raise the share of valid programs and leave
improving edits nearly alone, so the default *teaches*: what is chosen beats its parent, and only a bounded share
repairs failures.

Strength decides what comes first: the distance between the ranks of the two gains among all completions of the same
task, times the gain's share of the task's largest where an edit improves. Improving edits are few and alike, so without
caps the policy memorises a value: no site, edit text or prompt may supply more than its share
(`trainers.data.pair_selection`), and a text is rejected in a bounded number of phases.
"""

import math
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import get_args

import numpy as np

from atlas_gym.agents.population.candidate import Candidate
from atlas_gym.trainers.data.measures import grouped
from atlas_gym.trainers.data.pair_selection import Cap, Selection
from atlas_gym.trainers.data.settings import MARGIN, REPAIRS, SHARES, Kind, PairSettings

_SLACK = 12
"""Characters by which two texts may always differ in length."""


@dataclass(frozen=True)
class PreferencePair:
    """Two completions of one prompt, the first preferred."""

    prompt: str
    chosen: str
    rejected: str
    kind: Kind
    margin: float  # difference of the scores; infinite where the rejected one failed
    chosen_id: int  # candidate of the chosen completion
    rejected_id: int
    site: str  # label of the edited place


def build_pairs(
    records: Sequence[Candidate],
    settings: PairSettings,
    rng: np.random.Generator,
    *,
    scale: Callable[[Candidate], Hashable] = lambda record: 0,
    parent_text: Callable[[Candidate], str | None] = lambda record: None,
    rejected_before: Mapping[int, int] | None = None,
    fresh_from: int = 0,
) -> list[PreferencePair]:
    """At most `settings.count` pairs out of judged candidates, by kind and order of selection; a function of its
    arguments.

    `scale`: what a candidate's score is comparable within. `parent_text`: the parent's own text at the site of a
    candidate, None where the prompt asks for a whole function. `rejected_before`: by candidate, the earlier phases that
    rejected it. `fresh_from`: the first candidate that the present policy wrote; to reject what an earlier policy or a
    supporter wrote teaches less, and counts half.
    """
    before = rejected_before or {}
    scales = {record.id: scale(record) for record in records}
    pool = _pool(records, scales, parent_text, settings, before)
    selection = _selection(pool, records, scales, settings, before, fresh_from)
    repairs = [pair for pair in pool if pair.kind == "repair"]
    others = [pair for pair in pool if pair.kind != "repair"]
    shares = SHARES[settings.builder]
    selected: list[PreferencePair] = []
    # Scarce kinds first, so that they are not kept out by the caps.
    for kind in [kind for kind in get_args(Kind) if kind in shares and kind != "repair"]:
        own = [pair for pair in others if pair.kind == kind]
        selected += selection.take(own, int(shares[kind] * settings.count), rng)
    reserved = min(int(REPAIRS * settings.count), len(repairs))
    selected += selection.take(others, settings.count - len(selected) - reserved, rng)
    bound = int(REPAIRS / (1.0 - REPAIRS) * len(selected) + 1e-9)
    selected += selection.take(repairs, min(bound, settings.count - len(selected)), rng)
    return selected + selection.take(others, settings.count - len(selected), rng)


def why_no_pairs(records: Sequence[Candidate], settings: PairSettings) -> str:
    """In words, why a phase has nothing to train on."""
    passed = [record for record in records if record.passed]
    improving = sum(_improves(record) for record in passed)
    found = f"of {len(records)} short enough completions {len(passed)} ran and {improving} beat their parent"
    return (
        f"it cannot train: {found} by more than {MARGIN:g}, and no two of one prompt make a pair "
        f"(builder {settings.builder})"
    )


def _pool(
    records: Sequence[Candidate],
    scales: Mapping[int, Hashable],
    parent_text: Callable[[Candidate], str | None],
    settings: PairSettings,
    before: Mapping[int, int],
) -> list[PreferencePair]:
    """Every pair the builder and the thresholds allow, in a fixed order."""
    thresholds: dict[Hashable, float] = {}
    for scale, own in grouped(records, lambda record: scales[record.id]).items():
        values = [record.value for record in own if record.passed]
        thresholds[scale] = float(np.quantile(values, settings.chosen_quantile)) if values else -math.inf
    pairs: dict[tuple[str, str, str], PreferencePair] = {}
    for members in grouped(records, lambda record: (scales[record.id], record.prompt)).values():
        for kind, good, bad in _combinations(members, settings, parent_text):
            worn = settings.reuse and kind != "improving_parent" and before.get(bad.id, 0) >= settings.reuse
            poor = good.value < thresholds[scales[good.id]]
            if worn or poor or not _comparable(good, bad, settings.length_ratio):
                continue
            pair = PreferencePair(
                good.prompt, good.completion, bad.completion, kind, good.value - bad.value, good.id, bad.id, good.site
            )  # fmt: skip
            # The same two texts of one prompt can come up in several kinds and from several candidates.
            pairs.setdefault((pair.prompt, pair.chosen, pair.rejected), pair)
    return list(pairs.values())


def _combinations(
    members: Sequence[Candidate], settings: PairSettings, parent_text: Callable[[Candidate], str | None]
) -> Iterator[tuple[Kind, Candidate, Candidate]]:
    """(kind, chosen, rejected) among one prompt's candidates, the most telling kind of two texts first."""
    passed = sorted((m for m in members if m.passed), key=lambda m: (-m.value, m.id))
    failed = [m for m in members if not m.passed]
    improving = [m for m in passed if _improves(m)]
    if settings.builder == "teach":
        yield from (("improving", a, b) for a in improving for b in passed if a.value - b.value > MARGIN)
        for a in improving:
            if (text := parent_text(a)) is not None and a.parent_id is not None:
                end = "\n" if a.completion.endswith("\n") else ""
                yield "improving_parent", a, replace(
                    a, id=a.parent_id, completion=text.rstrip("\n") + end, score=a.parent_score, is_copy=True,
                    program_key=None,
                )  # fmt: skip
        yield from (("improving_failed", a, b) for a in improving for b in failed)
        yield from (("repair", a, b) for a in passed if not _stands_still(a) for b in failed)
    else:
        half = len(passed) // 2
        better = [m for m in passed[:half] if not _stands_still(m)]
        yield from (("score", a, b) for a in better for b in passed[half:] if a.value > b.value)
        yield from (("failed", a, b) for a in passed if not a.is_copy for b in failed)


def _improves(record: Candidate) -> bool:
    parent = record.parent_score
    return not record.is_copy and parent is not None and record.value > parent + MARGIN


def _stands_still(record: Candidate) -> bool:
    """Its parent again, in the same words or with exactly the same score."""
    return record.is_copy or record.value == record.parent_score


def _comparable(a: Candidate, b: Candidate, length_ratio: float) -> bool:
    """Different programs of about the same length."""
    texts = a.completion.strip(), b.completion.strip()
    short, long = sorted(map(len, texts))
    alike = length_ratio == 0.0 or long <= length_ratio * short + _SLACK
    same_program = a.program_key is not None and a.program_key == b.program_key
    return alike and texts[0] != texts[1] and not same_program


def _selection(
    pool: Sequence[PreferencePair],
    records: Sequence[Candidate],
    scales: Mapping[int, Hashable],
    settings: PairSettings,
    before: Mapping[int, int],
    fresh_from: int,
) -> Selection[PreferencePair]:
    """The caps, and the strength of a pair: how far its gains' ranks lie apart, times the size of the chosen one's."""
    sites = len({pair.site for pair in pool})
    per_site = max(settings.per_site, math.ceil(settings.count / max(1, sites)))
    caps: list[Cap[PreferencePair]] = [
        Cap(lambda pair: pair.prompt, settings.per_prompt, wear=0.0, different=settings.prompts),
        Cap(lambda pair: pair.site, per_site, wear=1.0 / per_site),
        Cap(lambda pair: pair.chosen.strip(), settings.per_text),
        Cap(lambda pair: pair.rejected.strip(), settings.per_text),
        Cap(lambda pair: _is_number(pair.chosen) or None, int(settings.numbers * settings.count), wear=0.0),
    ]
    gain = {record.id: record.value - (record.parent_score or 0.0) for record in records}
    ranked = grouped(gain, lambda id_: scales[id_])
    gains = {scale: np.sort([gain[id_] for id_ in ids]) for scale, ids in ranked.items()}

    def strength(pair: PreferencePair) -> float:
        others, good = gains[scales[pair.chosen_id]], gain[pair.chosen_id]
        ranks = np.searchsorted(others, [good, good - pair.margin], side="right")
        foreign = pair.kind != "improving_parent" and pair.rejected_id < fresh_from
        wear = 1.0 + before.get(pair.rejected_id, 0) + foreign
        size = good / others[-1] if pair.kind.startswith("improving") else 1.0
        return float(ranks[0] - ranks[1]) / len(others) * size / wear

    return Selection(caps, strength)


def _is_number(text: str) -> bool:
    """True of a text that is nothing but a number."""
    try:
        float(text)
    except ValueError:
        return False
    return True
