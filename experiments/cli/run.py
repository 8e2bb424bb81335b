"""The main job from the command line: `python -m experiments.run --config experiments/configs/default.yaml`.

Everything that decides a run is in its configuration; the command line only lays single values on top
(`--method evotune --seed 3 phase.beta=0.2`). The run's folder remembers the result, so `--resume` needs nothing
but the folder.
"""

import argparse
import os
import shlex
import signal
import sys
import warnings
from pathlib import Path

# Evaluators share the cores with torch: OpenMP threads that spin while they wait would slow both down many times
# over. The library reads this once, when torch is first imported.
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")

from rich.console import Console
from rich.markup import escape
from transformers.utils import logging as transformers_logging

from agents.engines.engine import BackendError
from agents.models.adapters import AdapterError
from agents.models.loading import ModelMissing
from atlas_gym.evaluation import EvaluatorError
from experiments.cli.dry_run import show_plan
from experiments.cli.summary import print_summary, write_files
from experiments.loggers.console import LiveView
from experiments.loggers.wandb import WandbObserver
from experiments.report.write import write_report
from experiments.shipped import find
from trainers.evodpo.launch import LaunchError
from trainers.loop.atlas import AtlasRun
from trainers.loop.config import METHODS, RunConfig, load_config, without_budgets
from trainers.loop.schedule import TaskSchedule
from trainers.store.plain import SettingsError, differences, merge, parse_overrides
from trainers.store.store import RunStore, StoreError

EXIT_USAGE, EXIT_INTERRUPTED = 2, 130


def main(arguments: list[str] | None = None) -> int:
    """Run or resume; returns the exit code (0 done, 1 failed, 2 asked wrongly, 130 interrupted)."""
    options = _parser().parse_intermixed_args(arguments)
    options.folder = options.folder or _folder_of_sweep()
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # stopped by an agent: as gently as by Ctrl-C
    _quiet_libraries()
    console = Console()
    if not console.is_terminal:
        console = Console(width=120)  # a log file has no width; 80 would break every line
    errors = Console(stderr=True, soft_wrap=True)
    try:
        config, folder = _resolve(options)
        if options.dry_run:
            show_plan(config, console)
            return 0
        _require_own_folder(options, config, folder)
        return _run(config, folder, console)
    except (SettingsError, ModelMissing) as error:
        _say_error(errors, error)
        return EXIT_USAGE
    except (StoreError, AdapterError, EvaluatorError, LaunchError) as error:
        _say_error(errors, error)
        return 1
    except OSError as error:  # a full disk under the report, a folder that was taken away
        _say_error(errors, f"{error}\nWhat was stored is not lost: put it right and add --resume.")
        return 1


def _say_error(console: Console, error: object) -> None:
    console.print(f"[bold red]Error:[/bold red] {escape(str(error))}", highlight=False, soft_wrap=True)


def _quiet_libraries() -> None:
    """Progress bars of loading, advertisements and notices to authors are not for whoever watches a run."""
    os.environ.setdefault("WANDB_SILENT", "true")
    transformers_logging.disable_progress_bar()
    warnings.filterwarnings("ignore", category=FutureWarning, module="transformers")


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="atlas run", description=__doc__)
    parser.add_argument(
        "--config",
        help="a configuration file (YAML), or the name of one that comes with the package: default",
    )
    parser.add_argument("--folder", type=Path, help="run folder; default: runs/ENV-METHOD-START-sSEED")
    parser.add_argument("--resume", action="store_true", help="continue the run in --folder")
    parser.add_argument(
        "--resume-if-exists", action="store_true", help="continue it if there is one, else begin"
    )
    parser.add_argument(
        "--dry-run",
        action="store_true",
        help="print what would be done and what it would cost, and do nothing",
    )
    parser.add_argument("--method", choices=sorted(METHODS), help="what learns, and how")
    parser.add_argument("--env", help="environment id")
    parser.add_argument("--seed", type=int, help="seed of everything")
    parser.add_argument("--model", help="embedded, a Hugging Face id or a local folder")
    parser.add_argument("--rounds", type=int, help="exploration rounds")
    parser.add_argument(
        "--evaluator", choices=("pool", "ray"), help="evaluate on this machine or on a Ray cluster"
    )
    parser.add_argument(
        "override", nargs="*", metavar="KEY=VALUE", help="any other setting, e.g. phase.beta=0.2"
    )
    return parser


def _folder_of_sweep() -> Path | None:
    """Where a run of a sweep lies: the runs of one sweep differ in settings that a folder's name does not show."""
    if folder := os.environ.get("ATLAS_RUN_FOLDER"):
        return Path(folder)
    if sweep := os.environ.get("WANDB_SWEEP_ID"):
        return Path("runs") / f"sweep-{sweep}" / os.environ["WANDB_RUN_ID"]
    return None


def _resolve(options: argparse.Namespace) -> tuple[RunConfig, Path]:
    asked = {
        name: value
        for name in ("method", "env", "seed", "model", "rounds", "evaluator")
        if (value := getattr(options, name)) is not None
    }
    asked = merge(asked, parse_overrides(options.override))
    stored = options.folder / "config.yaml" if options.folder else None
    if stored is not None and not stored.exists():
        stored = None
    if options.resume and stored is None:
        raise SettingsError("--resume needs --folder with a run in it (a config.yaml)")
    given = find("configs", options.config) if options.config else stored
    config = load_config(given, asked)  # what is not said anew is as the stored run has it
    TaskSchedule(config)  # refuses what the environment does not know, before anything is written
    return config, options.folder or Path("runs") / config.name


def _require_own_folder(options: argparse.Namespace, config: RunConfig, folder: Path) -> None:
    """A folder holds one run, and a run keeps its settings."""
    if not (folder / "config.yaml").exists():
        return
    if not (options.resume or options.resume_if_exists):
        raise SettingsError(
            f"{folder} holds a run already: add --folder {folder} --resume to continue it, or name another --folder"
        )
    if changes := differences(
        without_budgets(load_config(folder / "config.yaml", {})), without_budgets(config)
    ):
        raise SettingsError(
            f"{folder} was begun with other settings ({changes}); a run keeps its own. Name another --folder"
        )


def _run(config: RunConfig, folder: Path, console: Console) -> int:
    where = escape(str(folder))
    console.print(f"[bold]{config.name}[/bold] in {where}: rounds {config.rounds}, phases {config.phases}")
    with RunStore(folder) as store:
        view = LiveView(config.rounds, config.phases, config.exploration.groups, console)
        tracker = WandbObserver(
            store,
            config,
            warn=lambda text: console.print(text, style="yellow", markup=False),
            tell=lambda text: console.print(text, style="dim", markup=False, soft_wrap=True),
        )
        try:
            with view, AtlasRun(config, store, (view, tracker)) as run:
                summary = run.run()
        except (KeyboardInterrupt, BackendError) as stopped:
            tracker.close()
            return _conclude_early(stopped, folder, console)
        files = [*write_files(store, summary), *_write_report(folder, console)]
        tracker.attach(files)
        print_summary(store, summary, console)
        tracker.close()
        console.print(f"\nIn {where}: run.sqlite, config.yaml, " + ", ".join(path.name for path in files))
    return 0


def _conclude_early(stopped: BaseException, folder: Path, console: Console) -> int:
    failed = isinstance(stopped, BackendError)
    if failed:
        _say_error(console, stopped)
    if (folder / "config.yaml").exists():  # else it has not begun
        program, quoted = Path(sys.executable).name, shlex.quote(str(folder))
        console.print("\nStopped; nothing that was stored is lost. Continue with:")
        # To be copied: no line breaks in it.
        console.print(
            f"  {program} -m experiments.run --folder {quoted} --resume", soft_wrap=True, markup=False
        )
    return 1 if failed else EXIT_INTERRUPTED


def _write_report(folder: Path, console: Console) -> list[Path]:
    try:
        return write_report([folder], folder / "report.html")[:1]
    except Exception as error:  # noqa: BLE001  the run is complete; its report can be made again at any time
        text = f"No report: {error}. Try atlas report {folder}"
        console.print(text, style="yellow", markup=False)
        return []


if __name__ == "__main__":
    sys.exit(main())
