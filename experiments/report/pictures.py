"""The environment's own picture of a run's first and best program, made when the report is made.

The run store keeps scores, not trajectories, so both programs are evaluated once more, confined as ever,
on the run's own training task (of several in turn: the first), in a process of its own: the settings may be a
stranger's. Where that is not possible (another machine without the confinement, a program that now fails, no
torch, a task that takes more memory than a picture is worth) the report carries a sentence instead of a picture.
"""

import base64
import io
import json
import resource
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import cloudpickle
import numpy as np
from matplotlib.image import imsave

from atlas_gym.evaluation import ConfinedEvaluator, EvaluatorError
from atlas_gym.evaluation.safe_start import safe_command, safe_environment
from atlas_gym.experiments.report.data import RunData
from atlas_gym.tasks.program_task import ProgramTask
from atlas_gym.tasks.registry import find_task
from atlas_gym.trainers.loop.tasks import instance_seed

_DEADLINE_S = 900.0
_MEMORY_BYTES = 4 * 2**30
"""What drawing may take: a stranger's settings may pose a task of any size."""


@dataclass(frozen=True)
class Picture:
    """One program as its environment draws it."""

    title: str
    """Which program."""
    png: str
    """PNG, base64; empty if there is none."""
    text: str
    """The environment's diagnosis, or why there is no picture."""


def draw_pictures(run: RunData) -> list[Picture]:
    """Pictures of the initial and the best program, or one without image that says why there are none."""
    if run.initial is None or run.best is None:
        return [Picture("The environment's picture", "", "No program has been scored yet.")]
    named = [("Initial program", run.initial)]
    if run.best.program_key != run.initial.program_key:
        named.append((f"Best program (candidate {run.best.id})", run.best))
    if run.setting("drift"):
        named = [(f"{title}, on the first of the run's tasks", record) for title, record in named]
    try:  # a stranger's run may name any module: nothing is imported for its sake
        kind = find_task(str(run.setting("env", "")), importing=False)
    except ValueError as error:
        return _none(error)
    job = {
        "kind": base64.b64encode(cloudpickle.dumps(kind)).decode("ascii"),
        "seed": run.setting("seed", 0),
        "number": run.best.island % run.census.instances,
        "env_args": run.setting("env_args") or {},
        "instances": run.setting("instances") or [],
        "programs": {title: record.program for title, record in named},
    }
    command = safe_command("atlas_gym.experiments.report.pictures")
    try:
        done = subprocess.run(
            command, input=json.dumps(job, default=str), env=safe_environment(), timeout=_DEADLINE_S,
            capture_output=True, text=True,
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        return _none(f"it would take longer than {_DEADLINE_S / 60:g} minutes")
    if done.returncode != 0:
        return _none((done.stderr.strip().splitlines() or ["the process that drew it has died"])[-1])
    return [Picture(**picture) for picture in json.loads(done.stdout)]


def _none(reason: object) -> list[Picture]:
    return [Picture("The environment's picture", "", f"Not drawn: {reason}")]


def main() -> None:
    """Draw what standard input asks for, within bounded memory, and print the pictures; both in JSON."""
    resource.setrlimit(resource.RLIMIT_DATA, (_MEMORY_BYTES, _MEMORY_BYTES))
    try:
        pictures = _draw(**json.load(sys.stdin))
    except (EvaluatorError, ImportError, LookupError, ValueError, TypeError, MemoryError) as error:
        # The run may come from another machine or version; the rest of the report does not depend on this one.
        pictures = _none(error)
    print(json.dumps([asdict(picture) for picture in pictures]))


def _draw(
    kind: str,
    seed: Any,
    number: int,
    env_args: Mapping[str, Any],
    instances: Sequence[Mapping[str, Any]],
    programs: Mapping[str, str],
) -> list[Picture]:
    own = instances[number]["env_args"] if instances else {}
    posed: ProgramTask = cloudpickle.loads(base64.b64decode(kind)).from_keywords(**{**env_args, **own})
    task = _patient(posed.at(instance_seed(int(seed), number)))
    with ConfinedEvaluator() as evaluator:
        evaluations = {title: evaluator.evaluate(program, task) for title, program in programs.items()}
    return [
        Picture(title, encode_png(posed.image(evaluation)), evaluation.diagnosis)
        if evaluation.ok
        else Picture(title, "", f"Not drawn: evaluated again it ended in {evaluation.status}.")
        for title, evaluation in evaluations.items()
    ]


def _patient(task: ProgramTask) -> ProgramTask:
    # The programs have passed already: on a machine that is busy with a run they may take longer to be looked at.
    limits = task.limits
    return replace(task, limits=replace(limits, wall_s=6 * limits.wall_s, cpu_s=3 * limits.cpu_s))


def encode_png(image: np.ndarray) -> str:
    """An image, uint8 (height, width, 3), as base64 text."""
    buffer = io.BytesIO()
    imsave(buffer, image, format="png")
    return base64.b64encode(buffer.getvalue()).decode("ascii")


if __name__ == "__main__":
    main()
