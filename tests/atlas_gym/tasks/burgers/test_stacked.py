"""Networks trained together equal the same networks trained one at a time."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from atlas_gym.tasks.burgers.in_process import LocalLosses, train_in_process
from atlas_gym.tasks.burgers.params import BurgersParams
from atlas_gym.tasks.burgers.stacked import StackedStep
from atlas_gym.tasks.burgers.steps import CompiledStep, kernel_available
from atlas_gym.tasks.burgers.task import BurgersTask
from atlas_gym.tasks.burgers.training import Training, train
from tests.atlas_gym.tasks.burgers.strategies import plain, uneven

PARAMS = BurgersParams(steps=25, replicas=2, n_residual=60, n_initial=10, n_boundary=11, backend="torch")
TASK = BurgersTask(**vars(PARAMS), seed=5)

needs_compiler = pytest.mark.skipif(not kernel_available(), reason="no C++ compiler on this machine")


@pytest.fixture
def beginnings():
    return [replace(TASK, seed=seed).beginning(replica) for seed in (5, 6) for replica in range(2)]


@needs_compiler
def test_a_stack_has_the_values_and_gradients_of_each_network(beginnings):
    points, thetas = zip(*beginnings, strict=True)
    stack = StackedStep(PARAMS, points)
    adjoints = np.random.default_rng(0).standard_normal((4, 81))
    vectors = stack.forward(stack.put(np.stack(thetas)))
    gradients = stack.backward(adjoints)
    for index, (own, theta) in enumerate(beginnings):
        step = CompiledStep(PARAMS, [own])
        assert vectors[index] == pytest.approx(step.forward(theta)[0], rel=1e-11, abs=1e-12)
        (expected,) = step.backward(adjoints[index : index + 1])
        assert gradients[index].numpy() == pytest.approx(expected, rel=1e-10, abs=1e-11)


def test_networks_are_trained_together_as_they_are_alone(beginnings):
    points, thetas = zip(*beginnings, strict=True)
    strategies = [plain, plain, uneven, uneven]
    torch.set_default_dtype(torch.float64)
    try:
        history = train(PARAMS, Training(PARAMS, points, thetas), LocalLosses(strategies, PARAMS))
    finally:
        torch.set_default_dtype(torch.float32)
    for row, (own, theta) in enumerate(beginnings):
        for backend in ("torch", "auto"):
            alone = train_in_process(replace(PARAMS, backend=backend), own, theta, strategies[row])
            assert history[:, row] == pytest.approx(alone, rel=1e-9)
