"""Run a W&B sweep file on this machine, without a server: `atlas sweep FILE`.

Stopped or killed, the same command continues it. The runs are ordinary run folders; `atlas report` compares them, and
`wandb sync` sends their offline records.
"""

import argparse
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pandas as pd
import yaml
from optuna.trial import Trial, TrialState
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from atlas_gym.arguments import Parser, at_least_one, seconds
from atlas_gym.experiments.report.table_formats import write_csv
from atlas_gym.experiments.shipped import find
from atlas_gym.experiments.studies.scheduler import Job, do_jobs
from atlas_gym.experiments.studies.search import RunWatch, Search
from atlas_gym.experiments.studies.sweep_file import environment, expand, load_sweep
from atlas_gym.trainers.store.plain import SettingsError
from atlas_gym.trainers.store.store import StoreError

EXIT_USAGE, EXIT_INTERRUPTED = 2, 130
HOPELESS = 3
"""After so many failures and no success the fault is in the command, not in a configuration."""
STATES = {"RUNNING": "running", "COMPLETE": "finished", "PRUNED": "stopped", "FAIL": "failed"}
"""Optuna's words and ours."""


def main(arguments: list[str] | None = None) -> int:
    """Run or continue a sweep; returns the exit code (0 done, 1 no run succeeded, 2 asked wrongly, 130 interrupted)."""
    options = _parser().parse_args(arguments)
    console = Console(soft_wrap=True)
    try:
        sweep = load_sweep(find("sweeps", options.file))
        expand(sweep, {})
        folder = options.folder or Path("runs") / f"sweep-{sweep.name}"
        search = Search(sweep, folder, options.seed)
        try:
            tell = partial(console.print, highlight=False, markup=False)
            run_sweep(search, folder, workers=options.workers, poll_s=options.poll, tell=tell)
        except KeyboardInterrupt:
            console.print("Stopped; the same command continues this sweep.")
            return EXIT_INTERRUPTED
        finally:
            search.close()
    except (SettingsError, StoreError) as error:
        print(f"Error: {error}", file=sys.stderr)
        return EXIT_USAGE
    return _conclude(search, folder, console)


def _parser() -> argparse.ArgumentParser:
    parser = Parser(prog="atlas sweep", description=__doc__)
    parser.add_argument(
        "file", help="a sweep file in W&B's format, or the name of one that comes with the package"
    )
    parser.add_argument("--folder", type=Path, help="the sweep's folder; default: runs/sweep-NAME")
    parser.add_argument(
        "--workers",
        type=at_least_one,
        default=1,
        help="runs at a time (each takes its own processes and threads)",
    )
    parser.add_argument("--seed", type=int, default=0, help="seed of the search (not of the runs)")
    parser.add_argument("--poll", type=seconds, default=1.0, help="seconds between two looks at the runs")
    return parser


def run_sweep(
    search: Search, folder: Path, *, workers: int, tell: Callable[[str], None], poll_s: float = 1.0
) -> None:
    """Go on until the sweep is complete, those runs first that were under way when it was killed.

    Args:
        search: the sweep's search.
        folder: the sweep's folder; runs go below it.
        workers: runs at a time.
        tell: called with one line whenever something happens.
        poll_s: seconds between two looks at the runs.
    """
    interrupted = search.interrupted()
    watches: dict[str, RunWatch] = {}

    def ask() -> Job | None:
        failed = len(search.trials(TrialState.FAIL))
        if failed >= HOPELESS and not search.trials(TrialState.COMPLETE, TrialState.PRUNED):
            tell(f"{failed} runs have failed and none has succeeded: the sweep ends here.")
            return None
        trial = interrupted.pop(0) if interrupted else search.next()
        if trial is None:
            return None
        job = _job(search, trial, folder)
        watches[job.folder.name] = RunWatch(trial, job.folder, search.sweep)
        settings = search.settings(trial)
        tell(f"{job.folder.name} starts: " + ", ".join(f"{key}={value}" for key, value in settings.items()))
        return job

    def ended(job: Job, code: int, stopped: bool) -> None:
        told = _told(search, watches.pop(job.folder.name), code, stopped, job.log)
        tell(f"{job.folder.name} {told}")

    def is_hopeless(job: Job) -> bool:
        return watches[job.folder.name].is_hopeless()

    do_jobs(ask, ended, workers=workers, poll_s=poll_s, is_hopeless=is_hopeless)


def _job(search: Search, trial: Trial, folder: Path) -> Job:
    name = f"{search.sweep.name}-{trial.number:03d}"
    parameters = search.settings(trial)
    file = folder / f"{name}.parameters.yaml"
    variables = environment(search.sweep.name, name, folder / name, parameters, file)
    return Job(folder / name, expand(search.sweep, parameters), variables, folder / f"{name}.log")


def _told(search: Search, watch: RunWatch, code: int, stopped: bool, log: Path) -> str:
    """Tell the search what a run came to; returns it in words."""
    trial, value, metric = watch.trial, watch.value(), search.sweep.metric.name
    if code == 0 and value is not None:
        search.study.tell(trial, value)
        return f"finished, {metric} = {value:.5g}"
    if stopped and code != 0:
        state, note = TrialState.PRUNED, f"cut short after {watch.rounds} iterations"
    else:
        lines = log.read_text(encoding="utf-8", errors="replace").strip().splitlines() or [""]
        state = TrialState.FAIL
        note = f"exit code {code}: {lines[-1][:300]}" if code else f"it ended without {metric}"
    trial.set_user_attr("note", note)
    search.study.tell(trial, state=state)
    return f"{STATES[state.name]}; {note}"


def results(search: Search) -> pd.DataFrame:
    """A row a run, indexed by its number: its parameters, state, iterations and metric, and a note."""
    rows = {
        trial.number: {
            **search.settings(trial),
            "state": STATES[trial.state.name],
            "iterations": len(trial.intermediate_values),
            search.sweep.metric.name: trial.value if trial.state == TrialState.COMPLETE else None,
            "note": trial.user_attrs.get("note", ""),
        }
        for trial in search.trials()
    }
    return pd.DataFrame.from_dict(rows, orient="index").rename_axis("run")


def _conclude(search: Search, folder: Path, console: Console) -> int:
    found, best, metric = results(search), search.best(), search.sweep.metric.name
    write_csv(found, folder / "results.csv", index=True)
    console.print(_table(search, found, None if best is None else best.number))
    if best is None:
        console.print("No run succeeded; see the .log files in the sweep's folder.")
        return 1
    parameters = search.settings(best)
    text = yaml.safe_dump({"run": best.number, metric: best.value, "parameters": parameters}, sort_keys=False)
    (folder / "best.yaml").write_text(text, encoding="utf-8")
    settings = " ".join(f"{name}={value}" for name, value in parameters.items())
    line = f"Best: run {best.number:03d}, {metric} = {best.value:.5g} with {settings}"
    console.print(line, highlight=False, markup=False)
    return 0


def _table(search: Search, found: pd.DataFrame, best: int | None) -> Table:
    constant = [
        n for n in search.sweep.distributions if len(found) > 1 and found[n].astype(str).nunique() == 1
    ]
    columns = list(found.columns.drop([*constant, "note"]))
    table = Table(title=f"Sweep {search.sweep.name} ({search.sweep.method})")
    for heading in ("run", *columns):
        table.add_column(heading, justify="right")
    for number, row in found[columns].iterrows():
        cells = ["–" if v != v else f"{v:.5g}" if isinstance(v, float) else str(v) for v in row]
        table.add_row(f"{number:03d}", *map(escape, cells), style="bold green" if number == best else None)
    return table


if __name__ == "__main__":
    sys.exit(main())
