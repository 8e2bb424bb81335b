"""Evaluations by normalised syntax tree: the same program is never run twice, nor recorded as news twice.

A run may pose several instances of its task, dealt to the islands in turn; a program is another on each. In memory
are fingerprints and ids; what came of a program is read from the run store when it is met again.
"""

from collections.abc import Sequence, Set
from concurrent.futures import Future

from agents.population.candidate import CandidateRecord
from atlas_gym.evaluation import Evaluation, InfrastructureError, Pool, Task
from atlas_gym.program_text import program_key
from trainers.store.protocol import Store


class ProgramCache:
    """Starts evaluations, joins those under way, and knows what is recorded.

    Args:
        evaluator: runs programs.
        tasks: what they are scored on: one task, or several that the islands have in turn.
        store: holds every candidate before it is recorded here.
    """

    def __init__(self, evaluator: Pool, tasks: Sequence[Task], store: Store):
        self._evaluator = evaluator
        self._store = store
        self.change_tasks(tasks)

    def change_tasks(self, tasks: Sequence[Task]) -> None:
        """Score on other tasks from now on: nothing that is recorded says anything of them."""
        self._tasks = list(tasks)
        self._running: list[dict[str, Future[Evaluation]]] = [{} for _ in tasks]
        self._first: list[dict[str, int]] = [{} for _ in tasks]

    def submit(self, program: str, island: int = 0) -> "Future[Evaluation] | None":
        """Start an evaluation, or join one under way; None if the program's outcome is recorded already."""
        key, running = program_key(program), self._running[self.instance(island)]
        if key is None:
            return self._start(program, island)
        if key in self.keys(island):
            return None
        if key not in running or _spoiled(running[key]):
            running[key] = self._start(program, island)
        return running[key]

    def evaluate(self, program: str, island: int = 0) -> Evaluation:
        """Evaluate one program and wait for it, whatever is recorded."""
        return self._start(program, island).result()

    def keys(self, island: int = 0) -> Set[str]:
        """Syntax trees of everything recorded on an island's task; a view that keeps up with the run."""
        return self._first[self.instance(island)].keys()

    def recorded(self, key: str | None, island: int = 0) -> CandidateRecord | None:
        """The first candidate with this syntax tree that is recorded on an island's task."""
        first = None if key is None else self._first[self.instance(island)].get(key)
        return None if first is None else self._store.candidate(first)

    def record(self, candidate: CandidateRecord) -> None:
        """Remember a recorded candidate's outcome."""
        if candidate.program_key is not None:
            instance = self.instance(candidate.island)
            self._first[instance].setdefault(candidate.program_key, candidate.id)
            self._running[instance].pop(candidate.program_key, None)

    def instance(self, island: int) -> int:
        """The number of the task that an island's programs are scored on."""
        return island % len(self._tasks)

    def _start(self, program: str, island: int) -> "Future[Evaluation]":
        return self._evaluator.submit(program, self._tasks[self.instance(island)])


def _spoiled(evaluation: "Future[Evaluation]") -> bool:
    """Whether the machine failed: another attempt is worth while."""
    return evaluation.done() and isinstance(evaluation.exception(), InfrastructureError)
