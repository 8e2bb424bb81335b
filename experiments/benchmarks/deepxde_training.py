"""The same training in DeepXDE, run by `burgers.py` as a script in an environment that has DeepXDE.

Reads a training set-up (`.npz`), prints the CPU time and the losses as JSON. The same collocation, initial
and boundary points, the same initial weights, float64, Adam: only the software differs.
"""

import json
import math
import sys
import time
from typing import Any

import deepxde as dde
import numpy as np
import torch

from atlas_gym.tasks.burgers.network import matrices


def main(path: str, time_only: bool) -> None:
    torch.set_num_threads(1)
    dde.config.set_default_float("float64")
    setup = np.load(path)
    steps = int(setup["steps"])
    model = build_model(setup)
    began = time.process_time()
    history, _ = model.train(iterations=steps, display_every=steps if time_only else 1, verbose=0)
    cpu_s = time.process_time() - began
    losses = [float(np.sum(terms)) for terms in history.loss_train][:steps]
    print(json.dumps({"cpu_s": cpu_s, "losses": losses}))


def build_model(setup: Any) -> dde.Model:
    """The plain 1/1/1 PINN on the set-up's points and weights."""
    rate = math.log(float(setup["nu1"]) / float(setup["nu0"]))

    def residual(inputs: torch.Tensor, u: torch.Tensor) -> torch.Tensor:
        u_x = dde.grad.jacobian(u, inputs, i=0, j=0)
        u_t = dde.grad.jacobian(u, inputs, i=0, j=1)
        u_xx = dde.grad.hessian(u, inputs, i=0, j=0)
        return u_t + u * u_x - float(setup["nu0"]) * torch.exp(rate * inputs[:, 1:2]) * u_xx

    edge = np.stack([setup["edge_x"], setup["edge_t"]], axis=1)
    values, n_initial = setup["edge_u"][:, None], int(setup["n_initial"])
    conditions = [
        dde.icbc.PointSetBC(edge[:n_initial], values[:n_initial]),
        dde.icbc.PointSetBC(edge[n_initial:], values[n_initial:]),
    ]
    space = dde.geometry.GeometryXTime(dde.geometry.Interval(-1, 1), dde.geometry.TimeDomain(0, 1))
    inside = np.stack([setup["x"], setup["t"]], axis=1)
    data = dde.data.TimePDE(space, residual, conditions, num_domain=0, anchors=inside)
    width, layers = int(setup["width"]), int(setup["layers"])
    network = dde.nn.FNN([2] + [width] * layers + [1], "tanh", "Glorot uniform")
    with torch.no_grad():
        for linear, (weight, bias) in zip(
            network.linears, matrices(setup["theta"], width, layers), strict=True
        ):
            linear.weight.copy_(torch.from_numpy(weight))
            linear.bias.copy_(torch.from_numpy(bias))
    model = dde.Model(data, network)
    model.compile("adam", lr=float(setup["learning_rate"]), verbose=0)
    return model


if __name__ == "__main__":
    main(sys.argv[1], time_only=sys.argv[2] == "time")
