"""Training many networks at once on one device: the replicas of an evaluation, or those of many candidates.

The arithmetic of all networks is one batch (`torch_step.StackedStep`); the losses and their gradients come, as
ever, from whoever holds the program, one after the other. A candidate whose loss fails leaves the others as
they are: its networks stay where they stood.
"""

from collections.abc import Sequence

import numpy as np
import torch

from atlas_gym.evaluation.channel import CandidateError
from atlas_gym.tasks.burgers.params import BurgersParams
from atlas_gym.tasks.burgers.points import Points
from atlas_gym.tasks.burgers.torch_step import StackedStep
from atlas_gym.tasks.burgers.training import BETA1, BETA2, EPSILON, Losses, ask


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
