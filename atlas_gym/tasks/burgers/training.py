"""Training the networks by Adam, on losses and gradients from a worker or from functions in this process."""

from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np

from atlas_gym.evaluation.channel import CandidateError, Channel
from atlas_gym.tasks.burgers.network import Points
from atlas_gym.tasks.burgers.params import HEADER, LOADED, BurgersParams
from atlas_gym.tasks.burgers.steps import CompiledStep, stacks

_BETA1, _BETA2, _EPSILON = 0.9, 0.999, 1e-8

LARGEST_LOSS = 1e100
"""Losses count up to this size: sums, squares and pictures of them stay finite."""


class Losses(Protocol):
    """Answers for every replica in turn, first while training, then once at the held-out points."""

    def begin(self, points: Sequence[Points]) -> None:
        """Say where the vectors to come are taken, for each replica."""

    def ask(self, replica: int, epoch: int, vectors: np.ndarray) -> np.ndarray:
        """Give residuals, errors, u and u_x; get the loss, then its gradient with respect to the first two.

        Every epoch asks all replicas, in order.
        """


class Conversation:
    """Losses from the driver in a worker."""

    def __init__(self, channel: Channel, params: BurgersParams, program_seed: int):
        self._channel = channel
        counts = (params.replicas, params.n_residual, params.n_initial, params.n_boundary, params.steps)
        self._answer_bytes = 8 * (1 + params.n_residual + params.n_initial + params.n_boundary)
        channel.send(HEADER.pack(*counts, program_seed))
        if channel.receive(len(LOADED)) != LOADED:
            raise CandidateError("the program answered before it was asked")

    def begin(self, points: Sequence[Points]) -> None:
        for replica in points:
            self._channel.send(np.concatenate([replica.x, replica.t, replica.nu]))

    def ask(self, replica: int, epoch: int, vectors: np.ndarray) -> np.ndarray:
        # The worker counts replicas and epochs itself.
        return np.frombuffer(self._channel.exchange(vectors, self._answer_bytes))


class Training:
    """Networks in training together, of one set of points each: `vectors` for the losses, `update` with their
    gradients."""

    def __init__(self, params: BurgersParams, points: Sequence[Points], thetas: Sequence[np.ndarray]):
        self.points = list(points)
        self._learning_rate = params.learning_rate
        if stacks(params):  # torch is imported where it does the arithmetic
            from atlas_gym.tasks.burgers.stacked import StackedStep

            self._step: Any = StackedStep(params, self.points)
        else:
            self._step = CompiledStep(params, self.points)
        self._thetas = self._step.put(np.stack(thetas))
        self._mean, self._square = 0.0 * self._thetas, 0.0 * self._thetas
        self._count = 0

    @property
    def thetas(self) -> np.ndarray:
        return np.array(self._thetas.tolist())  # by a list, which tensors of any device give

    def vectors(self) -> np.ndarray:
        """Residuals, initial and boundary errors, u and u_x at the current parameters, one after the
        other; a row for each network."""
        return self._step.forward(self._thetas)

    def update(self, adjoints: np.ndarray) -> None:
        """Take one step of Adam (Kingma and Ba 2015, torch's defaults).

        Args:
            adjoints: Gradients of the losses with respect to residuals and errors, a row for each network.
        """
        gradient = self._step.backward(adjoints)
        self._count += 1
        self._mean += (1.0 - _BETA1) * (gradient - self._mean)
        self._square *= _BETA2
        self._square += (1.0 - _BETA2) * gradient * gradient
        scale = self._square**0.5 / np.sqrt(1.0 - _BETA2**self._count) + _EPSILON
        self._thetas = self._thetas - self._learning_rate / (1.0 - _BETA1**self._count) * self._mean / scale


def train(params: BurgersParams, training: Training, losses: Losses) -> np.ndarray:
    """Train networks in lockstep, one for each replica that `losses` answers for.

    Returns the loss of every step and network, (steps, networks). Raises CandidateError as `ask` does.
    """
    history = np.empty((params.steps, len(training.points)))
    losses.begin(training.points)
    # A loss that blows up overflows in the arithmetic here; it is found out by the checks, not by warnings.
    with np.errstate(all="ignore"):
        for epoch in range(params.steps):
            gradients = []
            for replica, vectors in enumerate(training.vectors()):
                history[epoch, replica], gradient = ask(losses, replica, epoch, vectors)
                gradients.append(gradient)
            training.update(np.stack(gradients))
    return history


def ask(losses: Losses, replica: int, epoch: int, vectors: np.ndarray) -> tuple[float, np.ndarray]:
    """The loss and its gradient; CandidateError unless network and gradient are finite, and the loss not too large."""
    if not np.isfinite(vectors).all():
        raise CandidateError(f"the training diverged: the network is no longer finite at epoch {epoch}")
    answer = losses.ask(replica, epoch, vectors)
    loss, gradient = float(answer[0]), answer[1:]
    if not abs(loss) <= LARGEST_LOSS:
        raise CandidateError(
            f"the loss is {loss:.3g} at epoch {epoch}; keep it between -{LARGEST_LOSS:.0e} and {LARGEST_LOSS:.0e}, "
            "e.g. with torch.clamp"
        )
    if not np.isfinite(gradient).all():
        raise CandidateError(
            f"the gradient of the loss is not finite at epoch {epoch}; avoid sqrt, log and division at zero"
        )
    return loss, gradient
