"""A run store of any size, made up: candidates as a long bandit run leaves them, without model and evaluator.

Sizes and shares are those of real runs of the default configuration: six islands of eight samples a round, prompts
of a kilobyte, programs of half a kilobyte that are line edits of their parents; of a hundred candidates about thirty
are new programs that ran, twenty-five repeat an earlier one, the others failed. Scores rise ever more slowly.
"""

import hashlib
import math
import random
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import yaml

from atlas_gym import make_task
from atlas_gym.agents.population.candidate import CandidateRecord, Proposal
from atlas_gym.trainers.loop.settings import ExplorationSettings
from atlas_gym.trainers.store.store import RunStore

LAYOUT = ExplorationSettings()
PER_ROUND = LAYOUT.islands * LAYOUT.samples
_NEW, _REPEATED = 0.30, 0.55
_RECENT = 256
_DIAGNOSIS = "Most of the regret falls in quarter {} of the run; {:.0%} of it after changes of the best arm."
_EDITED = ("window", "lam", "alpha", "bonus")
_RULES = tuple(
    f"np.{outer}(np.{inner}(context @ A_inv * context, axis=1))"
    for outer in ("sqrt", "abs", "log1p", "tanh", "exp") for inner in ("sum", "max", "mean", "min", "median", "std")
)  # fmt: skip


class SyntheticRun:
    """Plays a run of the default layout; the same records for the same seed.

    Args:
        candidates: how many to make, rounded up to whole rounds.
        seed: of everything.
    """

    def __init__(self, candidates: int, seed: int = 0):
        self.rounds = math.ceil(candidates / PER_ROUND)
        self._rng = random.Random(seed)
        self._start = make_task("ATLAS-Bandit-v0").starts["named"]
        self._parents: list[list[CandidateRecord]] = [[] for _ in range(LAYOUT.islands)]
        self._recent: list[CandidateRecord] = []

    def seeds(self) -> list[CandidateRecord]:
        """Round 0."""
        first = self._record(0, 0, 0, None, "seed", self._start, -0.16, None)
        others = (
            self._record(0, i, 0, None, "seed", self._start, -0.16, first.id)
            for i in range(1, LAYOUT.islands)
        )
        seeds = [first, *others]
        for record in seeds:
            self._parents[record.island].append(record)
        return seeds

    def units(self) -> Iterator[tuple[int, int, list[CandidateRecord], dict[int, Proposal]]]:
        """(round, group, candidates, proposals) of every unit, in the order in which a run stores them."""
        for round_ in range(1, self.rounds + 1):
            for group in range(LAYOUT.groups):
                records: list[CandidateRecord] = []
                proposals: list[Proposal] = []
                for island in LAYOUT.members(group):
                    parent = self._rng.choice(self._parents[island])
                    proposals.append(replace(_proposal(parent), island=island))
                    prompt = proposals[-1].prompt
                    records += [
                        self._sample(round_, island, s, parent, prompt) for s in range(LAYOUT.samples)
                    ]
                yield round_, group, records, proposals

    def _sample(
        self, round_: int, island: int, sample: int, parent: CandidateRecord, prompt: str
    ) -> CandidateRecord:
        rng, draw = self._rng, self._rng.random()
        if draw < _NEW:
            # A level that rises like a logarithm: new bests ever more seldom, at any length.
            score = -0.08 - 0.08 / (1 + math.log1p(round_)) - abs(rng.gauss(0, 0.03))
            record = self._record(
                round_, island, sample, parent, "agent", self._edit(parent), score, None, prompt
            )
            self._take(record)
            return record
        if draw < _REPEATED and self._recent:
            first = rng.choice(self._recent)
            return self._record(
                round_, island, sample, parent, "agent", first.program, first.score, first.id, prompt
            )
        return self._record(round_, island, sample, parent, "agent", self._edit(parent), None, None, prompt)

    def _take(self, record: CandidateRecord) -> None:
        best = self._parents[record.island]
        best.append(record)
        best.sort(key=lambda r: -(r.score or 0.0))
        del best[8:]
        if len(self._recent) < _RECENT:
            self._recent.append(record)
        else:
            self._recent[self._rng.randrange(_RECENT)] = record

    def _edit(self, parent: CandidateRecord) -> str:
        rng, lines = self._rng, parent.program.split("\n")
        places = [i for i, line in enumerate(lines) if line.partition(" = ")[0].strip() in _EDITED]
        at = rng.choice(places)
        name = lines[at].partition(" = ")[0]
        rule = name.strip() == "bonus"
        lines[at] = f"{name} = {rng.choice(_RULES) if rule else f'{rng.uniform(0.1, 99):.9f}'}"
        return "\n".join(lines)

    def _record(
        self, round_: int, island: int, sample: int, parent: CandidateRecord | None, origin: Any, program: str,
        score: float | None, duplicate_of: int | None, prompt: str = "",
    ) -> CandidateRecord:  # fmt: skip
        ok, rng = score is not None, self._rng
        metrics = {f"regret_{k}": (score or 0.0) * rng.uniform(0.8, 1.2) for k in range(5)} if ok else {}
        return CandidateRecord(
            id=LAYOUT.candidate_id(round_, island, sample), round=round_, island=island, origin=origin,
            style="edit_line" if parent else "", hole=rng.choice(("window =", "lam =", "scores =")) if parent else "",
            parent_id=parent.id if parent else None, prompt=prompt, completion=f" {rng.uniform(0, 99):.6f}\n",
            program=program, program_key=hashlib.sha256(program.encode()).hexdigest(),
            status="ok" if ok else rng.choice(("error", "error", "invalid", "timeout")), score=score,
            detail="" if ok else f"line {rng.randrange(20)}, in policy: scores = undefined\nNameError: undefined",
            metrics=metrics, parent_score=parent.score if parent else None,
            duplicate_of=duplicate_of,
            diagnosis=_DIAGNOSIS.format(rng.randrange(1, 5), rng.random()) if ok else "",
        )  # fmt: skip


def _proposal(parent: CandidateRecord) -> Proposal:
    head, tail = parent.program[:300], parent.program[300:]
    return Proposal(
        style="edit_line", parent_id=parent.id, hole="window =", prompt=f"# {parent.score}\n" + parent.program * 2,
        avoid=" 50", stop="line", head=head, tail=tail,
    )  # fmt: skip


def summary_of(round_: int, group: int, records: list[CandidateRecord]) -> dict[str, Any]:
    """A unit's summary, as the explorer writes it."""
    statuses: dict[str, int] = {}
    for record in records:
        statuses[record.status] = statuses.get(record.status, 0) + 1
    scores = [record.score for record in records if record.score is not None]
    new = sum(record.passed and record.duplicate_of is None for record in records)
    return {
        "round": round_, "samples": len(records), "valid": len(scores), "new": new, "improving": 0,
        "distinct": new, "statuses": statuses, "best": max(scores, default=None), "island_best": {}, "tokens": 480,
        "generation_s": 4.0, "evaluation_wait_s": 0.5,
    }  # fmt: skip


def write_config(folder: Path, run: SyntheticRun) -> None:
    """The settings that a report reads of a run."""
    config = {
        "env": "ATLAS-Bandit-v0", "method": "atlas", "seed": 0, "rounds": run.rounds,
        "exploration": {"islands": LAYOUT.islands, "samples": LAYOUT.samples, "groups": LAYOUT.groups},
    }  # fmt: skip
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.yaml").write_text(yaml.safe_dump(config), encoding="utf-8")


def fill(store: RunStore, run: SyntheticRun) -> None:
    """Store a whole run in an empty store."""
    store.add_round(0, run.seeds(), {"round": 0})
    for round_, group, records, proposals in run.units():
        store.add_round(round_, records, summary_of(round_, group, records), proposals, [])
