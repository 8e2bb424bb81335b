"""Training the networks: Adam on the gradient that somebody else's loss gives.

Loss and gradient come from a worker at the other end of a channel, or from a function in this process.
"""

from collections.abc import Sequence
from typing import Protocol

import numpy as np

from atlas_gym.evaluation.channel import CandidateError, Channel
from atlas_gym.tasks.burgers.network import Points
from atlas_gym.tasks.burgers.params import BurgersParams
from atlas_gym.tasks.burgers.steps import CompiledStep
from atlas_gym.tasks.burgers.wire import HEADER, LOADED

BETA1, BETA2, EPSILON = 0.9, 0.999, 1e-8

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
    """One network on its way, by the compiled kernel: `vectors` for the loss, `update` with its gradient, and again."""

    def __init__(self, params: BurgersParams, points: Points, theta: np.ndarray):
        self.points = points
        self.theta = theta.copy()
        self._learning_rate = params.learning_rate
        self._step = CompiledStep(params, points)
        self._mean = np.zeros_like(theta)
        self._square = np.zeros_like(theta)
        self._count = 0

    def vectors(self) -> np.ndarray:
        """Residuals, initial and boundary errors, u and u_x at the current parameters, one after the
        other."""
        return self._step.forward(self.theta)

    def update(self, adjoint: np.ndarray) -> None:
        """Take one step of Adam (Kingma and Ba 2015, torch's defaults).

        Args:
            adjoint: Gradient of the loss with respect to residuals and errors.
        """
        gradient = self._step.backward(adjoint)
        self._count += 1
        self._mean += (1.0 - BETA1) * (gradient - self._mean)
        self._square *= BETA2
        self._square += (1.0 - BETA2) * gradient * gradient
        scale = np.sqrt(self._square) / np.sqrt(1.0 - BETA2**self._count) + EPSILON
        self.theta -= self._learning_rate / (1.0 - BETA1**self._count) * self._mean / scale


def train(params: BurgersParams, trainings: Sequence[Training], losses: Losses) -> np.ndarray:
    """Train all replicas in lockstep; the loss of every step and replica, (steps, replicas).

    Raises:
        CandidateError: If a loss, its gradient or a network is no longer finite.
    """
    history = np.empty((params.steps, len(trainings)))
    losses.begin([training.points for training in trainings])
    # A loss that blows up overflows in the arithmetic here; it is found out by the checks, not by warnings.
    with np.errstate(all="ignore"):
        for epoch in range(params.steps):
            for replica, training in enumerate(trainings):
                vectors = training.vectors()
                history[epoch, replica], adjoint = ask(losses, replica, epoch, vectors)
                training.update(adjoint)
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
