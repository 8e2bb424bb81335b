"""One episode of the single and of the vector environment: task, turns, incumbent and their texts."""

import operator
import re
from dataclasses import dataclass
from numbers import Integral
from typing import Any, SupportsIndex

from atlas_gym.evaluation.result import Evaluation, Limits, Status
from atlas_gym.program_text import bare
from atlas_gym.tasks.program_task import ProgramTask


@dataclass(frozen=True)
class EpisodeSettings:
    """What an environment fixes for all of its episodes."""

    turns: int = 1
    """Programs per episode; more than one lets a learner revise its program after the feedback."""
    split: str = "train"
    """Family of seeds: `train` or `held_out`."""
    start: str = "named"
    """Key of `ProgramTask.starts`: the program shown before any has been scored."""
    task_seed: int | None = None
    """The task of every episode; by default each episode poses another."""

    def __post_init__(self) -> None:
        if not isinstance(self.turns, Integral) or self.turns < 1:
            raise ValueError(f"turns is {self.turns!r}; it must be a whole number of at least 1")


def plain_seed(seed: SupportsIndex | None) -> int | None:
    """A seed as Gymnasium takes it, whatever kind of integer it was; TypeError for anything else."""
    return None if seed is None else operator.index(seed)


def require_text(action: Any) -> None:
    """Raise TypeError for an action that is no text, which is a mistake of the learner's and not of its program's."""
    if not isinstance(action, str):
        fix = "pass action.decode()" if isinstance(action, bytes) else "for numbers: atlas_gym.wrappers"
        raise TypeError(f"an action is the text of a program, not {type(action).__name__}; {fix}")


class Episode:
    """The course of one episode: `record` every evaluation, read `observation` and `info` after each."""

    def __init__(self, task: ProgramTask, settings: EpisodeSettings, task_seed: int):
        if settings.start not in task.starts:
            raise ValueError(f"start is {settings.start!r}; there are {', '.join(task.starts)}")
        self.settings = settings
        self.task = task.at(task_seed, settings.split)
        self.task_seed = self.task.seed
        self.turn = 0
        self.last: Evaluation | None = None
        self.incumbent: str | None = None
        self.incumbent_score: float | None = None

    @property
    def over(self) -> bool:
        return bool(self.turn >= self.settings.turns)  # not numpy's, which Gymnasium refuses

    def record(self, program: str, evaluation: Evaluation) -> float:
        """Count a turn, keep the program if it is the best so far, and return the reward."""
        self.turn += 1
        self.last = evaluation
        if evaluation.score is None:
            return self.task.worst_score
        if self.incumbent_score is None or evaluation.score > self.incumbent_score:
            self.incumbent, self.incumbent_score = bare(program), evaluation.score
        return evaluation.score

    def observation(self) -> str:
        """The task, the incumbent or a program to start from, and the feedback on the last program."""
        parts = [self.task.description.rstrip(), f"Limits: {limits_text(self.task.limits)}"]
        if (shown := self.incumbent) is None:
            shown = self.task.starts[self.settings.start]
            said = "No program has been scored yet. A valid one to start from"
        else:
            said = f"Best program so far, score {self.incumbent_score:.4f}"
        parts.append(f"{said}:\n{code_block(shown)}")
        if self.last is not None:
            parts.append(f"Feedback on the last program:\n{self.feedback()}")
        return "\n\n".join(parts) + "\n"

    def feedback(self) -> str:
        return feedback_text(self.last, self.task.limits) if self.last is not None else ""

    def info(self) -> dict[str, Any]:
        """The same keys at every reset and step, free of wall-clock times; None where there is no value.

        `status` is one of `Status`, the scores are None unless it is ok, and `metrics` are the task's. `record` says
        whether the score is above 0, which is the best known or perfect.
        """
        metrics = dict(self.last.metrics) if self.last is not None and self.last.ok else {}
        return {
            "status": str(self.last.status) if self.last is not None else None,
            "score": self.last.score if self.last is not None else None,
            "normalized_score": metrics.get("normalized_score"),
            "record": self.last is not None and self.last.score is not None and self.last.score > 0.0,
            "metrics": {name: metrics.get(name) for name in self.task.metric_names},
            "feedback": self.feedback(),
            "incumbent": self.incumbent,
            "incumbent_score": self.incumbent_score,
            "task_seed": self.task_seed,
            "turn": self.turn,
        }


_ADVICE = {
    Status.INVALID: "The program could not be loaded.",
    Status.ERROR: "The program raised an error, or gave an answer that cannot be used.",
    Status.TIMEOUT: "The program was stopped: it took too long. Do less work per call.",
    Status.MEMORY: "The program was stopped: it used too much memory. All its runs share one process.",
    Status.VIOLATION: "The program was stopped: it tried what is forbidden (files, network, processes).",
    Status.CRASHED: "The program's process ended before the evaluation did.",
}


def limits_text(limits: Limits) -> str:
    return (
        f"{limits.wall_s:g} s of wall-clock time, {limits.cpu_s:g} s of CPU time and {limits.memory_mb} MB "
        f"of memory for the whole evaluation; {limits.source_chars} characters of source."
    )


def feedback_text(evaluation: Evaluation, limits: Limits) -> str:
    """A program's score and where it lost, or why it failed (sanitised by the evaluator) and the limits."""
    if evaluation.ok:
        normalized = evaluation.metrics.get("normalized_score")
        scale = "" if normalized is None else f" (normalized {normalized:.3f})"
        headline = f"Status: ok. Score {evaluation.score:.4f}{scale}."
        return f"{headline}\n{evaluation.diagnosis}".rstrip()
    lines = [f"Status: {evaluation.status}. {_ADVICE[evaluation.status]}"]
    if evaluation.detail:
        lines.append(evaluation.detail)
    lines.append(f"Limits: {limits_text(limits)}")
    return "\n".join(lines)


def code_block(program: str) -> str:
    """A program fenced for a prompt, with more backticks than it holds in a row."""
    longest = max(map(len, re.findall("`+", program)), default=0)
    fence = "`" * max(3, longest + 1)
    return f"{fence}python\n{program.rstrip()}\n{fence}"
