"""A report as plain data: what the page embeds and its script draws.

Candidates are columns rather than records (names are not repeated five thousand times), strings that recur are numbers
into a list, programs are numbers into a `TextTable`: each different line is stored once, a text is the list of its
lines' numbers. Five thousand line edits of a program of twenty lines take a few hundred kilobytes instead of ten
megabytes, and remain readable JSON.
"""

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from typing import Any

from atlas_gym.agents.population.candidate import CandidateRecord
from atlas_gym.experiments.report.comparison import Group, band
from atlas_gym.experiments.report.coverage import coverage, every
from atlas_gym.experiments.report.data import RunData
from atlas_gym.experiments.report.learning import learning_pictures
from atlas_gym.experiments.report.pictures import Picture
from atlas_gym.experiments.report.table_formats import Table
from atlas_gym.trainers.store.plain import flatten

Json = dict[str, Any]

LINE_CHARS, TEXT_LINES = 2000, 1500
_DETAIL_CHARS = 4000
_COUNTS = ("samples", "valid", "new", "improving", "distinct")
_CALL_FIELDS = ("round", "phase", "role", "form", "model", "status", "reason", "outcome", "reply", "seconds")


class TextTable:
    """Collects texts; equal texts and equal lines are stored once."""

    def __init__(self) -> None:
        self._lines: dict[str, int] = {}
        self._texts: dict[tuple[int, ...], int] = {}

    def add(self, text: str) -> int:
        """The number of a text. What is too long to look at is cut, and says so."""
        parts = text.split("\n", TEXT_LINES)
        lines = [_cut(line) for line in parts[:TEXT_LINES]]
        if len(parts) > TEXT_LINES:
            lines.append(f"… ({len(parts[-1])} more characters on further lines; the run store has them)")
        numbers = tuple(self._lines.setdefault(line, len(self._lines)) for line in lines)
        return self._texts.setdefault(numbers, len(self._texts))

    def as_dict(self) -> dict[str, list]:
        """The table for the page: `lines`, and per text the numbers of its lines."""
        return {"lines": list(self._lines), "texts": [list(numbers) for numbers in self._texts]}


def _cut(line: str) -> str:
    if len(line) <= LINE_CHARS:
        return line
    return f"{line[:LINE_CHARS]}… ({len(line) - LINE_CHARS} more characters; the run store has them)"


def build_payload(
    groups: Sequence[Group], tables: Sequence[Table], pictures: Mapping[str, Sequence[Picture]]
) -> Json:
    """Everything the page shows: the runs, grouped, the tables below the charts, the environment's pictures by run."""
    runs = [_run(run, pictures.get(run.name, ())) for group in groups for run in group.runs]
    return finite({
        "made": datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"),
        "runs": runs,
        "bands": [asdict(curve) for group in groups if (curve := band(group)) is not None],
        "tables": [asdict(table) for table in tables],
    })  # fmt: skip


def finite(value: Any) -> Any:
    """The same data with None for what JSON has no number for."""
    if isinstance(value, Mapping):
        return {str(key): finite(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [finite(item) for item in value]
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    return value


def _run(run: RunData, pictures: Sequence[Picture]) -> Json:
    texts = TextTable()
    candidates = _candidates(run, texts)
    return {
        "name": run.name,
        "config": [[key, str(value)] for key, value in flatten(run.config).items()],
        "env": run.setting("env", ""),
        "method": run.setting("method", ""),
        "seed": run.setting("seed"),
        "rounds": run.census.rounds,
        "plannedRounds": run.setting("rounds", run.census.rounds),
        "confirmed": run.confirmed,
        "initial": _scored(run, run.initial),
        "best": _scored(run, run.best),
        "total": run.census.candidates,
        "evaluated": run.census.evaluated,
        "written": dict(run.written),
        "candidates": candidates,
        "programs": texts.as_dict(),
        "phases": [_shown(phase) for phase in run.phases],
        "supporters": [_call(run, call) for call in run.supporter_calls],
        "units": _rounds(run),
        "coverage": coverage(run),
        "pictures": [asdict(picture) for picture in pictures],
        "learning": [asdict(picture) for picture in learning_pictures(run)],
        "curve": [[number, _short(score)] for number, score in run.census.curve],
    }


def _scored(run: RunData, record: CandidateRecord | None) -> Json | None:
    if record is None:
        return None
    scores, gap = run.held_out_scores(record), run.held_out_gap(record)
    return {
        "id": record.id,
        "score": record.score,
        "heldOut": sum(scores) / len(scores) if scores else None,
        "heldOutScores": scores,
        "gap": gap and gap.word,
    }


def _candidates(run: RunData, texts: TextTable) -> Json:
    names: dict[str, int] = {}
    index: dict[int | None, int] = {record.id: i for i, record in enumerate(run.candidates)}
    metrics = sorted({name for record in run.candidates for name in record.metrics})

    def name(text: str) -> int:
        return names.setdefault(text[:_DETAIL_CHARS], len(names))

    columns: Json = {key: [getattr(r, key) for r in run.candidates] for key in ("id", "round", "island")}
    for key in ("origin", "style", "hole", "status", "detail", "diagnosis"):
        columns[key] = [name(getattr(r, key)) for r in run.candidates]
    for key in ("program", "completion"):
        columns[key] = [texts.add(getattr(r, key)) for r in run.candidates]
    return columns | {
        "parent": [index.get(r.parent_id, -1) for r in run.candidates],
        "duplicate": [index.get(r.duplicate_of, -1) for r in run.candidates],
        "evaluations": list(run.census.numbers),
        "copy": [int(r.is_copy) for r in run.candidates],
        "score": [_short(r.score) for r in run.candidates],
        "metricNames": metrics,
        "metrics": [
            [_short(r.metrics.get(m)) for m in metrics] if r.metrics and r.duplicate_of is None else None
            for r in run.candidates
        ],
        "names": list(names),
    }


def _short(value: float | None) -> float | None:
    return None if value is None or not math.isfinite(value) else float(f"{value:.6g}")


def _shown(phase: Mapping[str, Any]) -> Json:
    return {key: value for key, value in phase.items() if key not in ("gate_prompts", "steps")}


def _call(run: RunData, call: Mapping[str, Any]) -> Json:
    phase = next((p for p in run.phases if p["phase"] == call["phase"]), {})
    changed = list(phase.get("changed_controls", ())) if call["role"] == "strategist" else []
    shown = {field: call.get(field) for field in _CALL_FIELDS}
    for field in ("reply", "outcome", "reason"):
        shown[field] = str(shown[field] or "")[:_DETAIL_CHARS]
    return {**shown, "changed": changed}


def _rounds(run: RunData) -> list[Json]:
    """Per round: samples, what came of them, and statuses, summed over the groups of islands; of a long run over
    several rounds each, named by the last."""
    step = every(run.census.rounds)
    rounds: dict[int, Json] = {}
    for unit in run.rounds:
        if unit["round"] == 0:
            continue
        number = min(math.ceil(unit["round"] / step) * step, run.census.rounds)
        total = rounds.setdefault(
            number, {"round": number, "statuses": Counter(), **dict.fromkeys(_COUNTS, 0)}
        )
        for key in _COUNTS:
            total[key] += unit.get(key) or 0
        total["statuses"].update(unit.get("statuses", {}))
    return [rounds[number] for number in sorted(rounds)]
