"""The environment's own picture of a run's first and best program, made when the report is made.

The run store keeps scores, not trajectories, so both programs are evaluated once more, confined as ever,
on the run's own training task. Where that is not possible (another machine without the confinement, a
program that now fails, no torch) the report carries a sentence instead of a picture.
"""

import base64
import io
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from matplotlib.image import imsave

from agents.population.candidate import CandidateRecord
from atlas_gym import make_task
from atlas_gym.evaluation import ConfinedEvaluator, ConfinementError, EvaluatorError, Task
from experiments.report.data import RunData


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
    try:
        return _draw(run, named)
    except (ConfinementError, EvaluatorError, ImportError, ValueError, TypeError) as error:
        # The run may come from another machine or version; the rest of the report does not depend on this
        # one.
        return [Picture("The environment's picture", "", f"Not drawn: {error}")]


def _draw(run: RunData, named: Sequence[tuple[str, CandidateRecord]]) -> list[Picture]:
    env, arguments = str(run.setting("env", "")), dict(run.setting("env_args") or {})
    task = _patient(make_task(env, seed=int(run.setting("seed", 0)), **arguments))
    problem = make_task(env, **arguments)
    evaluator = ConfinedEvaluator()
    try:
        evaluations = [(title, evaluator.evaluate(record.program, task)) for title, record in named]
    finally:
        evaluator.close()
    return [
        Picture(
            title,
            encode_png(problem.image(evaluation)) if evaluation.ok else "",
            evaluation.diagnosis
            if evaluation.ok
            else f"Not drawn: evaluated again it ended in {evaluation.status}.",
        )
        for title, evaluation in evaluations
    ]


def _patient(task: Task) -> Task:
    # The programs have passed already: on a machine that is busy with a run they may take longer to be looked at.
    limits = task.limits
    return replace(task, limits=replace(limits, wall_s=6 * limits.wall_s, cpu_s=3 * limits.cpu_s))  # type: ignore


def encode_png(image: np.ndarray) -> str:
    """An image, uint8 (height, width, 3), as base64 text."""
    buffer = io.BytesIO()
    imsave(buffer, image, format="png")
    return base64.b64encode(buffer.getvalue()).decode("ascii")
