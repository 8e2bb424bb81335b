"""A Burgers PINN the way it is usually written: derivatives by nested `torch.autograd.grad`, torch's own
Adam.

The yardstick for the speed and for the correctness of `atlas_gym.tasks.burgers`: it shares no arithmetic with it.
"""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import torch

from atlas_gym.tasks.burgers.network import matrices
from atlas_gym.tasks.burgers.params import BurgersParams
from atlas_gym.tasks.burgers.points import Points

Strategy = Callable[[torch.Tensor, torch.Tensor, torch.Tensor, Mapping[str, Any]], torch.Tensor]


def build_network(params: BurgersParams, theta: np.ndarray) -> torch.nn.Sequential:
    """The network as torch modules, float64, with the parameters theta."""
    modules: list[torch.nn.Module] = []
    for weight, bias in matrices(theta, params.hidden_width, params.hidden_layers):
        linear = torch.nn.Linear(weight.shape[1], weight.shape[0], dtype=torch.float64)
        with torch.no_grad():
            linear.weight.copy_(torch.from_numpy(weight))
            linear.bias.copy_(torch.from_numpy(bias))
        modules += [linear, torch.nn.Tanh()]
    return torch.nn.Sequential(*modules[:-1])


def train_nested(params: BurgersParams, points: Points, theta: np.ndarray, strategy: Strategy) -> list[float]:
    """Train for `params.steps` and return the loss of every step."""
    network = build_network(params, theta)
    optimiser = torch.optim.Adam(network.parameters(), lr=params.learning_rate)
    tensors = {name: torch.from_numpy(getattr(points, name)) for name in ("nu", "edge_u")}
    x = torch.from_numpy(points.x).requires_grad_()
    t = torch.from_numpy(points.t).requires_grad_()
    edge = torch.from_numpy(np.stack([points.edge_x, points.edge_t], axis=1))
    constants = {"n_epochs": params.steps, "x": x.detach(), "t": t.detach(), "nu": tensors["nu"]}
    losses = []
    for epoch in range(params.steps):
        optimiser.zero_grad()
        u = network(torch.stack([x, t], dim=1))[:, 0]
        ones = torch.ones_like(u)
        u_x = torch.autograd.grad(u, x, ones, create_graph=True)[0]
        u_t = torch.autograd.grad(u, t, ones, create_graph=True)[0]
        u_xx = torch.autograd.grad(u_x, x, ones, create_graph=True)[0]
        residual = u_t + u * u_x - tensors["nu"] * u_xx
        errors = network(edge)[:, 0] - tensors["edge_u"]
        extras = {**constants, "epoch": epoch, "u": u.detach(), "u_x": u_x.detach()}
        loss = strategy(residual, errors[: points.n_initial], errors[points.n_initial :], extras)
        loss.backward()
        optimiser.step()
        losses.append(loss.item())
    return losses
