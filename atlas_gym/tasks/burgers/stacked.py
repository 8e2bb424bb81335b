"""The training step of an evaluation's networks at once, in plain torch, for GPUs and machines without a compiler.

Forward are the kernel's three streams (formulas in kernel.cpp), backward is torch's. Each layer of all networks is one
batched product. On the trusted side only this module imports torch.
"""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch

from atlas_gym.tasks.burgers.network import Points, layer_sizes
from atlas_gym.tasks.burgers.params import BurgersParams


class StackedStep:
    """Forward and backward pass of several networks, each at fixed points of its own, equally many."""

    def __init__(self, params: BurgersParams, points: Sequence[Points]):
        self._n, self._n_edge = points[0].n_residual, points[0].n_edge
        self._sizes = layer_sizes(params)
        self._device = torch.device(params.device)
        x = np.stack([np.concatenate([p.x, p.edge_x]) for p in points])
        t = np.stack([np.concatenate([p.t, p.edge_t]) for p in points])
        self._inputs = self.put(np.stack([x, t], axis=2))
        self._nu = self.put(np.stack([p.nu for p in points]))[:, :, None]
        self._edge_u = self.put(np.stack([p.edge_u for p in points]))
        self._theta = torch.empty(0)
        self._outputs = torch.empty(0)
        self._run: Callable[..., Any] = self._evaluate
        if self._device.type == "cuda":
            # A step is some fifty kernels of microseconds each: replayed as a graph they cost one launch.
            count = sum(rows * (columns + 1) for rows, columns in self._sizes)
            sample = self._inputs.new_zeros(len(points), count, requires_grad=True)
            self._run = torch.cuda.make_graphed_callables(self._evaluate, (sample,))

    def put(self, array: np.ndarray) -> torch.Tensor:
        """An array on the device, where parameters are kept."""
        return torch.from_numpy(array).to(self._device)

    def forward(self, thetas: torch.Tensor) -> np.ndarray:
        """The vectors of `CompiledStep.forward`, a row for each network's row of `thetas`."""
        self._theta = thetas.detach().requires_grad_()
        self._outputs, rest = self._run(self._theta)
        return torch.cat([self._outputs.detach(), rest.detach()], dim=1).cpu().numpy()

    def backward(self, adjoints: np.ndarray) -> torch.Tensor:
        """The gradients, a row for each network, of adjoints . (residuals, errors) where forward was called."""
        (gradient,) = torch.autograd.grad(self._outputs, self._theta, self.put(adjoints))
        return gradient

    def _evaluate(self, theta: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """(residuals and errors, u and u_x) of every network."""
        u, u_x, rest = self._propagate(theta)
        inside = u[:, : self._n]
        outputs = torch.cat([rest + inside * u_x, u[:, self._n :] - self._edge_u], dim=1)
        return outputs, torch.cat([inside, u_x], dim=1)

    def _propagate(self, theta: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """u at all points; u_x and L u = u_t - nu u_xx at the collocation points."""
        n, total = self._n, self._n + self._n_edge
        matrices = self._matrices(theta)
        weight, bias = matrices[0]
        a = self._inputs @ weight.mT + bias
        a_x, a_q = (weight[:, None, :, i].expand(-1, n, -1) for i in range(2))
        for weight, bias in matrices[1:]:
            y = torch.tanh(a)
            inside = y[:, :n]
            slope = 1.0 - inside * inside
            y_x = slope * a_x
            y_q = slope * a_q + 2.0 * self._nu * inside * y_x * a_x
            product = torch.cat([y, y_x, y_q], dim=1) @ weight.mT
            a = product[:, :total] + bias
            a_x, a_q = product[:, total : total + n], product[:, total + n :]
        return a[..., 0], a_x[..., 0], a_q[..., 0]

    def _matrices(self, theta: torch.Tensor) -> list[tuple[torch.Tensor, torch.Tensor]]:
        """(weights (networks, rows, columns), biases (networks, 1, rows)) of each layer."""
        lengths = [length for rows, columns in self._sizes for length in (rows * columns, rows)]
        parts = torch.split(theta, lengths, dim=1)
        shapes = zip(self._sizes, parts[::2], parts[1::2], strict=True)
        return [
            (weight.reshape(-1, rows, columns), bias[:, None]) for (rows, columns), weight, bias in shapes
        ]
