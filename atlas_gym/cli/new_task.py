"""`python -m atlas_gym new-task NAME`: a working task in a file, and its test beside it."""

import argparse
import keyword
import re
from importlib.util import find_spec
from pathlib import Path
from string import Template
from typing import Any

_TASK = Template('''\
"""$words, begun from an example task: predict the next number of a noisy series.

Make it yours at the lines marked `# yours`, then run `atlas check` on this file.
"""

import numpy as np

import atlas_gym


def moving_average(past):  # yours: a program to start from, which defines what is called and what it returns
    """The mean of the last few numbers."""
    window = 8
    return float(np.mean(past[-window:]))


def smoothed(past):  # yours: a better one, if you know one
    """Exponential smoothing."""
    weights = 0.6 ** np.arange(len(past))[::-1]
    return float(weights @ past / weights.sum())


class $class_name(atlas_gym.ProgramTask, id="$class_name-v0"):
    """Predict the next number of a series that wanders and is noisy.

    past: float64 array of the numbers so far, at least one.
    Returns the next number.

    The score is minus the mean distance to it: higher is better, 0 is perfect."""

    # yours: the docstring, which is what programs are told
    function = "predict"
    start = moving_average
    experts = (smoothed,)
    floor = -3.0  # yours: what a program that fails is worth

    length: int = 200

    def instances(self, rng):  # yours: what is hidden, drawn from `rng` alone
        for _ in range(5):
            wanders = np.cumsum(0.3 * rng.standard_normal(self.length))
            yield wanders + 0.5 * rng.standard_normal(self.length)

    def score(self, program, series):  # yours: `program` is called, and its answer read as .number(), .array() …
        guesses = [program(series[:t]).number() for t in range(1, len(series))]
        return -float(np.abs(np.array(guesses) - series[1:]).mean())
''')

_TEST = Template('''\
"""The task is sound; run with `python -m pytest`."""

from atlas_gym.cli.check import findings
from atlas_gym.evaluation import ConfinedEvaluator
from $module import $class_name


def test_nothing_is_wrong_with_the_task():
    with ConfinedEvaluator() as evaluator:
        wrong = [f.text for f in findings($class_name(), evaluator, seeds=1) if f.verdict == "wrong"]
    assert wrong == []
''')


def add_new_task(commands: Any) -> None:
    about = "write a working task and its test, to be changed into yours"
    parser = commands.add_parser("new-task", help=about, description=about)
    parser.add_argument("name", help="such as my_task")
    parser.add_argument("--folder", type=Path, default=Path(), help="where the files go (default: here)")
    parser.set_defaults(command=_new_task)


def _new_task(options: argparse.Namespace) -> int:
    file, test = write_task(options.name, options.folder)
    print(f"wrote {file} and {test}: a task that works, predicting the next number of a noisy series")
    print(f"next: make it yours at the lines marked `# yours`, and then: atlas check {file}")
    return 0


def write_task(name: str, folder: Path) -> tuple[Path, Path]:
    """Write a task's file and its test.

    Raises:
        ValueError: If the name is none for a module, or that of one there is.
        FileExistsError: If one of the files is there.
    """
    module = re.sub(r"[^a-z0-9]+", "_", re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).lower()).strip("_")
    if not module.isidentifier():
        raise ValueError(f"{name!r} cannot name a module; begin it with a letter")
    names = {
        "module": module,
        "class_name": "".join(part.capitalize() for part in module.split("_")),
        "words": module.replace("_", " ").capitalize(),
    }
    file, test = folder / f"{module}.py", folder / f"test_{module}.py"
    for path in (file, test):
        if path.exists():
            raise FileExistsError(f"{path} is there already")
    if keyword.iskeyword(module) or find_spec(module) is not None:  # the file would hide what others import
        raise ValueError(f"Python has a {module} already; give the task another name")
    folder.mkdir(parents=True, exist_ok=True)
    file.write_text(_TASK.substitute(names), encoding="utf-8")
    test.write_text(_TEST.substitute(names), encoding="utf-8")
    return file, test
