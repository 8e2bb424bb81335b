"""What a GPU computes is what the CPU computes in float32, to rounding; skipped where there is none."""

import dataclasses
import logging
from collections import Counter

import numpy as np
import pytest
import torch
from scipy.stats import chi2_contingency

from atlas_gym.agents.engines.engine import Request, Sampling
from atlas_gym.agents.engines.hf_transformers import TransformersEngine
from atlas_gym.agents.models.captured import Captured
from atlas_gym.agents.models.policy import POLICY, REFERENCE, Policy
from atlas_gym.agents.population.candidate import Proposal
from atlas_gym.experiments.benchmarks.generation import make_pairs
from atlas_gym.tasks.burgers.params import BurgersParams
from atlas_gym.tasks.burgers.stacked import StackedStep
from atlas_gym.tasks.burgers.task import BurgersTask
from atlas_gym.trainers.dpo.kl import Divergence
from atlas_gym.trainers.dpo.likelihoods import log_likelihoods, token_values
from atlas_gym.trainers.dpo.packed import encode_branch, pack, wants_even
from atlas_gym.trainers.dpo.train import TrainJob, train
from tests.tiny_model import save_tiny_model, tuned_policy
from tests.trainers.small_phases import PAIRS, SETTINGS
from tests.trainers.whole_run import config, contents, menu, run  # noqa: F401 (fixtures)

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU on this machine")


@pytest.fixture
def policies(tmp_path):
    """The same policy on the CPU and on the GPU."""
    folder = save_tiny_model(tmp_path)
    pair = tuned_policy(folder), tuned_policy(folder, "cuda")
    assert [policy.device.type for policy in pair] == ["cpu", "cuda"]
    return pair


def test_log_probabilities_and_divergences(policies):
    found = []
    for policy in policies:
        branches = [encode_branch(policy.tokenizer, pair.prompt, pair.chosen) for pair in PAIRS]
        with policy.using(POLICY) as model:
            log_probs = log_likelihoods(model, branches)
        items = [(pair.prompt, pair.chosen) for pair in PAIRS]
        kl = Divergence(policy, REFERENCE, items).of([POLICY])[POLICY]
        found.append([*log_probs, *kl.per_item])
    assert found[1] == pytest.approx(found[0], rel=1e-3, abs=1e-4)


def test_training(policies):
    job = TrainJob(
        tuple(PAIRS), SETTINGS, 1, tuple((pair.prompt, pair.chosen) for pair in PAIRS), phase=1, seed=0
    )
    losses, moved = [], []
    for policy in policies:
        began = {name: tensor.detach().clone() for name, tensor in policy.tensors(POLICY).items()}
        trained = train(policy, job)
        losses.append([step.loss for step in trained.steps])
        change = [(tensor - began[name]).flatten().cpu() for name, tensor in policy.tensors(POLICY).items()]
        moved.append(torch.cat(change))
    assert losses[1] == pytest.approx(losses[0], rel=1e-2, abs=1e-3)
    assert torch.nn.functional.cosine_similarity(*moved, dim=0) > 0.99


@pytest.mark.parametrize(
    ("dtype", "bounds"), [(torch.float32, (1e-4,) * 3), (torch.bfloat16, (1e-2, 0.2, 0.3))]
)
def test_the_embedded_model(embedded_weights, dtype, bounds):
    """Log-probabilities, gradients and K̂L. In bfloat16 a CPU is 0.005, 0.07 and 0.1 away from itself in float32."""
    pairs, found = make_pairs(2, 4), []
    for device, kind in (("cpu", torch.float32), ("cuda", dtype)):
        policy = Policy.load(embedded_weights, dtype=kind, device=device)
        source = torch.Generator().manual_seed(0)
        for name in (POLICY, REFERENCE):
            for tensor in policy.tensors(name).values():
                tensor.data.copy_(torch.randn(tensor.shape, generator=source) * 0.02)
        branches = [encode_branch(policy.tokenizer, pair.prompt, pair.chosen) for pair in pairs]
        with policy.using(POLICY) as model:
            log_probs = torch.tensor(log_likelihoods(model, branches))
        kl = Divergence(policy, REFERENCE, [(pair.prompt, pair.chosen) for pair in pairs]).of([POLICY])[
            POLICY
        ]
        with policy.learning() as learner:
            packing = pack(branches, 1536, wants_even(policy.device))
            for each in packing.passes:
                learner.backward(token_values(policy.model, each.to(policy.device))[0].sum())
            gradients = torch.cat([gradient.flatten().cpu() for gradient in learner.gradients])
        found.append(
            {"log-probabilities": log_probs, "gradients": gradients, "KL": torch.tensor(kl.per_item)}
        )
    apart = {name: float((found[1][name] - own).norm() / own.norm()) for name, own in found[0].items()}
    print(dtype, apart)
    assert all(value <= bound for value, bound in zip(apart.values(), bounds, strict=True)), apart


def test_a_captured_training_is_a_plain_one(policies, monkeypatch, caplog):
    job, losses = TrainJob(tuple(PAIRS), SETTINGS, 1, (), phase=1, seed=0), []
    policy = policies[1]
    policy.add("start", copy_of=POLICY)
    for captured in (True, False):
        if not captured:
            monkeypatch.setattr(
                "atlas_gym.trainers.dpo.accumulation.Captured", lambda enabled: Captured(False)
            )
        policy.copy("start", POLICY)
        with caplog.at_level(logging.WARNING):
            losses.append([step.loss for step in train(policy, job).steps])
    assert not [record for record in caplog.records if "without a CUDA graph" in record.message]
    assert losses[0] == pytest.approx(losses[1], rel=1e-4)


def test_samples_are_distributed_as_on_a_cpu(policies):
    counts = []
    for seed, policy in enumerate(policies):
        with policy.merged(POLICY) as model:
            engine = TransformersEngine(model, policy.tokenizer, Sampling(top_k=8, max_new_tokens=3))
            (row,) = engine.generate([Request("window =", 2000, avoid=" x\n", seed=seed)])
        counts.append(Counter(each.text[:1] for each in row))
    common = [text for text in counts[0] if counts[0][text] >= 20]
    table = [[*(own[text] for text in common), 2000 - sum(own[text] for text in common)] for own in counts]
    assert chi2_contingency(np.array(table) + 1).pvalue > 1e-4


def test_generation(policies):
    asked = [
        Proposal("def f(x):\n    y =", 4, avoid=" x\n", seed=1),
        Proposal("def f(x):\n    y = x\n    z =", 3, seed=2),
        Proposal("window =", 2, stop="function", seed=3),
    ]
    texts = []
    for policy in policies:
        with policy.merged(POLICY) as model:
            engine = TransformersEngine(
                model, policy.tokenizer, Sampling(max_new_tokens=8, max_function_tokens=16)
            )
            texts.append([each.text for row in engine.generate(asked) for each in row])
    # A draw at the edge of two tokens may fall to either side.
    assert np.mean([own == other for own, other in zip(*texts, strict=True)]) >= 0.7


def test_stacked_networks():
    params = BurgersParams(n_residual=60, n_initial=10, n_boundary=11, backend="torch")
    task = BurgersTask(**vars(params), seed=5)
    points, thetas = zip(*(task.beginning(replica) for replica in range(2)), strict=True)
    adjoints = np.random.default_rng(0).standard_normal((2, 81))
    found = []
    for device in ("cpu", "cuda"):
        stack = StackedStep(dataclasses.replace(params, device=device), points)
        vectors = stack.forward(stack.put(np.stack(thetas)))
        found.append((np.asarray(vectors).copy(), stack.backward(adjoints).cpu().numpy()))
    for own, other in zip(*found, strict=True):
        assert other == pytest.approx(own, rel=1e-9, abs=1e-10)


def test_a_run_tunes_on_the_gpu_and_is_opened_again(config, tmp_path):  # noqa: F811
    here = dataclasses.replace(config, device="cuda")
    run(here, tmp_path / "run")
    ended = contents(tmp_path / "run")
    assert len(ended[2]) == 2
    run(here, tmp_path / "run")
    assert contents(tmp_path / "run") == ended
