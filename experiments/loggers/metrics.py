"""A run's numbers under the names that W&B and sweeps know them by.

Four axes: `evaluations` (different programs evaluated) for every score, `round` for exploration, `phase` for
fine-tuning, `optimiser_step` for its curves. No number is told under two names.
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
_SUMMED = "drawn", "smoke_runs", "smoke_failed", "samples", "tokens", "generation_s", "evaluation_wait_s"


class Progress:
    """Progress of exploration; give it every record in the order of rounds. The best score is the mean of the
    instances' best; clusters are those over all islands, so that an idea counts once wherever it was found."""

    def __init__(self, instances: int = 1):
        self._clusters = Clusters()
        self._known: set[str | None] = {None}
        self._instances = instances
        self._evaluations = 0
        self._bests: dict[int, float] = {}
        self._islands: dict[int, float] = {}

    def evaluations(self, records: Iterable[Candidate]) -> Iterator[Row]:
        """A row for every different program: its score, the best so far, and the mean of these records so far."""
        scores: list[float] = []
        for record in records:
            self._evaluations += record.duplicate_of is None and record.origin != "seed"
            if record.score is not None:
                instance = record.island % self._instances
                for key, bests in ((instance, self._bests), (record.island, self._islands)):
                    bests[key] = max(record.score, bests.get(key, record.score))
                if record.program_key not in self._known:
                    self._known.add(record.program_key)
                    # The worker could parse it; this process, with another stack or Python, need not be able to.
                    with contextlib.suppress(SyntaxError, ValueError, RecursionError, MemoryError):
                        self._clusters.add(signature(record.program, record.score, record.metrics))
            if record.duplicate_of is not None:
                continue
            row: Row = {"evaluations": self._evaluations, "score/best": self._best}
            if record.score is not None:
                scores.append(record.score)
                row["score/candidate"] = record.score
            yield row | ({"score/mean": fmean(scores)} if scores else {})

    @property
    def _best(self) -> float | None:
        return fmean(self._bests.values()) if self._bests else None

    def round(self, summary: Mapping[str, Any]) -> Row:
        """The row of a round whose records went through `evaluations`."""
        return {
            "round": summary["round"],
            **{f"explore/{key}": summary[key] / max(1, summary["samples"]) for key in _SHARES},
            **{f"explore/{key}": summary[key] for key in _SUMMED},
            **{f"status/{s}": summary["statuses"].get(s, 0) for s in Status if s != Status.OK},
            **{
                f"writers/{name}/{key}": number
                for name, numbers in summary["writers"].items()
                for key, number in zip(("evaluated", "improving"), numbers, strict=True)
            },
            "evaluations": self._evaluations,
            "score/best": self._best,  # here too, so that it can be drawn over rounds
            "clusters/found": len(self._clusters.leaders),
            "clusters/effective": self._clusters.effective,
            **{f"island/{island}/best": best for island, best in self._islands.items()},
        }


def phase_row(result: Mapping[str, Any], calls: Iterable[Mapping[str, Any]]) -> Row:
    """The row of a fine-tuning phase as it is stored, with its supporters' calls."""
    row: Row = {"phase": result["phase"], "round": result["round"], **supporter_row(calls)}
    if result.get("skipped"):
        return row | {"phase/skipped": 1}
    decision = result["decision"] or {}
    row |= {f"gate/{key}": decision[key] for key in ("min_gain", "max_kl") if key in decision}
    row |= {f"gate/{key}": result[key] for key in ("gain", "gain_error", "kl") if result.get(key) is not None}
    row |= {f"phase/{key}": result[key] for key in ("pairs", "tokens") if key in result}
    row |= {f"phase/{what}_s": seconds for what, seconds in result["seconds"].items()}
    row |= {"phase/skipped": 0, "gate/promoted": int(result["promoted"])}
    if "chosen_from" in result:
        row["phase/taught"] = result["chosen_from"].get("supporter", 0)
    row |= {f"strategist/{name}": value for name, value in result.get("controls", {}).items()}
    return row | {"strategist/changes": len(result.get("changed_controls", ()))}


def step_rows(result: Mapping[str, Any], before: int) -> list[Row]:
    """A row per optimiser step of a phase; `before`: steps of the phases before it."""
    kls = dict(result.get("kls", ()))
    rows: list[Row] = []
    for step in result.get("steps", ()):
        number = step["step"]
        row: Row = {"phase": result["phase"], "optimiser_step": before + number}
        row |= {f"dpo/{name}": value for name, value in step.items() if name != "step"}
        rows.append(row | ({"dpo/kl": kls[number]} if number in kls else {}))
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
    return {"phase": phase} | {
        f"exam/{name.replace(' ', '@')}/{side}": getattr(found, side)
        for name, found in measures.items()
        for side in ("base", "tuned")
    }


def final_row(store: RunStore) -> Row:
    """Results of a run: start, candidates, tokens, and once it is confirmed the scores on the held-out seeds; of
    several instances the means. The best training score is the last `score/best`."""
    ends = store.ends()
    if not ends:
        return {}
    row = {
        "initial_score": fmean(start.score or 0.0 for start, _ in ends),
        "candidates": store.candidate_counts()["candidates"],
        "tokens/written": sum(own["tokens"] for own in store.round_summaries(first=1)),
        "tokens/tuned": sum(phase.get("tokens", 0) for phase in store.phases()),
        "tokens/supporters": supporter_row(store.supporter_calls()).get("supporters/tokens", 0),
    }
    confirmed = [
        (best.score or 0.0, fmean(first["scores"]), fmean(last["scores"]))
        for start, best in ends
        if (first := store.held_out(held_out_key(start, store.instances)))
        and (last := store.held_out(held_out_key(best, store.instances)))
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
