"""Training many networks at once on one device: the replicas of an evaluation, or those of many candidates.

The arithmetic is plain torch, also for machines without a compiler: the same three streams as the kernel's (see
kernel.cpp for the formulas), torch's own backward. Each layer of all networks is one batched product, so that a device
which is far too wide for one network of 32 units is given all of them at once. The losses and their gradients come, as
ever, from whoever holds the program, one after the other. A candidate whose loss fails leaves the others as they are:
its networks stay where they stood. On the trusted side only this module imports torch.
"""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch

from atlas_gym.evaluation.channel import CandidateError
from atlas_gym.tasks.burgers.network import Points, layer_sizes
from atlas_gym.tasks.burgers.params import BurgersParams
from atlas_gym.tasks.burgers.training import BETA1, BETA2, EPSILON, Losses, ask


class StackedStep:
    """Forward and backward pass of several networks, each at fixed points of its own, equally many."""

    def __init__(self, points: Sequence[Points], width: int, layers: int, device: str = "cpu"):
        self._n, self._n_edge = points[0].n_residual, points[0].n_edge
        self._sizes = layer_sizes(width, layers)
        self._device = torch.device(device)
        x = np.stack([np.concatenate([p.x, p.edge_x]) for p in points])
        t = np.stack([np.concatenate([p.t, p.edge_t]) for p in points])
        self._inputs = self._put(np.stack([x, t], axis=2))
        self._nu = self._put(np.stack([p.nu for p in points]))[:, :, None]
        self._edge_u = self._put(np.stack([p.edge_u for p in points]))
        self._theta = torch.empty(0)
        self._outputs = torch.empty(0)
        self._run: Callable[..., Any] = self._evaluate
        if self._device.type == "cuda":
            # A step is some fifty kernels of microseconds each: replayed as a graph they cost one launch.
            sample = self._inputs.new_zeros(len(points), self._n_parameters, requires_grad=True)
            self._run = torch.cuda.make_graphed_callables(self._evaluate, (sample,))

    def forward(self, thetas: torch.Tensor) -> torch.Tensor:
        """The vectors of `CompiledStep.forward`, a row for each network's row of `thetas`, on the device."""
        self._theta = thetas.detach().requires_grad_()
        self._outputs, rest = self._run(self._theta)
        return torch.cat([self._outputs.detach(), rest.detach()], dim=1)

    def backward(self, adjoints: torch.Tensor) -> torch.Tensor:
        """The gradients, a row for each network, of adjoints . (residuals, errors) where forward was called."""
        (gradient,) = torch.autograd.grad(self._outputs, self._theta, adjoints)
        return gradient

    @property
    def _n_parameters(self) -> int:
        return sum(rows * (columns + 1) for rows, columns in self._sizes)

    def _put(self, array: np.ndarray) -> torch.Tensor:
        return torch.from_numpy(array).to(self._device)

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


class StackedTraining:
    """Networks on their way together: `vectors` for the losses, `update` with their gradients, again and
    again."""

    def __init__(self, params: BurgersParams, points: Sequence[Points], thetas: Sequence[np.ndarray]):
        self.points = list(points)
        self._learning_rate = params.learning_rate
        self._step = StackedStep(points, params.hidden_width, params.hidden_layers, params.device)
        self._theta = torch.tensor(np.stack(thetas), device=params.device)
        self._mean = torch.zeros_like(self._theta)
        self._square = torch.zeros_like(self._theta)
        self._count = 0

    @property
    def thetas(self) -> np.ndarray:
        """The parameters, a row for each network."""
        return self._theta.cpu().numpy()

    def vectors(self) -> np.ndarray:
        """`Training.vectors`, a row for each network."""
        return self._step.forward(self._theta).cpu().numpy()

    def update(self, adjoints: np.ndarray, moving: Sequence[bool]) -> None:
        """Take one step of Adam with every network that is `moving`; see `Training.update`."""
        gradient = self._step.backward(torch.from_numpy(adjoints).to(self._theta.device))
        self._count += 1
        self._mean += (1.0 - BETA1) * (gradient - self._mean)
        self._square = BETA2 * self._square + (1.0 - BETA2) * gradient * gradient
        scale = self._square.sqrt() / np.sqrt(1.0 - BETA2**self._count) + EPSILON
        step = self._learning_rate / (1.0 - BETA1**self._count) * self._mean / scale
        if not all(moving):
            step[[not moves for moves in moving]] = 0.0
        self._theta = self._theta - step


def train_stacked(
    params: BurgersParams, training: StackedTraining, losses: Sequence[Losses]
) -> tuple[np.ndarray, list[CandidateError | None]]:
    """Train the replicas of every candidate in lockstep.

    Args:
        params: the constants; `params.replicas` networks belong to each candidate.
        training: the networks, those of a candidate one after the other.
        losses: each candidate's.

    Returns:
        The loss of every step and network, (steps, networks), NaN after a failure; and what was wrong with
        each candidate, None if nothing.
    """
    replicas = params.replicas
    history = np.full((params.steps, replicas * len(losses)), np.nan)
    failures: list[CandidateError | None] = [None] * len(losses)
    for candidate, own in enumerate(losses):
        own.begin(training.points[candidate * replicas : (candidate + 1) * replicas])
    size = params.n_residual + params.n_initial + params.n_boundary
    with np.errstate(all="ignore"):
        for epoch in range(params.steps):
            vectors = training.vectors()
            adjoints = np.zeros((len(vectors), size))
            for candidate, own in enumerate(losses):
                rows = range(candidate * replicas, (candidate + 1) * replicas)
                if failures[candidate] is None:
                    failures[candidate] = _ask_all(own, epoch, rows, vectors, history, adjoints)
            moving = np.repeat([failure is None for failure in failures], replicas).tolist()
            if not any(moving):
                break
            training.update(adjoints, moving)
    return history, failures


def _ask_all(
    losses: Losses, epoch: int, rows: range, vectors: np.ndarray, history: np.ndarray, adjoints: np.ndarray
) -> CandidateError | None:
    """One candidate's losses and gradients at this epoch; what was wrong, if anything."""
    try:
        for replica, row in enumerate(rows):
            history[epoch, row], adjoints[row] = ask(losses, replica, epoch, vectors[row])
    except CandidateError as error:
        adjoints[rows.start : rows.stop] = 0.0
        return error
    return None
