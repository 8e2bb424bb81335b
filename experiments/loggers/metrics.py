"""A run's numbers under the names that W&B, sweeps and tests know them by.

Three axes: `evaluations` (different programs evaluated) for every score, `round` for exploration, `phase` for
fine-tuning. The same functions serve a run that is under way and one that is read from its store, so a sweep's
`metric: {name: explore/best}` means the same with and without a server.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from agents.population.candidate import CandidateRecord
from agents.population.clusters import Clusters, signature
from agents.population.settings import ClusterSettings
from atlas_gym.evaluation import Status
from trainers.store.store import RunStore

Row = dict[str, Any]

_COUNTS = ("samples", "valid", "new", "improving", "distinct", "tokens")


class ClusterFold:
    """Clusters over all islands of a run, so that the same idea counts once wherever it was found.

    (Each island keeps clusters of its own while a run goes on; their numbers mean nothing to one another.)
    Programs it knows already are not compared again.
    """

    def __init__(self, settings: ClusterSettings):
        self.clusters = Clusters(settings)
        self._of: dict[str, int | None] = {}

    def extend(self, records: Iterable[CandidateRecord]) -> Mapping[str, int | None]:
        """Assign what is new; returns cluster by program key, None for a program that cannot be parsed here."""
        for record in records:
            if record.passed and record.program_key is not None and record.program_key not in self._of:
                self._of[record.program_key] = self._assign(record)
        return self._of

    def _assign(self, record: CandidateRecord) -> int | None:
        try:
            mark = signature(
                record.program, record.score or 0.0, record.metrics, self.clusters.settings.depth
            )
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            # The worker could parse it; this process, with another stack or Python, need not be able to.
            return None
        return self.clusters.add(mark)


class Progress:
    """What exploration has come to, round by round; give it every record in the order of rounds."""

    def __init__(self, settings: ClusterSettings):
        self._fold = ClusterFold(settings)
        self._evaluations = 0
        self._best: float | None = None
        self._task_began = 0
        self._islands: dict[int, float] = {}
        self._reached: dict[int, set[int]] = {}

    def evaluations(self, records: Iterable[CandidateRecord]) -> Iterator[Row]:
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

    def _take(self, record: CandidateRecord) -> None:
        self._evaluations += record.duplicate_of is None
        if record.origin == "carried" and record.round != self._task_began:  # another task, other scores
            self._task_began, self._best, self._islands = record.round, None, {}
        cluster_of = self._fold.extend((record,))
        if record.score is None:
            return
        self._best = record.score if self._best is None else max(self._best, record.score)
        self._islands[record.island] = max(record.score, self._islands.get(record.island, record.score))
        cluster = cluster_of.get(record.program_key or "")
        if cluster is not None:
            self._reached.setdefault(record.island, set()).add(cluster)

    def round(self, units: Sequence[Mapping[str, Any]], records: Sequence[CandidateRecord]) -> Row:
        """The row of a round whose records went through `evaluations`."""
        scores = [record.score for record in records if record.score is not None]
        row = _sums(units) | {
            "evaluations": self._evaluations,
            "explore/best": self._best,
            "clusters/found": len(self._fold.clusters.leaders),
            "clusters/effective": self._fold.clusters.effective,
        }
        if scores:
            row["explore/mean"] = sum(scores) / len(scores)
        row |= {f"island/{island}/best": best for island, best in self._islands.items()}
        return row | {f"island/{island}/clusters": len(reached) for island, reached in self._reached.items()}


def _sums(units: Sequence[Mapping[str, Any]]) -> Row:
    total = {key: sum(unit[key] for unit in units) for key in _COUNTS}
    row: Row = {f"explore/{key}": total[key] / max(1, total["samples"]) for key in _COUNTS[1:5]}
    row |= {
        "round": units[0]["round"],
        "explore/samples": total["samples"],
        "explore/tokens": total["tokens"],
    }
    row |= {
        f"explore/{key}": sum(unit[key] for unit in units) for key in ("generation_s", "evaluation_wait_s")
    }
    return row | {f"status/{s}": sum(unit["statuses"].get(s, 0) for unit in units) for s in Status}


def phase_row(result: Mapping[str, Any], calls: Iterable[Mapping[str, Any]]) -> Row:
    """The row of a fine-tuning phase.

    Args:
        result: the phase as it is stored.
        calls: the supporters' stored calls of this phase.
    """
    row: Row = {"phase": result["phase"], "phase/round": result["round"], **supporter_row(calls)}
    if result.get("skipped"):
        return row | {"phase/skipped": 1}
    decision = result["decision"] or {}
    row |= {f"gate/{key}": decision[key] for key in ("min_gain", "max_kl") if key in decision}
    row |= {f"gate/{key}": result[key] for key in ("gain", "gain_error", "kl") if result.get(key) is not None}
    row |= {f"phase/{key}": result[key] for key in ("pairs", "loss", "margin", "accuracy", "kl")}
    row |= {f"phase/{what}_s": seconds for what, seconds in result["seconds"].items()}
    row |= {"phase/skipped": 0, "gate/promoted": int(result["promoted"])}
    if "chosen_from" in result:
        row["phase/taught"] = result["chosen_from"].get("supporter", 0)
    row |= {f"strategist/{name}": value for name, value in result.get("controls", {}).items()}
    return row | {"strategist/changes": len(result.get("changed_controls", ()))}


def supporter_row(calls: Iterable[Mapping[str, Any]]) -> Row:
    """How often supporters were asked and answered, and what that cost."""
    calls = list(calls)
    if not calls:
        return {}
    return {
        "supporters/calls": len(calls),
        "supporters/answered": sum(call.get("status") == "ok" for call in calls),
        "supporters/tokens": sum(
            call.get("prompt_tokens", 0) + call.get("completion_tokens", 0) for call in calls
        ),
        "supporters/seconds": sum(call.get("seconds", 0.0) for call in calls),
    }


def probe_row(phase: int, moment: str, result: Mapping[str, Any]) -> Row:
    """The row of a probe before or after a phase."""
    row = {f"probe/{moment}_{key}": result[key]["value"] for key in ("valid", "new", "improving")}
    return {"phase": phase, **row, f"probe/{moment}_distinct": result["distinct_share"]}


class RoundHistory:
    """The rows of a stored run's complete rounds, kept up to date while the run goes on.

    Args:
        groups: units in a round (`exploration.groups`).
        settings: when two programs count as different ideas.
    """

    def __init__(self, groups: int, settings: ClusterSettings | None = None):
        self.rows: list[Row] = []
        self._groups = groups
        self._progress = Progress(settings or ClusterSettings())
        self._next = 0

    def extend(self, store: RunStore) -> list[Row]:
        """Read the rounds that were completed since the last look; returns all rows."""
        units: dict[int, list[Row]] = {}
        for unit in store.unit_summaries(self._next):
            units.setdefault(unit["round"], []).append(unit)
        while own := units.get(self._next):
            if self._next > 0 and len(own) < self._groups:
                break
            records = list(store.candidates("WHERE c.round = ?", (self._next,)))
            for _ in self._progress.evaluations(records):
                pass
            if self._next > 0:
                self.rows.append(self._progress.round(own, records))
            self._next += 1
        return self.rows


def final_row(store: RunStore) -> Row:
    """What a run came to: its best score and, once confirmed, the mean over the held-out seeds."""
    best = next(iter(store.best_candidates(1)), None)
    if best is None:
        return {}
    row: Row = {"best_score": best.score, "candidates": store.count("candidates")}
    scores = (store.held_out(best.program_key or "") or {}).get("scores")
    if not scores or best.score is None:
        return row
    mean = sum(scores) / len(scores)
    return row | {"held_out_score": mean, "held_out_gap": best.score - mean}
