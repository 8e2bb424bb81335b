"""The candidate's side of a Burgers evaluation: turns residuals into a loss and its gradient inside the worker.

    params.HEADER               -> counts                  LOADED <- program loaded in every replica
    per replica                 -> x | t | nu
    per epoch and replica       -> residuals | initial errors | boundary errors | u | u_x
                                <- loss | its gradient with respect to the first three
    the last two once more at the held-out points, for the program's own loss there

Numbers are float64 in the machine's byte order. The network, its optimiser and the test points stay on the other side.
Nothing here is trusted: a program that replaces any of it can send another gradient, which is one more way to write a
loss. The checks give honest mistakes a useful message.
"""

import random
from collections.abc import Callable
from typing import Any

import numpy as np
import torch

from atlas_gym.tasks.burgers.params import HEADER, LOADED

Strategy = Callable[[torch.Tensor, torch.Tensor, torch.Tensor, dict[str, Any]], torch.Tensor]
_USE = "return a scalar tensor computed from residuals, ic_err and bc_err, such as residuals.pow(2).mean()"


def serve(load: Callable[[], Strategy], pipe: Any) -> None:
    """Load the program once per replica, answer every training epoch, then once at the held-out points."""
    replicas, *sizes, epochs, seed = HEADER.unpack(pipe.receive(HEADER.size))
    torch.set_default_dtype(torch.float64)
    seed_globals(seed)
    strategies = [load() for _ in range(replicas)]
    pipe.send(LOADED)
    n = sizes[0]
    for answered in (range(epochs), [epochs - 1]):
        points = [pipe.receive(8 * 3 * n) for _ in strategies]
        constants = [torch.frombuffer(p, dtype=torch.float64).view(3, -1) for p in points]
        for epoch in answered:
            for strategy, own in zip(strategies, constants, strict=True):
                extras = {"epoch": epoch, "n_epochs": epochs, **dict(zip(("x", "t", "nu"), own, strict=True))}
                pipe.send(answer(strategy, pipe.receive(8 * (2 * n + sum(sizes))), sizes, extras))


def seed_globals(seed: int) -> None:
    """Seed the generators that programs may use, so that the same program scores the same every time."""
    random.seed(seed)
    np.random.seed(seed)
    torch.manual_seed(seed)


def answer(strategy: Strategy, message: bytearray, sizes: list[int], extras: dict[str, Any]) -> bytes:
    """The loss and its gradient as float64 bytes; `message` is residuals, errors, u, u_x and is given to the
    program."""
    vectors, at = [], 0
    for size in (*sizes, sizes[0], sizes[0]):
        vectors.append(torch.frombuffer(message, dtype=torch.float64, count=size, offset=8 * at))
        at += size
    *errors, extras["u"], extras["u_x"] = vectors
    for vector in errors:
        vector.requires_grad_()
    loss = strategy(errors[0], errors[1], errors[2], extras)
    check_loss(loss)
    if [tuple(vector.shape) for vector in errors] != [(size,) for size in sizes]:  # the other side would wait
        raise ValueError(
            "residuals, ic_err or bc_err was resized in place; resize a copy, such as residuals.clone()"
        )
    # Towards these vectors only: state that a program keeps from earlier epochs counts as constant.
    gradients = torch.autograd.grad(loss.sum(), errors, allow_unused=True)
    if all(gradient is None for gradient in gradients):
        raise ValueError(f"the loss does not depend on residuals, ic_err or bc_err; {_USE}")
    parts = [np.zeros(len(e)) if g is None else g.numpy() for g, e in zip(gradients, errors, strict=True)]
    return np.concatenate([loss.detach().reshape(1).numpy(), *parts], dtype=np.float64).tobytes()


def check_loss(loss: Any) -> None:
    """Raise TypeError or ValueError, naming the remedy, unless `loss` is a scalar tensor with a gradient."""
    if loss is None:
        raise TypeError(f"pinn_loss_strategy returned None (is a return statement missing?); {_USE}")
    if not isinstance(loss, torch.Tensor):
        raise TypeError(
            f"pinn_loss_strategy returned a {type(loss).__name__}, not a tensor; {_USE}, without .item()"
        )
    if loss.numel() != 1:
        raise ValueError(
            f"the loss has shape {tuple(loss.shape)}; reduce it to one number with .mean() or .sum()"
        )
    if not loss.is_floating_point():
        raise TypeError(f"the loss is of type {loss.dtype}; {_USE}")
    if not loss.requires_grad:
        raise ValueError(f"the loss has no gradient; {_USE}, without .detach(), .numpy() or torch.no_grad()")


# What torch initialises lazily runs once, in the fork server, so that not every worker has to. Only in builds without
# CUDA: in the others a backward pass may start threads, which a fork would lose.
if not torch.backends.cuda.is_built():
    answer(
        lambda residuals, ic_err, bc_err, extras: torch.mean(residuals**2), bytearray(8 * 5), [1, 1, 1], {}
    )
