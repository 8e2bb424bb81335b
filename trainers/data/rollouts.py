"""Fresh samples of a policy on given prompts: what the probe and the gate's score are made of.

They are measurements, not exploration: the programs are evaluated (known ones are looked up), but they enter no
island, no buffer and no pair.
"""

from collections.abc import Sequence
from concurrent.futures import Future
from dataclasses import dataclass, replace

from agents.engines.engine import Completion, GenerationRequest, Generator
from agents.population.candidate import CandidateRecord
from agents.proposals import Proposal
from agents.research_agent import IslandPlan
from atlas_gym.evaluation import Evaluation, InfrastructureError
from atlas_gym.program_text import program_key
from trainers.data.evaluations import ProgramCache


def plan_of(island: int, proposal: Proposal, parent: CandidateRecord) -> IslandPlan:
    """A plan that asks a proposal again; sample count and seed are set where it is asked."""
    request = GenerationRequest(proposal.prompt, 1, avoid=proposal.avoid, stop=proposal.stop)
    if parent.score is None:
        raise ValueError(f"candidate {parent.id} has no score, so it cannot be a parent")
    return IslandPlan(island, proposal, request, parent.score, parent.program_key)


@dataclass(frozen=True)
class _Sample:
    program: str
    key: str | None
    completion: Completion
    future: "Future[Evaluation] | None"


def fresh_samples(
    generator: Generator, cache: ProgramCache, plans: Sequence[IslandPlan], n: int, seeds: Sequence[int]
) -> list[list[CandidateRecord]]:
    """Sample and evaluate `n` completions of each plan's prompt, one group a prompt.

    A sample that the machine failed to evaluate is left out of its group; `InfrastructureError` if that leaves
    nothing of a group.

    Args:
        generator: the policy to sample from.
        cache: evaluates the programs.
        plans: what to ask; only prompt and assembly are used.
        n: completions per prompt.
        seeds: one seed a prompt; equal seeds make two policies comparable (common random numbers).
    """
    samples: dict[tuple[int, int], _Sample] = {}

    def submit(request: int, index: int, completion: Completion) -> None:
        program = plans[request].proposal.assemble(completion.text)
        samples[request, index] = _Sample(program, program_key(program), completion, cache.submit(program))

    requests = [replace(plan.request, n=n, seed=seed) for plan, seed in zip(plans, seeds, strict=True)]
    generator.stream(requests, submit)
    return [_records(plan, [samples[i, j] for j in range(n)], cache) for i, plan in enumerate(plans)]


def _records(plan: IslandPlan, samples: Sequence[_Sample], cache: ProgramCache) -> list[CandidateRecord]:
    records: list[CandidateRecord] = []
    for sample in samples:
        try:
            records.append(_record(plan, sample, cache))
        except InfrastructureError:
            if sample is samples[-1] and not records:
                raise
    return records


def _record(plan: IslandPlan, sample: _Sample, cache: ProgramCache) -> CandidateRecord:
    outcome = cache.recorded(sample.key) if sample.future is None else sample.future.result()
    assert outcome is not None  # no future means that the cache has the record
    return CandidateRecord(
        id=-1, round=-1, island=plan.island, origin="agent", style=plan.proposal.style, hole=plan.proposal.hole,
        parent_id=plan.proposal.parent_id, prompt=plan.proposal.prompt, completion=sample.completion.text,
        program=sample.program, program_key=sample.key, status=str(outcome.status), score=outcome.score,
        detail=outcome.detail, metrics=dict(outcome.metrics), parent_score=plan.parent_score,
        is_copy=sample.key == plan.parent_key, diagnosis=outcome.diagnosis,
    )  # fmt: skip
