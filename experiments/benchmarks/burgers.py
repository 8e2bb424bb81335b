"""CPU time of a Burgers training: ours against nested autograd and DeepXDE, side by side in one run.

    OMP_NUM_THREADS=1 python -m experiments.benchmarks.burgers --repeats 5

Everybody trains the same network from the same weights on the same points in float64 with one thread, with
the plain 1/1/1 loss. Ours is measured as users get it, the program in a confined worker (the CPU time of both
processes, all overheads of the evaluation included, divided by the trainings in it), and within one process.
Contenders take turns, and the ratio of every round is formed before the median, so that a busy machine
disturbs all alike.

DeepXDE is installed from PyPI into a folder that is thrown away afterwards, without its dependencies, of
which numpy, scipy, matplotlib and scikit-learn must be here already (`pip install atlas-gym[learn,dev]`).
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch

from atlas_gym.evaluation import ConfinedEvaluator
from atlas_gym.tasks.burgers.in_process import train_in_process
from atlas_gym.tasks.burgers.network import Points, draw_parameters, draw_points, matrices
from atlas_gym.tasks.burgers.params import BurgersParams
from atlas_gym.tasks.burgers.steps import kernel_available
from atlas_gym.tasks.burgers.task import STARTS, BurgersTask
from experiments.benchmarks.side_by_side import install_into, show, spread, take_turns

DEEPXDE = ("deepxde==1.15.0", "scikit-optimize==0.10.2", "pyaml==26.7.0")
TRAJECTORY_STEPS = 200
Strategy = Callable[[torch.Tensor, torch.Tensor, torch.Tensor, Mapping[str, Any]], torch.Tensor]


@dataclass(frozen=True)
class Setup:
    """One training, the same for every contender."""

    params: BurgersParams
    points: Points
    theta: np.ndarray


def plain(residuals, ic_err, bc_err, extras):
    """The loss of the comparison."""
    return torch.mean(residuals**2) + torch.mean(ic_err**2) + torch.mean(bc_err**2)


def main() -> None:
    parser = argparse.ArgumentParser(description="CPU time of a Burgers training, side by side.")
    parser.add_argument("--repeats", type=int, default=5, help="rounds in which every contender runs once")
    parser.add_argument("--steps", type=int, default=500, help="Adam steps per training")
    parser.add_argument("--without-deepxde", action="store_true", help="leave DeepXDE out")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    setup = make_setup(arguments.steps)
    with tempfile.TemporaryDirectory() as folder, ConfinedEvaluator() as evaluator:
        installed = not arguments.without_deepxde and install_into(Path(folder), "DeepXDE", DEEPXDE)
        deepxde = Path(folder) if installed else None
        print_trajectories(setup, deepxde)
        print_times(take_turns(contenders(setup, evaluator, deepxde), arguments.repeats), arguments.steps)


def make_setup(steps: int) -> Setup:
    """The default network and points."""
    params = BurgersParams(steps=steps)
    rng = np.random.default_rng(0)
    points = draw_points(params, rng)
    return Setup(params, points, draw_parameters(params.hidden_width, params.hidden_layers, rng))


def contenders(
    setup: Setup, evaluator: ConfinedEvaluator, deepxde: Path | None
) -> dict[str, Callable[[], float]]:
    """By name, functions that train once and return the CPU seconds of it."""

    def cpu_of(train: Callable[..., object], params: BurgersParams) -> float:
        began = time.process_time()
        train(params, setup.points, setup.theta, plain)
        return time.process_time() - began

    found: dict[str, Callable[[], float]] = {
        "nested autograd": lambda: cpu_of(train_nested, setup.params),
        "atlas_gym, confined": lambda: cpu_confined(setup.params, evaluator),
        "atlas_gym, in process": lambda: cpu_of(train_in_process, setup.params),
        "atlas_gym, in process, torch backend": lambda: cpu_of(
            train_in_process, replace(setup.params, backend="torch")
        ),
    }
    if deepxde is not None:
        found["DeepXDE"] = lambda: run_deepxde(setup, deepxde, "time")["cpu_s"]
    return found


def cpu_confined(params: BurgersParams, evaluator: ConfinedEvaluator) -> float:
    """CPU seconds per training of a whole evaluation: this process and the worker."""
    program = BurgersTask().programs[STARTS["inlined"]].program
    began = time.process_time()
    evaluation = evaluator.evaluate(program, BurgersTask(**vars(params)))
    if not evaluation.ok:
        raise RuntimeError(f"the benchmark's program failed: {evaluation.detail}")
    return (time.process_time() - began + evaluation.cpu_s) / params.replicas


def print_times(seconds: pd.DataFrame, steps: int) -> None:
    """A table with the speed of every contender relative to ours, confined."""
    print(f"compiled kernel: {'yes' if kernel_available() else 'no'}; steps per training: {steps}")
    ratios = seconds.div(seconds["atlas_gym, confined"], axis=0)
    show("CPU time per training", pd.DataFrame({
        "ms/step": [f"{1000 * own.median() / steps:.3f}" for _, own in seconds.items()],
        "times ours, confined": [spread(own) for _, own in ratios.items()],
    }, index=seconds.columns))  # fmt: skip


def print_trajectories(setup: Setup, deepxde: Path | None) -> None:
    """How far the losses of the first steps are from those of nested autograd."""
    short = replace(setup, params=replace(setup.params, steps=min(TRAJECTORY_STEPS, setup.params.steps)))
    train = (short.points, short.theta, plain)
    expected = np.array(train_nested(short.params, *train))
    found = {"atlas_gym": train_in_process(short.params, *train)}
    found["atlas_gym, torch backend"] = train_in_process(replace(short.params, backend="torch"), *train)
    if deepxde is not None:
        found["DeepXDE"] = np.array(run_deepxde(short, deepxde, "losses")["losses"])
    for name, losses in found.items():
        deviation = np.abs(losses / expected - 1.0).max()
        print(f"{name}: losses of {short.params.steps} steps equal nested autograd's to {deviation:.1e}")


def run_deepxde(setup: Setup, folder: Path, what: str) -> dict:
    """Train in DeepXDE, in a process of its own."""
    path, p = folder / "setup.npz", setup.params
    constants: dict[str, Any] = {
        "nu0": p.nu0,
        "nu1": p.nu1,
        "steps": p.steps,
        "learning_rate": p.learning_rate,
    }
    network: dict[str, Any] = {"theta": setup.theta, "width": p.hidden_width, "layers": p.hidden_layers}
    np.savez(path, **vars(setup.points), **constants, **network)
    environment = {**os.environ, "PYTHONPATH": str(folder), "DDE_BACKEND": "pytorch"}
    command = [sys.executable, "-m", "experiments.benchmarks.deepxde_training", str(path), what]
    done = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
    if done.returncode != 0:
        raise RuntimeError(f"DeepXDE failed: {done.stderr.strip()[-1000:]}")
    return json.loads(done.stdout.splitlines()[-1])


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


if __name__ == "__main__":
    main()
