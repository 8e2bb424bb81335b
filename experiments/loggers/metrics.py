"""A run's numbers under the names that W&B, sweeps and tests know them by.

Four axes: `evaluations` (different programs evaluated) for every score, `round` for exploration, `phase` for
fine-tuning, `optimiser_step` for its curves. No number is told under two names. The same functions serve a run that
is under way and one that is read from its store, so a sweep's `metric: {name: score/best}` means the same with and
without a server.
"""

import contextlib
import math
from collections.abc import Iterable, Iterator, Mapping
from statistics import fmean
from typing import Any

from atlas_gym.agents.population.candidate import Candidate
from atlas_gym.agents.population.clusters import Clusters, signature
from atlas_gym.evaluation import Status
from atlas_gym.trainers.data.comparison import Comparison
from atlas_gym.trainers.store.queries import held_out_key
from atlas_gym.trainers.store.store import RunStore

Row = dict[str, Any]

_SHARES = ("valid", "new", "improving", "distinct")
_SUMMED = ("samples", "tokens", "generation_s", "evaluation_wait_s")


class ClusterFold:
    """Clusters over all islands of a run, so that the same idea counts once wherever it was found.

    (Each island keeps clusters of its own while a run goes on; their numbers mean nothing to one another.)
    Programs it knows already are not compared again.
    """

    def __init__(self, radius: float):
        self.clusters = Clusters(radius)
        self._of: dict[str, int | None] = {}

    def cluster_of(self, record: Candidate) -> int | None:
        """The cluster of a candidate's program; None if it did not pass or cannot be parsed here."""
        if not record.passed or record.program_key is None:
            return None
        if record.program_key not in self._of:
            cluster = None
            # The worker could parse it; this process, with another stack or Python, need not be able to.
            with contextlib.suppress(SyntaxError, ValueError, RecursionError, MemoryError):
                mark = signature(record.program, record.score or 0.0, record.metrics)
                cluster = self.clusters.add(mark)
            self._of[record.program_key] = cluster
        return self._of[record.program_key]


class Progress:
    """What exploration has come to, round by round; give it every record in the order of rounds.

    Args:
        radius: distance beyond which two programs count as different ideas.
        instances: instances of the task that the islands search; the best score is the mean of their best.
    """

    def __init__(self, radius: float, instances: int = 1):
        self._fold = ClusterFold(radius)
        self._instances = instances
        self._evaluations = 0
        self._bests: dict[int, float] = {}
        self._islands: dict[int, float] = {}
        self._reached: dict[int, set[int]] = {}

    def evaluations(self, records: Iterable[Candidate]) -> Iterator[Row]:
        """A row for every different program that was evaluated: its score, and the best and the mean so far of
        these records."""
        scores: list[float] = []
        for record in records:
            self._take(record)
            if record.duplicate_of is not None:
                continue
            row: Row = {"evaluations": self._evaluations, "score/best": self._best}
            if record.score is not None:
                scores.append(record.score)
                row["score/candidate"] = record.score
            if scores:
                row["score/mean"] = sum(scores) / len(scores)
            yield row

    def _take(self, record: Candidate) -> None:
        self._evaluations += record.duplicate_of is None
        if record.score is None:
            return
        instance = record.island % self._instances
        self._bests[instance] = max(record.score, self._bests.get(instance, record.score))
        self._islands[record.island] = max(record.score, self._islands.get(record.island, record.score))
        cluster = self._fold.cluster_of(record)
        if cluster is not None:
            self._reached.setdefault(record.island, set()).add(cluster)

    @property
    def _best(self) -> float | None:
        return sum(self._bests.values()) / len(self._bests) if self._bests else None

    def round(self, summary: Mapping[str, Any]) -> Row:
        """The row of a round whose records went through `evaluations`."""
        row: Row = {f"explore/{key}": summary[key] / max(1, summary["samples"]) for key in _SHARES}
        row |= {"round": summary["round"]} | {f"explore/{key}": summary[key] for key in _SUMMED}
        failures = [
            status for status in Status if status != Status.OK
        ]  # the share of `ok` is `explore/valid`
        row |= {f"status/{s}": summary["statuses"].get(s, 0) for s in failures}
        row |= {
            "evaluations": self._evaluations,
            "score/best": self._best,  # here too, so that it can be drawn over rounds
            "clusters/found": len(self._fold.clusters.leaders),
            "clusters/effective": self._fold.clusters.effective,
        }
        row |= {f"island/{island}/best": best for island, best in self._islands.items()}
        return row | {f"island/{island}/clusters": len(reached) for island, reached in self._reached.items()}


def phase_row(result: Mapping[str, Any], calls: Iterable[Mapping[str, Any]]) -> Row:
    """The row of a fine-tuning phase.

    Args:
        result: the phase as it is stored.
        calls: the supporters' stored calls of this phase.
    """
    row: Row = {"phase": result["phase"], "round": result["round"], **supporter_row(calls)}
    if result.get("skipped"):
        return row | {"phase/skipped": 1}
    decision = result["decision"] or {}
    row |= {f"gate/{key}": decision[key] for key in ("min_gain", "max_kl") if key in decision}
    row |= {f"gate/{key}": result[key] for key in ("gain", "gain_error", "kl") if result.get(key) is not None}
    row |= {f"phase/{key}": result[key] for key in ("pairs", "tokens", "reward") if key in result}
    row |= {f"phase/{what}_s": seconds for what, seconds in result["seconds"].items()}
    row |= {"phase/skipped": 0, "gate/promoted": int(result["promoted"])}
    if "chosen_from" in result:
        row["phase/taught"] = result["chosen_from"].get("supporter", 0)
    row |= {f"strategist/{name}": value for name, value in result.get("controls", {}).items()}
    return row | {"strategist/changes": len(result.get("changed_controls", ()))}


def step_rows(result: Mapping[str, Any], before: int) -> list[Row]:
    """A phase's training: a row per optimiser step.

    Args:
        result: the phase as it is stored.
        before: optimiser steps of the phases before it.
    """
    kls = dict(result.get("kls", ()))
    rows: list[Row] = []
    for step in result.get("steps", ()):
        row: Row = {"phase": result["phase"], "optimiser_step": before + step["step"]}
        row |= {f"dpo/{name}": value for name, value in step.items() if name != "step"}
        rows.append(row | ({"dpo/kl": kls[step["step"]]} if step["step"] in kls else {}))
    return rows


def supporter_row(calls: Iterable[Mapping[str, Any]]) -> Row:
    """How often supporters were asked and answered, and what that cost."""
    calls = list(calls)
    if not calls:
        return {}
    tokens = (call.get(f"{part}_tokens", 0) for call in calls for part in ("prompt", "completion"))
    return {
        "supporters/calls": len(calls),
        "supporters/answered": sum(call.get("status") == "ok" for call in calls),
        "supporters/tokens": sum(tokens),
        "supporters/seconds": sum(call.get("seconds", 0.0) for call in calls),
    }


def exam_row(phase: int, measures: Mapping[str, Comparison]) -> Row:
    """The row of a policy's exam beside the base model's (`trainers.loop.exam.learned`)."""
    row: Row = {"phase": phase}
    for name, found in measures.items():
        key = f"exam/{name.replace(' ', '@')}"
        row |= {f"{key}/base": found.base, f"{key}/tuned": found.tuned}
    return row


class RoundHistory:
    """The rows of a stored run's rounds, kept up to date while the run goes on.

    Args:
        radius: distance beyond which two programs count as different ideas (`agent.cluster_radius`).
    """

    def __init__(self, radius: float):
        self.rows: list[Row] = []
        self._radius = radius
        self._progress: Progress | None = None
        self._next = 0

    def extend(self, store: RunStore) -> list[Row]:
        """Read the rounds that were completed since the last look; returns all rows."""
        if self._progress is None:
            self._progress = Progress(self._radius, store.instances)
        for summary in store.round_summaries(self._next):
            list(self._progress.evaluations(store.candidates("c.round = ?", (self._next,))))
            if self._next > 0:
                self.rows.append(self._progress.round(summary))
            self._next += 1
        return self.rows


def final_row(store: RunStore) -> Row:
    """What a run came to: where it began, what was spent and, once confirmed, the scores on the held-out seeds; with
    several instances the means over them.

    The best training score is not repeated: it is the last `score/best`.
    """
    ends = store.ends()
    if not ends:
        return {}
    starts = [start.score for start, _ in ends if start.score is not None]
    row = {"initial_score": fmean(starts) if starts else None, **_spent(store)}
    confirmed = [
        (best.score or 0.0, first, last)
        for start, best in ends
        if (first := _held_out(store, start)) is not None and (last := _held_out(store, best)) is not None
    ]
    if len(confirmed) < len(ends):
        return row
    training, initial, held_out = (fmean(scores) for scores in zip(*confirmed, strict=True))
    return row | {
        "held_out_score": held_out,
        "held_out_gap": training - held_out,
        "initial_held_out_score": initial,
        "improvement": fmean(improvement(first, last) for _, first, last in confirmed),
    }


def improvement(initial: float, final: float) -> float:
    """Share of the initial program's loss that is gone; scores are negative losses. NaN where none was lost."""
    return 1.0 - final / initial if initial else math.nan


def _spent(store: RunStore) -> Row:
    """Of the whole run: its candidates, and the tokens written while exploring, run through the model while tuning,
    and the supporters'."""
    return {
        "candidates": store.candidate_counts()["candidates"],
        "tokens/written": sum(own["tokens"] for own in store.round_summaries(first=1)),
        "tokens/tuned": sum(phase.get("tokens", 0) for phase in store.phases()),
        "tokens/supporters": supporter_row(store.supporter_calls()).get("supporters/tokens", 0),
    }


def _held_out(store: RunStore, record: Candidate) -> float | None:
    scores = (store.held_out(held_out_key(record, store.instances)) or {}).get("scores")
    return sum(scores) / len(scores) if scores else None
