"""One count for all learners of the leaderboard: candidates, programs evaluated, tokens, seconds, the best so far.

A candidate is a text that was asked of a model, or a program that a rule or an optimiser proposed, whatever becomes of
it. Learners of this process hold a `Ledger`; those of another process reach it through the `referee`; a run of this
package keeps its own books, and its `Outcome` is read off them (`own_runs`).
"""

import contextlib
import threading
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from atlas_gym import ProgramTask, make_task
from atlas_gym.evaluation import Evaluation, EvaluatorPool, Limits
from atlas_gym.program_text import program_key


@dataclass(frozen=True)
class Trial:
    """One row of the leaderboard to be done."""

    env_id: str
    """The environment."""
    seed: int
    """Seed of the search, and of the training task: the same for all learners."""
    budget: int
    """Candidates that may be asked for."""
    tokens: int | None = None
    """Tokens of the model's after which nothing more may be asked for; None: any number."""
    seconds: float | None = None
    """The same for wall-clock time."""
    folder: Path = Path("runs/leaderboard/trial")
    """Where the learner may leave files."""
    model_url: str | None = None
    """Address of an OpenAI-compatible server for other projects' learners, up to and including the version; None: the
    embedded model is served for each row."""
    environments: Path = Path("runs/peers")
    """Where other projects' environments are."""
    constants: Mapping[str, Any] = field(default_factory=dict)
    """The environment's own keywords, the same for all learners."""

    def task(self) -> ProgramTask:
        """The training task."""
        return make_task(self.env_id, seed=self.seed, **self.constants)

    @property
    def limits(self) -> str:
        """The budget in words."""
        said = [f"{self.budget} candidates"]
        said += [] if self.tokens is None else [f"{self.tokens} tokens"]
        said += [] if self.seconds is None else [f"{self.seconds:g} seconds"]
        return " or ".join(said)

    def is_spent(self, candidates: int, tokens: int, seconds: float) -> bool:
        """Whether any of the limits is reached."""
        limits = ((candidates, self.budget), (tokens, self.tokens), (seconds, self.seconds))
        return any(limit is not None and used >= limit for used, limit in limits)

    @property
    def start(self) -> str:
        """The program that everybody starts from."""
        return make_task(self.env_id, **self.constants).starts["named"]


@dataclass(frozen=True)
class Point:
    """The best score so far, and what it had taken."""

    candidates: int
    """Candidates."""
    tokens: int
    """Tokens written by the model."""
    seconds: float
    """Wall-clock time."""
    best: float
    """Highest score on the training task; the start's at first."""


@dataclass(frozen=True)
class Outcome:
    """What a learner submits, and what it took."""

    program: str
    """The best program."""
    score: float
    """Its score on the training task."""
    candidates: int
    """Candidates asked for."""
    evaluated: int
    """Programs evaluated, other than the start. The rest of the candidates were lost: no program could be read off
    them, or none that the learner thought worth evaluating."""
    statuses: Mapping[str, int]
    """How the evaluations ended; whatever is not `ok` was refused a score."""
    tokens: int
    """Tokens that the model wrote."""
    prompt_tokens: int
    """Tokens that it was given; 0 where they were not counted."""
    curve: tuple[Point, ...]
    """The best score over candidates, tokens and seconds."""


class BudgetSpent(Exception):
    """Nothing more may be asked for."""


class Ledger:
    """Scores programs on a task and counts; a context manager, which a spent budget leaves without an error.

    Threads may share it.

    Args:
        trial: the task, and how many candidates may be asked for.
        workers: evaluations at a time.
    """

    def __init__(self, trial: Trial, workers: int = 1) -> None:
        self.trial, self.task, self.start = trial, trial.task(), trial.start
        self.candidates = self.under_way = 0
        self.tokens = self.prompt_tokens = 0
        self.statuses: Counter[str] = Counter()
        """How the programs' evaluations ended."""
        self.best = (self.start, float("-inf"))
        """A program and its score."""
        self.curve: list[Point] = []
        """A point per improvement."""
        self._start_key = program_key(self.start)
        self._lock = threading.Lock()
        self._pool = EvaluatorPool(workers)
        self._began = time.perf_counter()

    @property
    def seconds(self) -> float:
        """Wall-clock time since the beginning."""
        return time.perf_counter() - self._began

    @property
    def spent(self) -> bool:
        """Whether nothing more may be asked for."""
        return self.trial.is_spent(self.candidates, self.tokens, self.seconds)

    def ask(self) -> bool:
        """Count a candidate; False, and nothing counted, if the budget is spent."""
        with self._lock:
            if self.spent:
                return False
            self.candidates += 1
            return True

    def take_back(self) -> None:
        """A candidate that the machine, not the model, failed to answer was not asked for."""
        with self._lock:
            self.candidates -= 1

    def written(self, tokens: int, prompt_tokens: int = 0) -> None:
        """Count what a model wrote and read."""
        with self._lock:
            self.tokens += tokens
            self.prompt_tokens += prompt_tokens

    def score(self, program: str) -> Evaluation:
        """Evaluate a candidate. The starting program, which every learner evaluates once, is not counted."""
        with self.working():
            evaluation = self._pool.evaluate(program, self.task)
        self.note(program, evaluation)
        return evaluation

    @contextlib.contextmanager
    def working(self) -> Iterator[None]:
        """Something that was asked for is under way: an answer or an evaluation."""
        with self._lock:
            self.under_way += 1
        try:
            yield
        finally:
            with self._lock:
                self.under_way -= 1

    def note(self, program: str, evaluation: Evaluation) -> None:
        """Count what became of a program that was evaluated, here or elsewhere, on the ledger's task."""
        counts = program_key(program) != self._start_key
        with self._lock:
            if counts:
                self.statuses[str(evaluation.status)] += 1
            if evaluation.score is not None and evaluation.score > self.best[1]:
                self.best = (program, evaluation.score)
                self.curve.append(self.point())

    def propose(self, program: str) -> float:
        """Ask for a candidate that is a program already: its score, the worst score if it failed.

        Raises:
            BudgetSpent: it may not be asked for.
        """
        if not self.ask():
            raise BudgetSpent(self.trial.limits)
        score = self.score(program).score
        return self.task.worst_score if score is None else score

    def outcome(self) -> Outcome:
        """What has come of it so far."""
        return Outcome(
            *self.best, self.candidates, self.statuses.total(), dict(self.statuses), self.tokens, self.prompt_tokens,
            (*self.curve, self.point()),
        )  # fmt: skip

    def point(self) -> Point:
        """Where things stand."""
        return Point(self.candidates, self.tokens, round(self.seconds, 2), self.best[1])

    def __enter__(self) -> "Ledger":
        self._began = time.perf_counter()
        self.score(self.start)
        return self

    def __exit__(self, kind: type[BaseException] | None, *exc_info: object) -> bool:
        self._pool.close()
        return kind is BudgetSpent


def patient(limits: Limits) -> Limits:
    """Ten times the wall-clock time: how busy the machine is must not decide between programs. Their CPU time is
    limited as ever."""
    return replace(limits, wall_s=10 * limits.wall_s)


def confirm(env_id: str, program: str, seeds: int, constants: Mapping[str, Any] | None = None) -> list[float]:
    """Scores of a program on the first held-out tasks; a failure counts as the worst score."""
    family = make_task(env_id, **(constants or {}))
    family = replace(family, limits=patient(family.limits))
    tasks = [family.at(seed, "held_out") for seed in range(seeds)]
    with EvaluatorPool(workers=2) as pool:
        evaluations = pool.evaluate_all([program] * seeds, tasks)
    return [family.worst_score if e.score is None else e.score for e in evaluations]
