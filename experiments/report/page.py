"""The page: everything a report shows, put into the template."""

import base64
import difflib
import hashlib
import os
from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from importlib.resources import files
from pathlib import Path
from typing import Any

from jinja2 import Environment, StrictUndefined
from markupsafe import Markup

from atlas_gym import yaml_text
from atlas_gym.agents.population.candidate import Candidate
from atlas_gym.arguments import progress
from atlas_gym.experiments.report import tables
from atlas_gym.experiments.report.comparison import group_runs
from atlas_gym.experiments.report.data import RunData, intelligible, read_run
from atlas_gym.experiments.report.figures import (
    as_png,
    draw_comparison,
    draw_learning,
    draw_scores,
    score_limits,
)
from atlas_gym.experiments.report.words import counted, exam_table, said
from atlas_gym.text import clean
from atlas_gym.trainers.store.folder import write_anew
from atlas_gym.trainers.store.rows import StoreError

TEXT_CHARS, PROGRAM_LINES = 50_000, 1_000
"""Bounds of what is shown: longer texts and programs are of use to nobody, and slow to compare."""


def write_report(folders: Sequence[Path], output: Path | None = None) -> Path:
    """Write the page of one run folder or several; returns its path, by default `report.html` in the folder, of several
    `report/report.html` beside the first. Raises `StoreError` if a folder holds no run, or a damaged one, `OSError` if
    the page cannot be written; half a page is never left."""
    runs = []
    for number, folder in enumerate(folders):
        progress(f"reading {number + 1} of {len(folders)}")
        runs.append(read_run(folder))
    names = [run.name for run in runs]  # told apart, where two are equal, by the folders above
    for number, run in enumerate(runs):
        if names.count(run.name) > 1:
            runs[number] = replace(run, name=f"{run.folder.resolve().parent.name}/{run.name}")
    with intelligible(f"What {' and '.join(map(str, folders))} holds cannot be shown"):
        page = render(runs)
    progress()
    first = Path(folders[0]).resolve()
    if output is None and len(runs) > 1:
        first = first.parent / "report"
        if first.is_symlink():  # a stranger's, as the runs may be
            raise StoreError(f"{first} is a link to {os.readlink(first)!r}: name the page with --output.")
    output = output or first / "report.html"
    output.parent.mkdir(parents=True, exist_ok=True)
    return write_anew(output, page)


def render(runs: Sequence[RunData]) -> str:
    """The page as text."""
    assets = files(__package__)
    style = (assets / "report.css").read_text(encoding="utf-8")
    digest = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
    # Whatever else got onto the page could neither run nor fetch anything.
    policy = (
        f"default-src 'none'; style-src 'sha256-{digest}'; img-src data:; base-uri 'none'; form-action 'none'"
    )
    environment = Environment(
        autoescape=True, trim_blocks=True, lstrip_blocks=True, undefined=StrictUndefined, finalize=_shown
    )
    groups = group_runs(runs)
    several = len(runs) > 1
    return environment.from_string((assets / "page.html").read_text(encoding="utf-8")).render(
        policy=policy,
        style=Markup(style),
        title=f"{len(runs)} runs" if several else runs[0].name,
        made=datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"),
        comparison=as_png(draw_comparison(groups)) if several else "",
        scores=tables.score_table(groups),
        runs=[_run(run, score_limits(own for own in runs if _task(own) == _task(run))) for run in runs],
    )


def _shown(value: object) -> object:
    """A value as the template shows it: what cannot be seen is marked, a dash stands for nothing."""
    if isinstance(value, Markup):
        return value
    return "–" if value is None or value == "" else clean(str(value), TEXT_CHARS)


def _task(run: RunData) -> tuple[Any, ...]:
    """What runs have in common whose scores can be compared."""
    return tuple(run.setting(key) for key in ("env", "env_args", "instances"))


def _run(run: RunData, limits: tuple[float, float] | None) -> dict[str, Any]:
    progress(f"{run.name}: pictures and tables")
    learning = draw_learning(run)
    return {
        "name": run.name,
        "env": run.setting("env"), "method": run.setting("method"), "seed": run.setting("seed"),
        "state": f"Complete: {run.last_round} rounds." if run.confirmed else
                 f"In progress: round {run.last_round} of {run.setting('rounds')}; nothing is confirmed yet.",
        "counted": counted(run),
        "promoted": sum(bool(phase["promoted"]) for phase in run.tuned_phases),
        "tuned": len(run.tuned_phases),
        "scores": as_png(draw_scores(run, limits=limits)) if run.curve else "",
        "learning": as_png(learning) if learning else "",
        "words": said(run).splitlines(),
        "exam": exam_table(run),
        "programs": [_program(run, record) for record in run.top],
        "phases": tables.phase_table(run),
        "decisions": [_decision(phase) for phase in run.phases],
        "callers": tables.caller_table(run),
        "calls": [call for call in run.supporter_calls if call.get("reply") is not None],
        "authors": tables.author_table(run),
        "failures": tables.failure_table(run),
        "config": yaml_text.dump(dict(run.config)),
    }  # fmt: skip


def _program(run: RunData, record: Candidate) -> dict[str, Any]:
    instance = record.island % run.instances
    start = next((first for first, _ in run.ends if first.island % run.instances == instance), record)
    return {
        "record": record,
        "score": f"{record.score:.4f}",
        "start": f"{start.score:.4f}",
        "held_out": tables.mean_error(run.held_out_scores(record)),
        "gap": run.held_out_gap(record),
        "diff": list(diff(start.program, record.program)),
    }


def diff(before: str, after: str) -> Iterator[tuple[str, str]]:
    """(kind, line) of a unified diff of two programs; kinds are `added`, `removed`, `same` and `place`."""
    kinds = {"+": "added", "-": "removed", "@": "place"}
    old, new = (text[:TEXT_CHARS].split("\n")[:PROGRAM_LINES] for text in (before, after))
    for number, line in enumerate(difflib.unified_diff(old, new, lineterm="")):
        if number > 1:  # behind the names of the two files
            yield kinds.get(line[:1], "same"), line


def _decision(phase: Any) -> dict[str, Any]:
    skipped, decision = phase.get("skipped"), phase.get("decision")
    reason = decision["reason"] if decision else "the reference rule decides without a gate"
    word = "skipped" if skipped else "promoted" if phase["promoted"] else "kept"
    shown = {"phase": phase["phase"], "round": phase["round"], "warnings": phase.get("warnings", ())}
    return {**shown, "word": word, "reason": skipped or reason.removeprefix(f"{word}: ")}
