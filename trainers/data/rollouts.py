"""Sampling: proposals become candidates that are being evaluated while the engine goes on writing.

Exploration stores what comes of them. The probe and the gate's score are measurements: their programs are evaluated
too (known ones are looked up), but they enter no island, no buffer and no pair.
"""

from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import replace

from agents.engines.engine import Completion, Generator, OnCompletion
from agents.population.candidate import CandidateRecord, Proposal
from atlas_gym.evaluation import Evaluation, InfrastructureError
from trainers.data.evaluations import ProgramCache

Pending = tuple[CandidateRecord, "Future[Evaluation] | None"]
"""A candidate, and its evaluation under way; None if the outcome of its program is recorded already."""


def write(
    generator: Callable[[], Generator], proposals: Sequence[Proposal], on_completion: OnCompletion
) -> None:
    """Hand over each completion as it ends; those that need no model (`Proposal.texts`) at once.

    `generator` is asked for only if a model is to write anything.
    """
    asked = [index for index, proposal in enumerate(proposals) if proposal.texts is None]
    for index, proposal in enumerate(proposals):
        for sample, text in enumerate((proposal.texts or ())[: proposal.n]):
            on_completion(index, sample, Completion(text, tokens=0))
    if asked:
        requests = [proposals[index] for index in asked]
        generator().stream(requests, lambda place, *rest: on_completion(asked[place], *rest))


def again(proposal: Proposal, island: int, parent: CandidateRecord) -> Proposal:
    """A proposal that is asked once more, for a measurement: by the model, and as the engine draws tokens."""
    if parent.score is None:
        raise ValueError(f"candidate {parent.id} has no score, so it cannot be a parent")
    return replace(
        proposal, island=island, texts=None, sampling=None, parent_score=parent.score, parent_key=parent.program_key
    )  # fmt: skip


def fresh_samples(
    generator: Generator, cache: ProgramCache, proposals: Sequence[Proposal], n: int, seeds: Sequence[int]
) -> list[list[CandidateRecord]]:
    """Sample and evaluate `n` completions of each proposal, one group a proposal. Always the policy writes.

    A sample that the machine failed to evaluate is left out of its group; `InfrastructureError` if that leaves
    nothing of a group.

    Args:
        generator: the policy to sample from.
        cache: evaluates the programs, each on the task of its proposal's island.
        proposals: what to ask.
        n: completions per proposal.
        seeds: one seed a proposal; equal seeds make two policies comparable (common random numbers).
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


def judged(group: Sequence[Pending], cache: ProgramCache) -> list[CandidateRecord]:
    """The outcomes of a group, waited for; what the machine failed to evaluate is left out.

    Raises:
        InfrastructureError: nothing is left.
    """
    found: list[CandidateRecord] = []
    for place, (candidate, evaluation) in enumerate(group, start=1):
        try:
            known = cache.recorded(candidate.program_key, candidate.island) if evaluation is None else None
            found.append(candidate.judged(known or outcome(evaluation)))
        except InfrastructureError:
            if place == len(group) and not found:
                raise
    return found


def outcome(evaluation: "Future[Evaluation] | None") -> Evaluation:
    """The evaluation, waited for. Raises `InfrastructureError` if the machine failed."""
    if evaluation is None:
        raise RuntimeError("a program was taken for recorded, but there is no record of it")
    return evaluation.result()
