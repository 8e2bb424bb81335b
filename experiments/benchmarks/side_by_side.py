"""What the benchmarks share: contenders that take turns, tables of them, and other projects to compare with."""

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas as pd
from rich.console import Console
from rich.table import Table

from atlas_gym.evaluation import ConfinedEvaluator, Evaluation, Task


def take_turns(contenders: Mapping[str, Callable[[], float]], repeats: int) -> pd.DataFrame:
    """What each contender returns, a column each and a row a round: a busy machine then disturbs all alike.

    A first round, which warms up, is left out.
    """
    rounds = [{name: run() for name, run in contenders.items()} for _ in range(repeats + 1)]
    return pd.DataFrame(rounds[1:])


def scored(evaluator: ConfinedEvaluator, program: str, task: Task) -> Evaluation:
    """An evaluation of a program that works; RuntimeError if it fails."""
    evaluation = evaluator.evaluate(program, task)
    if evaluation.score is None:
        raise RuntimeError(f"the benchmark's program failed: {evaluation.status}: {evaluation.detail}")
    return evaluation


def confined_cpu(evaluator: ConfinedEvaluator, program: str, task: Task) -> float:
    """CPU seconds of a whole evaluation, of this process and the worker; RuntimeError if the program fails."""
    began = time.process_time()
    evaluation = scored(evaluator, program, task)
    return time.process_time() - began + evaluation.cpu_s


def spread(values: pd.Series, form: str = ".2f") -> str:
    """Median and range."""
    return f"{values.median():{form}} ({values.min():{form}} to {values.max():{form}})"


def show(title: str, frame: pd.DataFrame) -> None:
    """Print a frame of texts, its index first."""
    table = Table("", *map(str, frame.columns), title=title, title_justify="left")
    for name, row in frame.iterrows():
        table.add_row(str(name), *map(str, row))
    Console(width=120).print(table)


def in_own_process(
    module: str, contender: str, python: str = sys.executable, also: Sequence[str] = (),
    environment: Mapping[str, str] = {},
) -> dict[str, Any]:  # fmt: skip
    """Run a benchmark's module as one of its contenders, with this process's arguments and those of `also`; what it
    prints last is JSON. Ends this process if that fails."""
    command = [python, "-m", module, *sys.argv[1:], *also, "--contender", contender]
    own = {**os.environ, "HF_HUB_OFFLINE": "1", **environment}
    done = subprocess.run(command, capture_output=True, text=True, env=own, check=False)
    if done.returncode:
        sys.exit(f"{contender} failed:\n{done.stderr[-3000:]}")
    return json.loads(done.stdout.splitlines()[-1])


def install_into(folder: Path, name: str, requirements: Sequence[str]) -> bool:
    """Install requirements from PyPI, without their dependencies; False, with the reason printed, if that fails."""
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--target", str(folder)]
    done = subprocess.run([*command, *requirements], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        print(f"{name} is left out, it could not be installed: {done.stderr.strip()[-300:]}")
    return done.returncode == 0
