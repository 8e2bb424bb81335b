"""CPU time of a Burgers training: ours against nested autograd and DeepXDE, side by side in one run.

    OMP_NUM_THREADS=1 python -m atlas_gym.experiments.benchmarks.burgers --repeats 5

Everybody trains the same network from the same weights on the same points in float64 with one thread, with
the plain 1/1/1 loss. Ours is measured as users get it, the program in a confined worker (the CPU time of both
processes, all overheads of the evaluation included, divided by the trainings in it), and within one process.
Contenders take turns, and the ratio of every round is formed before the median, so that a busy machine
disturbs all alike.

DeepXDE is installed from PyPI into a folder that is thrown away afterwards, without its dependencies, of
which numpy, scipy, matplotlib and scikit-learn must be here already (`pip install atlas-gym[learn,dev]`). It trains
in a process of its own, in which alone it is found.
"""

import argparse
import json
import math
import tempfile
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch

from atlas_gym.arguments import Parser
from atlas_gym.evaluation import ConfinedEvaluator
from atlas_gym.experiments.benchmarks import side_by_side
from atlas_gym.tasks.burgers.in_process import train_in_process
from atlas_gym.tasks.burgers.network import Points, layer_sizes, matrices
from atlas_gym.tasks.burgers.params import BurgersParams
from atlas_gym.tasks.burgers.steps import kernel_available
from atlas_gym.tasks.burgers.task import STARTS, BurgersTask

DEEPXDE = ("deepxde==1.15.0", "scikit-optimize==0.10.2", "pyaml==26.7.0")
TRAJECTORY_STEPS = 200
Strategy = Callable[[torch.Tensor, torch.Tensor, torch.Tensor, Mapping[str, Any]], torch.Tensor]


def plain(residuals, ic_err, bc_err, extras):
    """The loss of the comparison."""
    return torch.mean(residuals**2) + torch.mean(ic_err**2) + torch.mean(bc_err**2)


def main() -> None:
    parser = Parser(description="CPU time of a Burgers training, side by side.")
    parser.add_argument("--repeats", type=int, default=5, help="rounds in which every contender runs once")
    parser.add_argument("--steps", type=int, default=500, help="Adam steps per training")
    parser.add_argument("--without-deepxde", action="store_true", help="leave DeepXDE out")
    parser.add_argument("--contender", choices=("time", "losses"), help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    task = BurgersTask(steps=arguments.steps)
    if arguments.contender:
        print(json.dumps(train_deepxde(task, timed=arguments.contender == "time")))
        return
    with tempfile.TemporaryDirectory() as folder, ConfinedEvaluator() as evaluator:
        deepxde: Path | None = Path(folder)
        if arguments.without_deepxde or not side_by_side.install_into(Path(folder), "DeepXDE", DEEPXDE):
            deepxde = None
        print_trajectories(task, deepxde)
        seconds = side_by_side.take_turns(contenders(task, evaluator, deepxde), arguments.repeats)
        print_times(seconds, arguments.steps)


def contenders(
    task: BurgersTask, evaluator: ConfinedEvaluator, deepxde: Path | None
) -> dict[str, Callable[[], float]]:
    """By name, functions that train once and return the CPU seconds of it."""
    points, theta = task.beginning(0)
    program, by_torch = task.programs[STARTS["inlined"]].program, replace(task, backend="torch")

    def cpu_of(train: Callable[..., object], params: BurgersParams) -> float:
        began = time.process_time()
        train(params, points, theta, plain)
        return time.process_time() - began

    found: dict[str, Callable[[], float]] = {
        "nested autograd": partial(cpu_of, train_nested, task),
        "atlas_gym, confined": lambda: side_by_side.confined_cpu(evaluator, program, task) / task.replicas,
        "atlas_gym, in process": partial(cpu_of, train_in_process, task),
        "atlas_gym, in process, torch backend": partial(cpu_of, train_in_process, by_torch),
    }
    if deepxde is not None:
        found["DeepXDE"] = lambda: run_deepxde(task, deepxde, "time")["cpu_s"]
    return found


def print_times(seconds: pd.DataFrame, steps: int) -> None:
    """A table with the speed of every contender relative to ours, confined."""
    print(f"compiled kernel: {'yes' if kernel_available() else 'no'}; steps per training: {steps}")
    ratios = seconds.div(seconds["atlas_gym, confined"], axis=0)
    side_by_side.show("CPU time per training", pd.DataFrame({
        "ms/step": (1000 * seconds.median() / steps).map("{:.3f}".format),
        "times ours, confined": ratios.apply(side_by_side.spread),
    }))  # fmt: skip


def print_trajectories(task: BurgersTask, deepxde: Path | None) -> None:
    """How far the losses of the first steps are from those of nested autograd."""
    short = replace(task, steps=min(TRAJECTORY_STEPS, task.steps))
    train = (*short.beginning(0), plain)
    expected = np.array(train_nested(short, *train))
    found = {"atlas_gym": train_in_process(short, *train)}
    found["atlas_gym, torch backend"] = train_in_process(replace(short, backend="torch"), *train)
    if deepxde is not None:
        found["DeepXDE"] = np.array(run_deepxde(short, deepxde, "losses")["losses"])
    for name, losses in found.items():
        deviation = np.abs(losses / expected - 1.0).max()
        print(f"{name}: losses of {short.steps} steps equal nested autograd's to {deviation:.1e}")


def run_deepxde(task: BurgersTask, folder: Path, what: str) -> dict[str, Any]:
    """Train in DeepXDE, in a process of its own that makes the same network and points again."""
    steps = ["--steps", str(task.steps)]
    found = {"PYTHONPATH": str(folder), "DDE_BACKEND": "pytorch"}
    return side_by_side.in_own_process(
        "atlas_gym.experiments.benchmarks.burgers", what, also=steps, environment=found
    )


def train_deepxde(task: BurgersTask, timed: bool) -> dict[str, Any]:
    """The same training in DeepXDE, where it is installed: CPU seconds, and the loss of every step unless timed.

    The same collocation, initial and boundary points, the same initial weights, float64, Adam: only the software
    differs.
    """
    import deepxde

    deepxde.config.set_default_float("float64")
    model = deepxde_model(deepxde, task)
    began = time.process_time()
    history, _ = model.train(iterations=task.steps, display_every=task.steps if timed else 1, verbose=0)
    cpu_s = time.process_time() - began
    return {"cpu_s": cpu_s, "losses": [float(np.sum(terms)) for terms in history.loss_train][: task.steps]}


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
    sizes = layer_sizes(params)
    linears = [torch.nn.Linear(inputs, outputs, dtype=torch.float64) for outputs, inputs in sizes]
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
