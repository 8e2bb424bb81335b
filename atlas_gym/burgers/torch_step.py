"""The training step in plain torch, for machines without a compiler: the same three streams, torch's own
backward.

For the formulas see kernel.cpp. Only this module of the trusted side imports torch.
"""

import numpy as np
import torch

from atlas_gym.burgers.network import layer_sizes
from atlas_gym.burgers.points import Points


class TorchStep:
    """Forward and backward pass of one network at fixed points. See `backend.Step`."""

    def __init__(self, points: Points, width: int, layers: int):
        self._n, self._n_edge = points.n_residual, points.n_edge
        self._sizes = layer_sizes(width, layers)
        x = np.concatenate([points.x, points.edge_x])
        t = np.concatenate([points.t, points.edge_t])
        self._inputs = torch.from_numpy(np.stack([x, t], axis=1))
        self._nu = torch.from_numpy(points.nu)[:, None]
        self._edge_u = torch.from_numpy(points.edge_u)
        self._theta = torch.empty(0)
        self._outputs = torch.empty(0)

    def forward(self, theta: np.ndarray) -> np.ndarray:
        self._theta = torch.tensor(theta, requires_grad=True)
        u, u_x, rest = self._propagate(self._theta)
        u_inside = u[: self._n]
        self._outputs = torch.cat([rest + u_inside * u_x, u[self._n :] - self._edge_u])
        return torch.cat([self._outputs, u_inside, u_x]).detach().numpy()

    def backward(self, adjoint: np.ndarray) -> np.ndarray:
        (gradient,) = torch.autograd.grad(self._outputs, self._theta, torch.tensor(adjoint))
        return gradient.numpy()

    def _propagate(self, theta: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """u at all points; u_x and L u = u_t - nu u_xx at the collocation points."""
        n, total = self._n, self._n + self._n_edge
        matrices = self._matrices(theta)
        weight, bias = matrices[0]
        a = torch.addmm(bias, self._inputs, weight.T)
        a_x, a_q = weight[:, 0].expand(n, -1), weight[:, 1].expand(n, -1)
        for weight, bias in matrices[1:]:
            y = torch.tanh(a)
            inside = y[:n]
            slope = 1.0 - inside * inside
            y_x = slope * a_x
            y_q = slope * a_q + 2.0 * self._nu * inside * y_x * a_x
            product = torch.cat([y, y_x, y_q]) @ weight.T
            a, a_x, a_q = product[:total] + bias, product[total : total + n], product[total + n :]
        return a[:, 0], a_x[:, 0], a_q[:, 0]

    def _matrices(self, theta: torch.Tensor) -> list[tuple[torch.Tensor, torch.Tensor]]:
        lengths = [length for rows, columns in self._sizes for length in (rows * columns, rows)]
        parts = torch.split(theta, lengths)
        shapes = zip(self._sizes, parts[::2], parts[1::2], strict=True)
        return [(weight.view(rows, columns), bias) for (rows, columns), weight, bias in shapes]
