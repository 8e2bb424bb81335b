"""The two training steps against each other and against nested autograd, which shares no arithmetic with
them."""

import ctypes

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from atlas_gym.experiments.benchmarks.burgers import build_network, train_nested
from atlas_gym.tasks.burgers.in_process import train_in_process
from atlas_gym.tasks.burgers.network import draw_parameters, draw_points
from atlas_gym.tasks.burgers.params import BurgersParams
from atlas_gym.tasks.burgers.stacked import StackedStep
from atlas_gym.tasks.burgers.steps import CompiledStep, kernel_available, load_kernel
from tests.atlas_gym.tasks.burgers.strategies import plain, uneven

needs_compiler = pytest.mark.skipif(not kernel_available(), reason="no C++ compiler on this machine")
backends = pytest.mark.parametrize("backend", [pytest.param("compiled", marks=needs_compiler), "torch"])


def set_up(**constants):
    params = BurgersParams(**constants)
    rng = np.random.default_rng(3)
    theta = draw_parameters(params, rng)
    return params, draw_points(params, rng), theta + 0.1 * rng.standard_normal(len(theta))


def nested_vectors(params, points, theta):
    """What `CompiledStep.forward` returns, and the network whose gradients belong to it, by nested autograd."""
    network = build_network(params, theta)
    x = torch.tensor(points.x, requires_grad=True)
    t = torch.tensor(points.t, requires_grad=True)
    u = network(torch.stack([x, t], dim=1))[:, 0]
    u_x, u_t = torch.autograd.grad(u.sum(), (x, t), create_graph=True)
    (u_xx,) = torch.autograd.grad(u_x.sum(), x, create_graph=True)
    edge = network(torch.tensor(np.stack([points.edge_x, points.edge_t], axis=1)))[:, 0]
    residual = u_t + u * u_x - torch.tensor(points.nu) * u_xx
    return torch.cat([residual, edge - torch.tensor(points.edge_u), u, u_x]), network


def step_of(params, points, theta, adjoint):
    """The values of a step and the gradient that belongs to the adjoint, on either backend."""
    step = (CompiledStep if params.backend == "compiled" else StackedStep)(params, [points])
    (vectors,), (gradient,) = step.forward(step.put(theta[None])), step.backward(adjoint[None])
    return vectors, np.asarray(gradient)


@backends
@given(
    n_residual=st.integers(1, 70),
    n_initial=st.integers(1, 40),
    n_boundary=st.integers(1, 40),
    hidden_width=st.sampled_from([8, 32]),
    hidden_layers=st.integers(1, 5),
)
@settings(max_examples=15, deadline=None)
def test_a_step_has_the_values_and_gradients_of_nested_autograd(backend, **constants):
    params, points, theta = set_up(backend=backend, **constants)
    adjoint = np.random.default_rng(4).standard_normal(points.n_residual + points.n_edge)
    vectors, gradient = step_of(params, points, theta, adjoint)
    expected, network = nested_vectors(params, points, theta)
    assert vectors == pytest.approx(expected.detach().numpy(), rel=1e-11, abs=1e-12)
    gradients = torch.autograd.grad(
        expected[: len(adjoint)] @ torch.tensor(adjoint), list(network.parameters())
    )
    flat = torch.cat([g.reshape(-1) for g in gradients]).numpy()
    assert gradient == pytest.approx(flat, rel=1e-10, abs=1e-11 * np.abs(flat).max())


@backends
@pytest.mark.parametrize("strategy", [plain, uneven])
def test_losses_follow_nested_autograd_for_200_steps(backend, strategy):
    params, points, theta = set_up(steps=200, n_residual=200, n_initial=30, n_boundary=30, backend=backend)
    expected = np.array(train_nested(params, points, theta, strategy))
    assert train_in_process(params, points, theta, strategy) == pytest.approx(expected, rel=1e-9)


@needs_compiler
def test_the_kernel_s_tanh_is_accurate_to_a_few_units_in_the_last_place():
    tiny = np.array([0.0, -0.0, 5e-324, 1e-310, 1e-200, 1e-20, 1e-9])
    wide = np.concatenate([np.linspace(-45, 45, 100_001), np.geomspace(1e-12, 1.0, 50_000)])
    x = np.concatenate([tiny, -tiny, wide, [1e10, -1e10, np.inf, -np.inf]])
    found = kernel_tanh(x)
    exact = np.tanh(x.astype(np.longdouble)).astype(float)
    assert (np.abs(found - exact) <= 4 * np.spacing(np.abs(exact))).all()
    assert (np.signbit(found) == np.signbit(x)).all()
    assert np.abs(found).max() == 1.0


def kernel_tanh(x: np.ndarray) -> np.ndarray:
    out = np.empty_like(x)
    load_kernel(32).burgers_tanh(len(x), ctypes.c_void_p(x.ctypes.data), ctypes.c_void_p(out.ctypes.data))
    return out


@needs_compiler
def test_two_steps_of_the_same_points_do_not_share_state():
    params, points, theta = set_up(n_residual=20, backend="compiled")
    one, other = CompiledStep(params, [points]), CompiledStep(params, [points])
    before = one.forward(theta).copy()
    other.forward(2.0 * theta)
    adjoint = np.ones((1, points.n_residual + points.n_edge))
    gradient = one.backward(adjoint).copy()
    one.forward(theta)
    assert np.array_equal(one.backward(adjoint), gradient)
    assert np.array_equal(one.forward(theta), before)
