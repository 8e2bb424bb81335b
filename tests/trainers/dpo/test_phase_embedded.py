"""The real thing, once and small: bfloat16 weights of the embedded model, float32 adapters."""

import math
from dataclasses import replace

import pytest
import torch

from atlas_gym.agents.models.policy import POLICY, REFERENCE, Policy
from atlas_gym.experiments.benchmarks.generation import make_pairs
from atlas_gym.trainers.dpo.phase import run_phase
from atlas_gym.trainers.dpo.settings import GateSettings, PhaseSettings

SHORT = 200
"""Characters that the quick suite leaves of each prompt, its end: a sixth of the work."""
lengths = pytest.mark.parametrize(
    "chars", [SHORT, pytest.param(100_000, marks=[pytest.mark.slow, pytest.mark.timeout(900)])]
)


@pytest.fixture
def policy(embedded_weights):
    return Policy.load(embedded_weights)


def pairs_of(chars):
    return [replace(pair, prompt=pair.prompt[-chars:]) for pair in make_pairs(prompts=2, pairs=4)]


@lengths
def test_a_phase_of_the_embedded_model(policy, chars):
    before = {n: p.detach().clone() for n, p in policy.model.named_parameters() if "lora_" not in n}
    pairs = pairs_of(chars)
    result = run_phase(
        policy,
        pairs,
        PhaseSettings(epochs=1),
        GateSettings(max_kl=100.0, prompts=2),
        lambda adapter, prompts: [0.0 if adapter == REFERENCE else 1.0] * len(prompts),
        phase=1,
        seed=0,
    )
    # Training and the reference's pass use sequences of different shapes, which bfloat16 rounds differently.
    assert result.steps[0].loss == pytest.approx(math.log(2), abs=0.03)
    assert result.promoted
    assert policy.digest(POLICY) == policy.digest(REFERENCE) == result.policy_digest
    assert all(0.0 < checkpoint.kl < 5.0 for checkpoint in result.checkpoints)
    ids = policy.tokenizer(pairs[0].prompt, return_tensors="pt")["input_ids"]
    with policy.merged(POLICY) as model, torch.no_grad():
        assert model(input_ids=ids, logits_to_keep=1).logits.isfinite().all()
    assert all(torch.equal(p, before[n]) for n, p in policy.model.named_parameters() if "lora_" not in n)


@lengths
def test_a_phase_learns_its_pairs(policy, chars):
    settings = PhaseSettings(reference="fixed", learning_rate=1e-3, epochs=2, batch_size=4, target_kl=0.0)
    found = run_phase(policy, pairs_of(chars), settings, GateSettings(prompts=1), None, phase=1, seed=0)
    first, *_, last = found.steps
    assert last.loss - first.loss < -0.1
    assert last.margin - first.margin > 1.0  # 3.3 when it was measured, with short prompts
    assert last.accuracy == 1.0
