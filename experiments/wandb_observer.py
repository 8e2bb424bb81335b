"""A run as W&B sees it: one row a round, one row a phase, the best programs as a table at the end."""

import uuid
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from trainers.config import RunConfig
from trainers.observer import Observer
from trainers.settings_file import plain
from trainers.store import RunStore
from trainers.tracking import Tracker


class WandbObserver(Observer):
    """Forwards a run's events to a `Tracker`; a round that is only replayed on resume is not logged twice."""

    def __init__(self, store: RunStore, config: RunConfig, warn):
        run_id = store.get_meta("run_id") or uuid.uuid4().hex[:12]
        store.set_meta("run_id", run_id)
        self._store = store
        self._groups = config.exploration.groups
        self._tracker = Tracker(store.folder, config.tracking, plain(config), run_id, warn)
        self._logged = store.get_meta("wandb_logged", {"round": 0, "phase": 0})
        self._round: list[Mapping[str, Any]] = []

    def unit(self, summary: Mapping[str, Any], best: float) -> None:
        """See `Observer`."""
        self._round.append(summary)
        if len(self._round) < self._groups:
            return
        units, self._round = self._round, []
        if self._new("round", summary["round"]):
            self._tracker.log(_round_row(units, best))

    def probe(self, phase: int, moment: str, result: Mapping[str, Any]) -> None:
        """See `Observer`."""
        row = {f"probe/{moment}_{k}": result[k]["value"] for k in ("valid", "new", "improving")}
        if phase > self._logged["phase"]:
            self._tracker.log({"phase": phase, **row, f"probe/{moment}_distinct": result["distinct"]})

    def phase(self, result: Mapping[str, Any]) -> None:
        """See `Observer`."""
        if not self._new("phase", result["phase"]) or result.get("skipped"):
            return
        sides = result["decision"] or {}
        row = {f"gate/{k}": sides[k] for k in ("gain", "kl", "min_gain", "max_kl") if k in sides}
        row |= {f"phase/{k}": result[k] for k in ("pairs", "loss", "margin", "accuracy")}
        row |= {f"phase/{what}_s": seconds for what, seconds in result["seconds"].items()}
        self._tracker.log({"phase": result["phase"], "gate/promoted": int(result["promoted"]), **row})

    def attach(self, paths: list[Path]) -> None:
        """Attach the run's files as an artifact."""
        self._tracker.artifact("run", "run", paths)

    def finished(self, summary: Mapping[str, Any]) -> None:
        """See `Observer`."""
        best = sorted(
            self._store.candidates("WHERE c.score IS NOT NULL AND c.duplicate_of IS NULL"), key=_by_score
        )
        rows = [[r.id, r.round, r.island, r.origin, r.score, r.program] for r in best[:10]]
        self._tracker.table("best_programs", ["id", "round", "island", "origin", "score", "program"], rows)
        self._final = {
            "best_score": summary["best"]["score"],
            "held_out_score": summary["best"]["held_out"],
            "candidates": summary["candidates"],
        }

    def close(self) -> None:
        """Finish the record."""
        self._tracker.finish(getattr(self, "_final", {}))

    def _new(self, axis: str, number: int) -> bool:
        if number <= self._logged[axis]:
            return False
        self._logged[axis] = number
        self._store.set_meta("wandb_logged", self._logged)
        return True


def _by_score(record) -> tuple[float, int]:
    return -record.score, record.id


def _round_row(units: list[Mapping[str, Any]], best: float) -> dict[str, Any]:
    total = {
        k: sum(u[k] for u in units) for k in ("samples", "valid", "new", "improving", "distinct", "tokens")
    }
    row = {
        f"explore/{k}": total[k] / max(1, total["samples"]) for k in ("valid", "new", "improving", "distinct")
    }
    row |= {"round": units[0]["round"], "explore/best": best, "explore/tokens": total["tokens"]}
    row |= {f"explore/{k}": sum(u[k] for u in units) for k in ("generation_s", "evaluation_wait_s")}
    for unit in units:
        for status, n in unit["statuses"].items():
            row[f"status/{status}"] = row.get(f"status/{status}", 0) + n
        for island, score in unit.get("island_best", {}).items():
            row[f"island/{island}"] = score
    return row
