"""Evaluations by normalised syntax tree: the same program is never run twice, nor recorded as news twice."""

from concurrent.futures import Future

from agents.candidate import CandidateRecord
from atlas_gym.evaluation import Evaluation, Pool, Task
from atlas_gym.program import program_key


class ProgramCache:
    """Starts evaluations, joins those under way, and knows what is recorded."""

    def __init__(self, evaluator: Pool, task: Task):
        self._evaluator = evaluator
        self._task = task
        self._running: dict[str, Future[Evaluation]] = {}
        self._first: dict[str, CandidateRecord] = {}

    def submit(self, program: str) -> "Future[Evaluation] | None":
        """Start an evaluation, or join one under way; None if the program's outcome is recorded already."""
        key = program_key(program)
        if key is None:
            return self._evaluator.submit(program, self._task)
        if key in self._first:
            return None
        if key not in self._running:
            self._running[key] = self._evaluator.submit(program, self._task)
        return self._running[key]

    def evaluate(self, program: str) -> Evaluation:
        """Evaluate one program and wait for it, whatever is recorded."""
        return self._evaluator.submit(program, self._task).result()

    @property
    def keys(self) -> frozenset[str]:
        """Syntax trees of everything recorded."""
        return frozenset(self._first)

    def recorded(self, key: str | None) -> CandidateRecord | None:
        """The first recorded candidate with this syntax tree."""
        return None if key is None else self._first.get(key)

    def record(self, candidate: CandidateRecord) -> None:
        """Remember a recorded candidate's outcome."""
        if candidate.program_key is not None:
            self._first.setdefault(candidate.program_key, candidate)
            self._running.pop(candidate.program_key, None)
