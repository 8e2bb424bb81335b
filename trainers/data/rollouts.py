"""Sampling: proposals become candidates that are being evaluated while the engine goes on writing.

The same program is never run twice, nor recorded as news twice (`ProgramCache`). A run may pose several instances of
its task, dealt to the islands in turn; a program is another on each.

Exploration stores what comes of its candidates. The exam and the gate's score are measurements: their programs are
evaluated too (known ones are looked up), but they enter no island, no buffer and no pair.
"""

from collections.abc import Callable, Sequence, Set
from concurrent.futures import Future
from dataclasses import replace

from atlas_gym.agents.engines.engine import Completion, Engine, OnCompletion
from atlas_gym.agents.population.candidate import Candidate, Proposal
from atlas_gym.evaluation import Evaluation, InfrastructureError, Pool
from atlas_gym.program_text import program_key
from atlas_gym.tasks.program_task import ProgramTask
from atlas_gym.trainers.store.store import RunStore

Pending = tuple[Candidate, "Future[Evaluation] | None"]
"""A candidate, and its evaluation under way; None if the outcome of its program is recorded already."""


class ProgramCache:
    """Starts evaluations, joins those under way, and knows what is recorded, by normalised syntax tree.

    In memory are fingerprints and ids; what came of a program is read from the run store when it is met again, which
    holds every candidate before it is recorded here. `tasks`: one, or several that the islands have in turn.
    """

    def __init__(self, evaluator: Pool, tasks: Sequence[ProgramTask], store: RunStore):
        self._evaluator = evaluator
        self._store = store
        self._tasks = list(tasks)
        self._smoke_tasks = [task.smoke() for task in tasks]
        self._smoked: list[dict[str, Future[Evaluation]]] = [{} for _ in tasks]
        self._running: list[dict[str, Future[Evaluation]]] = [{} for _ in tasks]
        self._first: list[dict[str, int]] = [{} for _ in tasks]

    def submit(self, program: str, island: int = 0) -> "Future[Evaluation] | None":
        """Start an evaluation, or join one under way; None if the program's outcome is recorded already."""
        key, running = program_key(program), self._running[self.instance(island)]
        if key is None:
            return self._start(program, island)
        if key in self.keys(island):
            return None
        known = running.get(key)
        lost = known and known.done() and isinstance(known.exception(), InfrastructureError)
        if known is None or lost:
            known = running[key] = self._start(program, island)
        return known

    def smoke(self, program: str, island: int = 0) -> "Future[Evaluation]":
        """Start a program's smoke run, or join the one under way or done."""
        instance = self.instance(island)
        smoked = self._smoked[instance]
        if program not in smoked:
            smoked[program] = self._evaluator.submit(program, self._smoke_tasks[instance])
        return smoked[program]

    def forget_smoke_runs(self) -> None:
        """Let go of their outcomes, which nobody asks for in another round."""
        self._smoked = [{} for _ in self._tasks]

    def evaluate(self, program: str, island: int = 0) -> Evaluation:
        """Evaluate one program and wait for it, whatever is recorded."""
        return self._start(program, island).result()

    def keys(self, island: int = 0) -> Set[str]:
        """Syntax trees of everything recorded on an island's task; a view that keeps up with the run."""
        return self._first[self.instance(island)].keys()

    def recorded(self, key: str | None, island: int = 0) -> Candidate | None:
        """The first candidate with this syntax tree that is recorded on an island's task."""
        first = None if key is None else self._first[self.instance(island)].get(key)
        return None if first is None else self._store.candidate(first)

    def record(self, candidate: Candidate) -> None:
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


def write_at_once(proposals: Sequence[Proposal], on_completion: OnCompletion) -> None:
    """Hand over the completions that need no model (`Proposal.texts`)."""
    for index, proposal in enumerate(proposals):
        for sample, text in enumerate((proposal.texts or ())[: proposal.n]):
            on_completion(index, sample, Completion(text, tokens=0))


def write(
    generator: Callable[[], Engine], proposals: Sequence[Proposal], on_completion: OnCompletion
) -> None:
    """Hand over each completion that the model writes as it ends; without one no engine is asked for."""
    asked = [index for index, proposal in enumerate(proposals) if proposal.texts is None]
    if asked:
        requests = [proposals[index] for index in asked]
        generator().stream(requests, lambda place, *rest: on_completion(asked[place], *rest))


def again(proposal: Proposal, island: int, parent: Candidate) -> Proposal:
    """A proposal that is asked once more, for a measurement, by the model."""
    return replace(
        proposal, island=island, texts=None, parent_score=parent.value, parent_key=parent.program_key
    )


def fresh_samples(
    generator: Engine, cache: ProgramCache, proposals: Sequence[Proposal], n: int, seeds: Sequence[int]
) -> list[list[Candidate]]:
    """Sample and evaluate `n` completions of each proposal, one group a proposal, each on its island's task.

    Equal `seeds`, one a proposal, make two policies comparable (common random numbers). A sample that the machine
    failed to evaluate is left out of its group; `InfrastructureError` if that leaves nothing of a group.
    """
    pending: dict[tuple[int, int], Pending] = {}

    def submit(request: int, sample: int, completion: Completion) -> None:
        candidate = proposals[request].candidate(-1, -1, completion.text)
        pending[request, sample] = candidate, cache.submit(candidate.program, candidate.island)

    requests = [
        replace(proposal, n=n, seed=seed, island=-1) for proposal, seed in zip(proposals, seeds, strict=True)
    ]
    generator.stream(requests, submit)
    return [judged([pending[i, j] for j in range(n)], cache) for i in range(len(proposals))]


def judged(group: Sequence[Pending], cache: ProgramCache) -> list[Candidate]:
    """The outcomes of a group, waited for, without what the machine failed to evaluate; `InfrastructureError` if
    nothing is left."""
    found: list[Candidate] = []
    for place, (candidate, evaluation) in enumerate(group, start=1):
        try:
            if evaluation is not None:
                found.append(candidate.judged(evaluation.result()))
            elif known := cache.recorded(candidate.program_key, candidate.island):
                found.append(candidate.judged(known, known.id))
        except InfrastructureError:
            if place == len(group) and not found:
                raise
    return found
