"""CPU time of a Burgers training: ours against nested autograd and DeepXDE.

    OMP_NUM_THREADS=1 python -m atlas_gym.experiments.benchmarks.burgers --repeats 5

Everybody trains the same network from the same weights on the same points in float64 with one thread, with the plain
1/1/1 loss. Ours is measured as users get it, the program in a confined worker (both processes and all overheads of the
evaluation, divided by its trainings), and within one process. DeepXDE takes part where it is installed.
"""

import argparse
import importlib.util
import math
import os
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import torch

from atlas_gym.evaluation import ConfinedEvaluator
from atlas_gym.experiments.benchmarks import compare, confined_seconds, seconds_of
from atlas_gym.tasks.burgers.in_process import train_in_process
from atlas_gym.tasks.burgers.network import Points, layer_sizes, matrices
from atlas_gym.tasks.burgers.params import BurgersParams
from atlas_gym.tasks.burgers.task import STARTS, BurgersTask

Strategy = Callable[[torch.Tensor, torch.Tensor, torch.Tensor, Mapping[str, Any]], torch.Tensor]


def plain(residuals, ic_err, bc_err, extras):
    """The loss of the comparison."""
    return torch.mean(residuals**2) + torch.mean(ic_err**2) + torch.mean(bc_err**2)


def main(arguments: list[str] | None = None) -> None:
    """Print how far the trainings are from each other, then what they cost."""
    parser = argparse.ArgumentParser(prog="python -m atlas_gym.experiments.benchmarks.burgers")
    parser.add_argument("--repeats", type=int, default=5, help="rounds in which every contender runs once")
    parser.add_argument("--steps", type=int, default=500, help="Adam steps per training")
    options = parser.parse_args(arguments)
    torch.set_num_threads(1)
    steps, repeats = options.steps, options.repeats
    task = BurgersTask(steps=steps)
    program = task.programs[STARTS["inlined"]].program
    points, theta = task.beginning(0)

    short = replace(task, steps=min(200, steps))
    expected = np.array(train_nested(short, points, theta, plain))
    for backend in (task.backend, "torch"):
        found = np.array(train_in_process(replace(short, backend=backend), points, theta, plain))
        deviation = np.abs(found / expected - 1.0).max()
        print(f"{backend} backend: losses of {short.steps} steps equal nested autograd's to {deviation:.1e}")

    with ConfinedEvaluator() as evaluator:
        contenders = {
            "ours, confined": lambda: confined_seconds(evaluator, program, task) / task.replicas,
            "ours, in process": lambda: seconds_of(lambda: train_in_process(task, points, theta, plain)),
            "nested autograd": lambda: seconds_of(lambda: train_nested(task, points, theta, plain)),
        }
        if importlib.util.find_spec("deepxde"):
            os.environ.setdefault("DDE_BACKEND", "pytorch")
            import deepxde

            deepxde.config.set_default_float("float64")

            def theirs() -> float:
                model = deepxde_model(deepxde, task)
                return seconds_of(lambda: model.train(iterations=steps, display_every=steps, verbose=0))

            contenders["DeepXDE"] = theirs
        compare("CPU ms of a step", contenders, repeats, unit=1e-3 * steps)


def deepxde_model(dde: Any, p: BurgersTask) -> Any:
    """The plain 1/1/1 PINN on the task's points and weights, by the package `deepxde`."""
    points, theta = p.beginning(0)
    rate = math.log(p.nu1 / p.nu0)

    def residual(inputs: torch.Tensor, u: torch.Tensor) -> torch.Tensor:
        u_x = dde.grad.jacobian(u, inputs, i=0, j=0)
        u_t = dde.grad.jacobian(u, inputs, i=0, j=1)
        u_xx = dde.grad.hessian(u, inputs, i=0, j=0)
        return u_t + u * u_x - p.nu0 * torch.exp(rate * inputs[:, 1:2]) * u_xx

    edge = np.stack([points.edge_x, points.edge_t], axis=1)
    values, n_initial = points.edge_u[:, None], p.n_initial
    conditions = [
        dde.icbc.PointSetBC(edge[:n_initial], values[:n_initial]),
        dde.icbc.PointSetBC(edge[n_initial:], values[n_initial:]),
    ]
    space = dde.geometry.GeometryXTime(dde.geometry.Interval(-1, 1), dde.geometry.TimeDomain(0, 1))
    inside = np.stack([points.x, points.t], axis=1)
    data = dde.data.TimePDE(space, residual, conditions, num_domain=0, anchors=inside)
    network = dde.nn.FNN([2] + [p.hidden_width] * p.hidden_layers + [1], "tanh", "Glorot uniform")
    set_parameters(network.linears, p, theta)
    model = dde.Model(data, network)
    model.compile("adam", lr=p.learning_rate, verbose=0)
    return model


def build_network(params: BurgersParams, theta: np.ndarray) -> torch.nn.Sequential:
    """The network as torch modules, float64, with the parameters theta."""
    linears = [torch.nn.Linear(i, o, dtype=torch.float64) for o, i in layer_sizes(params)]
    set_parameters(linears, params, theta)
    modules = [module for linear in linears for module in (linear, torch.nn.Tanh())]
    return torch.nn.Sequential(*modules[:-1])


def set_parameters(linears: Iterable[torch.nn.Linear], params: BurgersParams, theta: np.ndarray) -> None:
    """Give the layers of a network the weights and biases in theta."""
    with torch.no_grad():
        for linear, (weight, bias) in zip(linears, matrices(params, theta), strict=True):
            linear.weight.copy_(torch.from_numpy(weight))
            linear.bias.copy_(torch.from_numpy(bias))


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
        loss = strategy(residual, errors[: params.n_initial], errors[params.n_initial :], extras)
        loss.backward()
        optimiser.step()
        losses.append(loss.item())
    return losses


if __name__ == "__main__":
    main()
