"""A run on the terminal: its progress, its summary, and what is said if it ends early."""

import os
import shlex
import signal
import sys
import warnings
from contextlib import closing, suppress
from functools import partial
from pathlib import Path

from rich.console import Console
from rich.markup import escape
from transformers.utils import logging as transformers_logging

from atlas_gym.agents.engines.engine import EngineError
from atlas_gym.agents.models.adapters import AdapterError
from atlas_gym.agents.models.loading import ModelMissing
from atlas_gym.agents.models.memory import MemoryFull
from atlas_gym.agents.research_agent import NothingToEdit
from atlas_gym.evaluation import EvaluatorError, InfrastructureError
from atlas_gym.experiments.cli.summary import print_summary, write_files
from atlas_gym.experiments.loggers.console import LiveView
from atlas_gym.experiments.loggers.wandb import WandbObserver
from atlas_gym.experiments.report.data import BY_HAND, read_run
from atlas_gym.text import clean
from atlas_gym.trainers.dpo.launch import LaunchError
from atlas_gym.trainers.loop.atlas import AtlasRun
from atlas_gym.trainers.loop.beginning import require_beginning
from atlas_gym.trainers.loop.config import RunConfig
from atlas_gym.trainers.loop.control import controls, open_control
from atlas_gym.trainers.store.plain import SettingsError
from atlas_gym.trainers.store.store import RunStore, StoreError

EXIT_USAGE, EXIT_INTERRUPTED = 2, 130


def begin(config: RunConfig, folder: Path) -> int:
    """Begin the run, or continue it; returns the exit code (0 done, 1 failed, 2 no such model, 130 interrupted)."""
    # An agent, a lost line and Slurm stop a run as Ctrl-C does.
    for stop in (signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1):
        if signal.getsignal(stop) != signal.SIG_IGN:  # as under nohup
            signal.signal(stop, signal.default_int_handler)
    # Progress bars of loading, advertisements and notices to authors are not for whoever watches a run.
    os.environ.setdefault("WANDB_SILENT", "true")
    transformers_logging.disable_progress_bar()
    warnings.filterwarnings("ignore", category=FutureWarning, module="transformers")
    console = Console()
    if not console.is_terminal:  # a file has no width; 80 would break every line
        console = Console(width=120)
    errors = Console(stderr=True, soft_wrap=True)
    try:
        return _run(config, folder, console)
    except (SettingsError, ModelMissing, NothingToEdit) as error:
        _say_error(errors, error)
        return EXIT_USAGE
    except (StoreError, AdapterError, EvaluatorError, LaunchError) as error:
        _say_error(errors, error)
    except OSError as error:  # a full disk under the report, a folder that was taken away
        _say_error(errors, f"{error}\nWhat was stored is not lost: put it right and add --resume.")
    return 1


def _say_error(console: Console, error: object) -> None:
    console.print(
        f"[bold red]Error:[/bold red] {escape(clean(str(error), 5000))}", highlight=False, soft_wrap=True
    )


def _run(config: RunConfig, folder: Path, console: Console) -> int:
    where = escape(str(folder))
    console.print(f"[bold]{config.name}[/bold] in {where}: rounds {config.rounds}, phases {config.phases}")
    with RunStore(folder) as store:
        if store.round_summary(0) is not None and not (folder / "config.yaml").exists():
            raise StoreError(
                f"{folder} holds a run whose config.yaml is gone: add --resume, which writes it again if it can, or "
                "name another one with --folder."
            )
        require_beginning(config, store)
        view = LiveView(config.rounds, config.phases, console)
        warn = partial(console.print, style="yellow", markup=False)
        tracker = WandbObserver(
            store, config, warn, partial(console.print, style="dim", markup=False, soft_wrap=True)
        )
        with closing(tracker):
            try:
                with view, AtlasRun(config, store, (view, tracker)) as run:
                    summary = run.run()
                    _score_by_hand(run)
                beside = list(controls(run.config, store))
                for number, (name, own) in enumerate(beside, start=1):
                    console.print(f"\n[bold]Control {number} of {len(beside)}: {name}[/bold]")
                    view = LiveView(own.rounds, 0, console)
                    with open_control(store, name) as kept, view, AtlasRun(own, kept, (view,)) as control:
                        control.run()
            except (EngineError, MemoryFull, KeyboardInterrupt) as error:
                interrupted = isinstance(error, KeyboardInterrupt)
                if not interrupted:
                    _say_error(console, error)
                _say_how_to_go_on(folder, console)
                return EXIT_INTERRUPTED if interrupted else 1
            done = read_run(folder)
            files = write_files(done, summary, warn)
            tracker.attach(files)
            print_summary(done, summary, console)
        console.print(f"\nIn {where}: run.sqlite, config.yaml, " + ", ".join(path.name for path in files))
    return 0


def _score_by_hand(run: AtlasRun) -> None:
    """Store what the best of the task's experts scores on each instance, which the report draws a line at."""
    if run.store.get_meta(BY_HAND) is None:
        run.tell("stage", "scoring what is known by hand")
        pending = [
            [
                run.pool.submit(expert.program, task)
                for name, expert in task.programs.items()
                if name != task.initial
            ]
            for task in run.tasks.tasks()
        ]
        with suppress(InfrastructureError):  # the picture lacks a line then
            scores = [[future.result().score for future in own] for own in pending]
            best = [max((score for score in own if score is not None), default=None) for own in scores]
            run.store.set_meta(BY_HAND, [] if None in best else best)


def _say_how_to_go_on(folder: Path, console: Console) -> None:
    """The command that continues the run, in the words of the one that began it."""
    if not (folder / "config.yaml").exists():
        return  # it has not begun
    console.print("\nStopped; nothing that was stored is lost. Continue with:")
    by_module = f"{Path(sys.executable).name} -m atlas_gym.experiments.run --resume --folder"
    words = "atlas resume" if Path(sys.argv[0]).name == "atlas" else by_module
    # To be copied: no line breaks in it.
    console.print(f"  {words} {shlex.quote(str(folder))}", soft_wrap=True, markup=False)
