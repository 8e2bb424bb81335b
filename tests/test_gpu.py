"""What a GPU computes is what the CPU computes; skipped where there is none.

In float32, so that both differ by rounding alone.
"""

import dataclasses

import numpy as np
import pytest
import torch

from atlas_gym.agents.engines.engine import Sampling
from atlas_gym.agents.engines.hf_transformers import TransformersEngine
from atlas_gym.agents.models.policy import POLICY, REFERENCE
from atlas_gym.agents.population.candidate import Proposal
from atlas_gym.tasks.burgers.params import BurgersParams
from atlas_gym.tasks.burgers.stacked import StackedStep
from atlas_gym.tasks.burgers.task import BurgersTask
from atlas_gym.trainers.dpo.kl import Divergence
from atlas_gym.trainers.dpo.packed import encode_branch, log_likelihoods
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
