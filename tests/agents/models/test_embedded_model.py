"""The one test with real weights: prompt, generation, assembly, and a program that scores."""

import pytest

from atlas_gym import make_task
from atlas_gym.agents.engines.engine import Sampling
from atlas_gym.agents.engines.hf_transformers import TransformersEngine
from atlas_gym.agents.models.loading import load_model
from atlas_gym.agents.population.candidate import Proposal
from atlas_gym.agents.proposals.edit_line import EditLine
from atlas_gym.agents.proposals.rewrite import chat_of
from atlas_gym.agents.proposals.style import Showing
from atlas_gym.evaluation import UnconfinedEvaluator
from atlas_gym.program_text import program_key
from tests.agents.records import record

SMALL = {"horizon": 40, "replicas": 1}


@pytest.fixture(scope="module")
def embedded(embedded_weights):
    return load_model(embedded_weights)


def test_the_embedded_model_writes_programs_that_are_valid_and_new(embedded):
    model, tokenizer = embedded
    assert chat_of(tokenizer) is not None
    spec = make_task("ATLAS-Bandit-v0", **SMALL)
    start = record(spec.starts["named"], -0.2)
    style = EditLine(spec.function)
    # Every line once: processors round bfloat16 differently, and with few lines one of them may draw no valid edit.
    proposals = [style.propose(start, site, Showing()) for site in style.sites(start.program)]
    requests = [
        Proposal(proposal.prompt, 4, avoid=proposal.avoid, seed=index)
        for index, proposal in enumerate(proposals)
    ]
    generator = TransformersEngine(model, tokenizer, Sampling(max_new_tokens=24))
    made = {
        proposal.assemble(completion.text)
        for proposal, row in zip(proposals, generator.generate(requests), strict=True)
        for completion in row
    }
    task = make_task("ATLAS-Bandit-v0", seed=0, **SMALL)
    evaluator = UnconfinedEvaluator()  # works on every system; the programs come from a harmless prompt
    try:
        new = [program for program in made if program_key(program) not in (None, start.program_key)]
        assert sum(evaluator.evaluate(program, task).ok for program in new) >= 3
    finally:
        evaluator.close()
