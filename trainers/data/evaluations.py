"""Evaluations by normalised syntax tree: the same program is never run twice, nor recorded as news twice.

In memory are fingerprints and ids; what came of a program is read from the run store when it is met again.
"""

from collections.abc import Set
from concurrent.futures import Future

from agents.population.candidate import CandidateRecord
from atlas_gym.evaluation import Evaluation, InfrastructureError, Pool, Task
from atlas_gym.program_text import program_key
from trainers.store.protocol import Store


class ProgramCache:
    """Starts evaluations, joins those under way, and knows what is recorded.

    Args:
        evaluator: runs programs.
        task: what they are scored on.
        store: holds every candidate before it is recorded here.
    """

    def __init__(self, evaluator: Pool, task: Task, store: Store):
        self._evaluator = evaluator
        self._task = task
        self._store = store
        self._running: dict[str, Future[Evaluation]] = {}
        self._first: dict[str, int] = {}

    def change_task(self, task: Task) -> None:
        """Score on another task from now on: nothing that is recorded says anything of it."""
        self._task = task
        self._running.clear()
        self._first.clear()

    def submit(self, program: str) -> "Future[Evaluation] | None":
        """Start an evaluation, or join one under way; None if the program's outcome is recorded already."""
        key = program_key(program)
        if key is None:
            return self._evaluator.submit(program, self._task)
        if key in self._first:
            return None
        if key not in self._running or _spoiled(self._running[key]):
            self._running[key] = self._evaluator.submit(program, self._task)
        return self._running[key]

    def evaluate(self, program: str) -> Evaluation:
        """Evaluate one program and wait for it, whatever is recorded."""
        return self._evaluator.submit(program, self._task).result()

    @property
    def keys(self) -> Set[str]:
        """Syntax trees of everything recorded; a view that keeps up with the run."""
        return self._first.keys()

    def recorded(self, key: str | None) -> CandidateRecord | None:
        """The first recorded candidate with this syntax tree."""
        first = None if key is None else self._first.get(key)
        return None if first is None else self._store.candidate(first)

    def record(self, candidate: CandidateRecord) -> None:
        """Remember a recorded candidate's outcome."""
        if candidate.program_key is not None:
            self._first.setdefault(candidate.program_key, candidate.id)
            self._running.pop(candidate.program_key, None)


def _spoiled(evaluation: "Future[Evaluation]") -> bool:
    """Whether the machine failed: another attempt is worth while."""
    return evaluation.done() and isinstance(evaluation.exception(), InfrastructureError)
