import numpy as np
import pytest
import torch

from atlas_gym.experiments.benchmarks.burgers import build_network
from atlas_gym.tasks.burgers.network import draw_parameters, draw_points, layer_sizes, values
from atlas_gym.tasks.burgers.params import BurgersParams


def test_values_are_those_of_the_torch_network():
    params = BurgersParams(hidden_width=8, hidden_layers=3)
    theta = draw_parameters(params, np.random.default_rng(0))
    x, t = np.linspace(-1, 1, 5), np.linspace(0, 1, 3)
    inputs = torch.tensor([[a, b] for b in t for a in x])
    expected = build_network(params, theta)(inputs).detach().numpy().reshape(3, 5)
    assert values(params, theta, x, t) == pytest.approx(expected, abs=1e-14)


def test_initial_weights_are_glorot_uniform_and_biases_zero():
    params = BurgersParams()
    theta = draw_parameters(params, np.random.default_rng(0))
    assert len(theta) == sum(rows * columns + rows for rows, columns in layer_sizes(params))
    assert not theta[64:96].any()
    hidden = theta[96 : 96 + 1024]
    bound = np.sqrt(6 / 64)
    assert 0.95 * bound < np.abs(hidden).max() <= bound


def test_points_lie_where_the_problem_is_posed():
    params = BurgersParams(n_residual=50, n_initial=7, n_boundary=9)
    points = draw_points(params, np.random.default_rng(0))
    assert (points.n_residual, points.n_edge) == (50, 16)
    assert (np.abs(points.x) <= 1).all()
    assert ((points.t >= 0) & (points.t <= 1)).all()
    assert points.nu == pytest.approx(params.viscosity(points.t))
    assert not points.edge_t[:7].any()
    assert points.edge_u[:7] == pytest.approx(-np.sin(np.pi * points.edge_x[:7]))
    assert set(points.edge_x[7:]) == {-1.0, 1.0}
    assert not points.edge_u[7:].any()
