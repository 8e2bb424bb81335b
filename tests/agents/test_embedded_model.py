"""The one test with real weights: prompt, generation, assembly, and a program that scores."""

import pytest

from agents.generation import Sampling
from agents.model import load_model
from agents.proposals.rewrite import chat_of
from agents.research_agent import ResearchAgent
from agents.transformers_backend import TransformersGenerator
from atlas_gym.evaluation import UnconfinedEvaluator
from atlas_gym.program import program_key
from atlas_gym.spec import make_task, task_spec
from tests.agents.records import record

SMALL = {"horizon": 40, "replicas": 1}


@pytest.fixture(scope="module")
def embedded(embedded_weights):
    return load_model(embedded_weights)


def test_the_embedded_model_writes_programs_that_are_valid_and_new(embedded):
    model, tokenizer = embedded
    assert chat_of(tokenizer) is not None
    spec = task_spec("ATLAS-Bandit-v0", **SMALL)
    start = spec.starts["named"]
    agent = ResearchAgent(spec, seed=3)
    for island in range(2):
        agent.record(record(start, -0.2, island=island, origin="seed"))
    plans = agent.plan(1, range(2), 8)
    generator = TransformersGenerator(model, tokenizer, Sampling(max_new_tokens=24))
    made = {
        plan.proposal.assemble(completion.text)
        for plan, row in zip(plans, generator.generate([plan.request for plan in plans]), strict=True)
        for completion in row
    }
    assert generator.totals.samples == 16
    task = make_task("ATLAS-Bandit-v0", seed=0, **SMALL)
    evaluator = UnconfinedEvaluator()  # works on every system; the programs come from a harmless prompt
    try:
        new = [program for program in made if program_key(program) not in (None, program_key(start))]
        assert any(evaluator.evaluate(program, task).ok for program in new)
    finally:
        evaluator.close()
