"""The points where a network's errors are taken, in training or in testing."""

from dataclasses import dataclass

import numpy as np

from atlas_gym.tasks.burgers.params import BurgersParams


@dataclass(frozen=True)
class Points:
    """Where the three errors are taken; contiguous float64 vectors."""

    x: np.ndarray
    """Collocation points, (n_residual,), in [-1, 1]."""
    t: np.ndarray
    """Their times, in [0, 1]."""
    nu: np.ndarray
    """The viscosity there."""
    edge_x: np.ndarray
    """Initial points, then boundary points, (n_initial + n_boundary,)."""
    edge_t: np.ndarray
    """Their times: 0 for the initial ones."""
    edge_u: np.ndarray
    """The prescribed u there: -sin(pi x) at t = 0, zero on the boundary."""
    n_initial: int
    """How many of the edge points are initial points."""

    @property
    def n_residual(self) -> int:
        """Number of collocation points."""
        return len(self.x)

    @property
    def n_edge(self) -> int:
        """Number of initial and boundary points."""
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
        n_initial=params.n_initial,
    )
