"""The network's parameters and values, 2 -> width x layers -> 1, tanh between; and the points where its errors are
taken, in training or in testing.

Parameters are one flat float64 vector, layer after layer: W0 (width, 2), b0, then W (width, width), b for
each further hidden layer, then w_out (width), b_out; matrices by rows. Every backend reads this layout.
"""

from dataclasses import dataclass

import numpy as np

from atlas_gym.tasks.burgers.params import BurgersParams


def layer_sizes(params: BurgersParams) -> list[tuple[int, int]]:
    width = params.hidden_width
    return [(width, 2), *[(width, width)] * (params.hidden_layers - 1), (1, width)]


def draw_parameters(params: BurgersParams, rng: np.random.Generator) -> np.ndarray:
    """Glorot-uniform weights and zero biases."""
    parts = []
    for rows, columns in layer_sizes(params):
        bound = np.sqrt(6.0 / (rows + columns))
        parts += [rng.uniform(-bound, bound, rows * columns), np.zeros(rows)]
    return np.concatenate(parts)


def matrices(params: BurgersParams, theta: np.ndarray) -> list[tuple[np.ndarray, np.ndarray]]:
    """The (weight, bias) of each linear map, as views of theta."""
    views, at = [], 0
    for rows, columns in layer_sizes(params):
        end = at + rows * columns
        views.append((theta[at:end].reshape(rows, columns), theta[end : end + rows]))
        at = end + rows
    return views


def values(params: BurgersParams, theta: np.ndarray, x: np.ndarray, t: np.ndarray) -> np.ndarray:
    """u on the grid t x x, shape (len(t), len(x)).

    By einsum: a product by BLAS is rounded differently with another number of threads, and so would be a score.
    """
    times, places = np.meshgrid(t, x, indexing="ij")
    h = np.stack([places.ravel(), times.ravel()], axis=1)
    *hidden, (weight, bias) = matrices(params, theta)
    for hidden_weight, hidden_bias in hidden:
        h = np.tanh(np.einsum("pi,oi->po", h, hidden_weight) + hidden_bias)
    return (np.einsum("pi,oi->po", h, weight) + bias).reshape(times.shape)


@dataclass(frozen=True)
class Points:
    """Where the three errors are taken; contiguous float64 vectors."""

    x: np.ndarray  # collocation points, (n_residual,), in [-1, 1]
    t: np.ndarray  # their times, in [0, 1]
    nu: np.ndarray  # the viscosity there
    edge_x: np.ndarray  # initial points, then boundary points, (n_initial + n_boundary,)
    edge_t: np.ndarray  # their times: 0 for the initial ones
    edge_u: np.ndarray  # the prescribed u there: -sin(pi x) at t = 0, zero on the boundary

    @property
    def n_residual(self) -> int:
        return len(self.x)

    @property
    def n_edge(self) -> int:
        return len(self.edge_x)


def draw_points(params: BurgersParams, rng: np.random.Generator) -> Points:
    """Draw a fresh set of points, uniform in space and time."""
    x, t = rng.uniform(-1.0, 1.0, params.n_residual), rng.uniform(0.0, 1.0, params.n_residual)
    x_initial = rng.uniform(-1.0, 1.0, params.n_initial)
    sides = np.where(np.arange(params.n_boundary) % 2 == 0, -1.0, 1.0)
    return Points(
        x=x,
        t=t,
        nu=params.viscosity(t),
        edge_x=np.concatenate([x_initial, sides]),
        edge_t=np.concatenate([np.zeros(params.n_initial), rng.uniform(0.0, 1.0, params.n_boundary)]),
        edge_u=np.concatenate([-np.sin(np.pi * x_initial), np.zeros(params.n_boundary)]),
    )
