"""Run a W&B sweep file on this machine, without a server: `python -m experiments.studies.sweep FILE`.

Stopped or killed, the same command continues it. The runs are ordinary run folders; `python -m experiments.report`
compares them, and `wandb sync` sends their offline records.
"""

import argparse
import csv
import sys
from pathlib import Path

import yaml
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from experiments.spreadsheets import harmless
from experiments.studies.command import expand
from experiments.studies.parameters import SweepError
from experiments.studies.scheduler import SweepRunner, best_run
from experiments.studies.state import SweepRun
from experiments.studies.sweep_file import Sweep, load_sweep
from trainers.store.store import StoreError

EXIT_USAGE, EXIT_INTERRUPTED = 2, 130


def main(arguments: list[str] | None = None) -> int:
    """Run or continue a sweep; returns the exit code (0 done, 1 no run succeeded, 2 asked wrongly, 130 interrupted)."""
    options = _parser().parse_args(arguments)
    console = Console(soft_wrap=True)
    try:
        sweep = load_sweep(options.file)
        expand(sweep, {})
        folder = options.folder or Path("runs") / f"sweep-{sweep.name}"
        runner = SweepRunner(
            sweep, folder, seed=options.seed, workers=options.workers, poll_s=options.poll,
            tell=lambda text: console.print(text, highlight=False, markup=False),
        )  # fmt: skip
        try:
            runs = runner.run()
        except KeyboardInterrupt:
            console.print("Stopped; the same command continues this sweep.")
            return EXIT_INTERRUPTED
    except (SweepError, StoreError) as error:
        print(f"Error: {error}", file=sys.stderr)
        return EXIT_USAGE
    return _conclude(sweep, runs, folder, console)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m experiments.studies.sweep", description=__doc__)
    parser.add_argument("file", type=Path, help="sweep file in W&B's format")
    parser.add_argument("--folder", type=Path, help="the sweep's folder; default: runs/sweep-NAME")
    parser.add_argument(
        "--workers", type=int, default=1, help="runs at a time (each takes its own processes and threads)"
    )
    parser.add_argument("--seed", type=int, default=0, help="seed of the search (not of the runs)")
    parser.add_argument("--poll", type=float, default=1.0, help="seconds between two looks at the runs")
    return parser


def _conclude(sweep: Sweep, runs: list[SweepRun], folder: Path, console: Console) -> int:
    _write_csv(sweep, runs, folder / "results.csv")
    best = best_run(runs, sweep.maximize)
    console.print(_table(sweep, runs, best))
    if best is None:
        console.print("No run succeeded; see the .log files in the sweep's folder.")
        return 1
    text = yaml.safe_dump(
        {"run": best.number, sweep.metric: best.value, "parameters": dict(best.parameters)}, sort_keys=False
    )
    (folder / "best.yaml").write_text(text, encoding="utf-8")
    settings = " ".join(f"{name}={value}" for name, value in best.parameters.items())
    console.print(
        f"Best: run {best.number:03d}, {sweep.metric} = {best.value:.5g} with {settings}",
        highlight=False,
        markup=False,
    )
    return 0


def _table(sweep: Sweep, runs: list[SweepRun], best: SweepRun | None) -> Table:
    table = Table(title=f"Sweep {sweep.name} ({sweep.method})")
    for heading in ("run", *sweep.parameters, "state", "iterations", sweep.metric):
        table.add_column(heading, justify="right")
    for run in runs:
        cells = _cells(sweep, run)
        table.add_row(
            *(escape(str(cell)) for cell in cells),
            style="bold green" if best is not None and run.number == best.number else None,
        )
    return table


def _cells(sweep: Sweep, run: SweepRun) -> list:
    value = "–" if run.value is None else f"{run.value:.6g}"
    drawn = [
        f"{v:.4g}" if isinstance(v, float) else v for v in (run.parameters[name] for name in sweep.parameters)
    ]
    return [f"{run.number:03d}", *drawn, run.state, len(run.history), value]


def _write_csv(sweep: Sweep, runs: list[SweepRun], path: Path) -> None:
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(["run", *sweep.parameters, "state", "iterations", sweep.metric, "note"])
        for run in runs:
            values = [harmless(run.parameters[name]) for name in sweep.parameters]
            writer.writerow([run.number, *values, run.state, len(run.history), run.value, harmless(run.note)])


if __name__ == "__main__":
    sys.exit(main())
