"""Where the loss and its gradient come from: a worker at the other end of a channel, or a function in this
process."""

from collections.abc import Sequence
from typing import Protocol

import numpy as np

from atlas_gym.evaluation.channel import CandidateError, Channel
from atlas_gym.tasks.burgers.params import BurgersParams
from atlas_gym.tasks.burgers.points import Points
from atlas_gym.tasks.burgers.wire import HEADER, LOADED


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
