"""Evaluate a program, check, list or serve the environments, examine the machine."""

import argparse
import io
import sys
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import as_completed
from pathlib import Path
from statistics import mean
from typing import Any

from gymnasium.error import DependencyNotInstalled

from atlas_gym._version import __version__
from atlas_gym.arguments import SET, Parser, at_least_one, flush_or_drop, progress
from atlas_gym.cli import doctor
from atlas_gym.cli.check import add_check
from atlas_gym.cli.new_task import add_new_task
from atlas_gym.cli.serve import add_serve
from atlas_gym.envs.episode import feedback_text
from atlas_gym.evaluation import Evaluation, EvaluatorError, EvaluatorPool, Limits
from atlas_gym.evaluation.processes import core_count
from atlas_gym.hidden_streams import SecretError
from atlas_gym.intervals import mean_interval
from atlas_gym.tasks.constants import constants_from
from atlas_gym.tasks.program_task import SPLITS, ProgramTask
from atlas_gym.tasks.registry import make_task, registered_ids

_EXPECTED_ERRORS = (
    *(ValueError, TypeError, OSError, ImportError, NotImplementedError),
    *(EvaluatorError, SecretError, DependencyNotInstalled),
)
"""What a wrong argument or a missing part of the machine raises: worth a line, not a traceback."""

_READ_CHARS = 2**20
"""As much of a file is read. Every task's limit on a program is far below it, and says so."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code: 0 fine, 1 program or machine failed, 2 wrong usage."""
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="replace")  # a terminal that lacks a character shows a question mark
    options = _parser().parse_args(arguments)
    try:
        code = options.command(options)
        if sys.stdout is not None:  # as it is where the shell has closed it (`>&-`)
            sys.stdout.flush()
        return code
    except BrokenPipeError:  # whoever reads the output has read enough
        flush_or_drop()
        return 0
    except _EXPECTED_ERRORS as error:
        print(f"{type(error).__name__}: {error}", file=sys.stderr)
        flush_or_drop()
        return 2


def _parser() -> argparse.ArgumentParser:
    parser = Parser(prog="atlas", description=__doc__)
    parser.add_argument("--version", action="version", version=f"atlas-gym {__version__}")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    _add_evaluate(commands)
    add_check(commands)
    add_new_task(commands)
    about = "list the environments: what programs define, presets and expert programs"
    listing = commands.add_parser("list", help="list the environments", description=about)
    listing.set_defaults(command=_list)
    about = "try to break each layer of the confinement on this machine, and say which held"
    examination = commands.add_parser("doctor", help=about, description=about)
    examination.set_defaults(command=lambda options: doctor.main())
    add_serve(commands)
    return parser


def _add_evaluate(commands: Any) -> None:
    about = "score a program on several tasks: the mean, and its 95 % interval over them; exit code 1: it failed on one"
    evaluate = commands.add_parser("evaluate", help="score a program file", description=about)
    evaluate.add_argument("env_id", help="an id that `list` shows, module:Class or ./file.py:Class")
    evaluate.add_argument(
        "program", type=Path, help="file with the program, or the name of an expert program"
    )
    evaluate.add_argument("--seeds", type=at_least_one, default=16, help="number of tasks (default 16)")
    evaluate.add_argument("--first-seed", type=int, default=0, help="seed of the first task (default 0)")
    evaluate.add_argument("--split", choices=SPLITS, default="train", help="family of tasks (default train)")
    about = "evaluations at a time (default: all cores)"
    evaluate.add_argument("--workers", type=at_least_one, default=core_count(), help=about)
    evaluate.add_argument("--unconfined", action="store_true", help="run the program without confinement")
    evaluate.add_argument("--set", **SET)
    evaluate.set_defaults(command=_evaluate)


def _evaluate(options: argparse.Namespace) -> int:
    task = make_task(options.env_id, **constants_from(options.set))
    program = _program(options.program, task)
    tasks = [task.at(options.first_seed + i, options.split) for i in range(options.seeds)]
    confinement = "unconfined" if options.unconfined else "default"
    with EvaluatorPool(min(options.workers, len(tasks)), confinement=confinement) as pool:
        futures = [pool.submit(program, task) for task in tasks]
        for done, _ in enumerate(as_completed(futures), start=1):
            progress(f"{done} of {len(tasks)} evaluated")
        progress()
        evaluations = [future.result() for future in futures]
    print(f"{options.env_id}  {options.program}  {len(tasks)} seeds of {options.split}")
    print(_report(evaluations, tasks[0].limits))
    return 0 if all(evaluation.ok for evaluation in evaluations) else 1


def _program(path: Path, task: ProgramTask) -> str:
    """The text of a file, or of the expert program of that name."""
    experts = task.programs
    if path.is_file():
        try:
            with path.open(encoding="utf-8-sig") as file:  # editors of Windows begin a text with a mark
                return file.read(_READ_CHARS)
        except UnicodeDecodeError as error:
            raise ValueError(f"{path} is no program: it is not UTF-8 text ({error.reason})") from None
    if str(path) in experts:
        return experts[str(path)].program
    raise ValueError(f"{path} is neither a file nor an expert program; those are {', '.join(experts)}")


def _report(evaluations: Sequence[Evaluation], limits: Limits) -> str:
    counts = Counter(str(evaluation.status) for evaluation in evaluations)
    failed = next((evaluation for evaluation in evaluations if not evaluation.ok), None)
    lines = [("status", ", ".join(f"{status} {count}" for status, count in counts.most_common()))]
    if failed is None:
        lines.append(("score", _shown([e.score for e in evaluations if e.score is not None])))
        lines.append(("normalized", _shown([e.metrics["normalized_score"] for e in evaluations])))
    else:
        lines.append(("score", "none: every seed has to end in ok"))
    wall_s, cpu_s = mean(e.wall_s for e in evaluations), mean(e.cpu_s for e in evaluations)
    lines.append(("time", f"{wall_s:.3f} s wall, {cpu_s:.3f} s CPU per seed"))
    lines.append(("memory", f"{max(e.peak_memory_mb for e in evaluations):.0f} MB at most"))
    lines.append(("layers", ", ".join(evaluations[-1].layers) or "none"))
    lines.append(("feedback", feedback_text(failed or evaluations[-1], limits)))
    return "\n".join(f"{name:<11}{text.replace(chr(10), chr(10) + ' ' * 11)}" for name, text in lines)


def _shown(values: Sequence[float]) -> str:
    interval = mean_interval(values)
    if len(values) == 1:
        return f"{interval.mean:.4f}  (one seed: no interval)"
    return f"{interval.mean:.4f}  95 % interval over seeds [{interval.low:.4f}, {interval.high:.4f}]"


def _list(options: argparse.Namespace) -> int:
    for env_id in registered_ids():
        print(env_id)
        try:
            task = make_task(env_id)
        except (DependencyNotInstalled, ImportError, ValueError) as error:
            print(f"  not usable here: {error}")
            continue
        print(f"  a program defines   {task.signature}")
        print(f"  presets             {', '.join(task.presets)}")
        print(f"  expert programs     {', '.join(task.programs)}")
    return 0
