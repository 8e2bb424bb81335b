"""The trusted side of a Burgers evaluation: trains networks with the program's loss and compares them with
the truth.

Each replica has its own initial network, collocation and test points, drawn from hidden streams that depend
on the task's seed only, so that programs are compared on common random numbers.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from atlas_gym.evaluation.channel import Channel
from atlas_gym.evaluation.hidden_streams import hidden_stream
from atlas_gym.evaluation.result import Judgement, Limits
from atlas_gym.tasks.burgers.backend import make_step, stacks
from atlas_gym.tasks.burgers.conversation import Conversation, Losses
from atlas_gym.tasks.burgers.network import draw_parameters, values
from atlas_gym.tasks.burgers.params import BurgersParams
from atlas_gym.tasks.burgers.points import Points, draw_points
from atlas_gym.tasks.burgers.reference import GRID_T, GRID_X, reference
from atlas_gym.tasks.burgers.scoring import Outcome, judgement
from atlas_gym.tasks.burgers.training import Training, ask, train

DEFAULT_LIMITS = Limits(wall_s=60.0, cpu_s=30.0, memory_mb=1024)
"""Some 2 s with the compiled kernel and 15 s without, on an idle core of 2024; the rest is for busy
machines."""


@dataclass(frozen=True)
class BurgersTask:
    """One PINN problem to score loss functions on: plain data, the hidden state is drawn where it is
    judged."""

    params: BurgersParams
    """The constants."""
    seed: int
    """Which of the split's tasks."""
    split: str = "train"
    """Family of seeds: `train` or `held_out`."""
    limits: Limits = field(default=DEFAULT_LIMITS)
    """Of one evaluation, all replicas together."""

    function = "pinn_loss_strategy"
    driver = "atlas_gym.tasks.burgers.driver"
    torch = True

    @property
    def program_seed(self) -> int:
        """Seed of the program's own random generators; public, unlike the streams of networks and points."""
        return self.seed % 2**32

    def prepare(self) -> None:
        """Nothing: what is hidden takes no time to draw beside the training."""

    def judge(self, channel: Channel) -> Judgement:
        """Train with the program's loss and score the networks."""
        return self.judgement(Conversation(channel, self.params, self.program_seed))

    def judgement(self, losses: Losses) -> Judgement:
        """Train with these losses and score the networks.

        Raises:
            CandidateError: If a loss, its gradient or a network is no longer finite.
        """
        history, thetas = self._train(losses)
        held_out = [self.held_out_points(replica) for replica in range(self.params.replicas)]
        losses.begin(held_out)
        outcomes = [
            self._outcome(replica, theta, points, losses)
            for replica, (theta, points) in enumerate(zip(thetas, held_out, strict=True))
        ]
        return judgement(outcomes, history, reference(self.params.viscosity), self.params.metric)

    def training(self, replica: int) -> Training:
        """A replica at its beginning: its initial network and its points."""
        return Training(self.params, *self.beginning(replica))

    def beginning(self, replica: int) -> tuple[Points, np.ndarray]:
        """The points and the initial network of a replica."""
        p = self.params
        theta = draw_parameters(p.hidden_width, p.hidden_layers, self._stream(replica, "network"))
        return draw_points(p, self._stream(replica, "points")), theta

    def _train(self, losses: Losses) -> tuple[np.ndarray, Sequence[np.ndarray]]:
        """Losses of every step and replica, and the trained networks."""
        replicas = range(self.params.replicas)
        if not stacks(self.params):
            trainings = [self.training(replica) for replica in replicas]
            return train(self.params, trainings, losses), [training.theta for training in trainings]
        from atlas_gym.tasks.burgers.stacked import StackedTraining, train_stacked

        points, thetas = zip(*(self.beginning(replica) for replica in replicas), strict=True)
        stack = StackedTraining(self.params, points, thetas)
        history, (failure,) = train_stacked(self.params, stack, [losses])
        if failure is not None:
            raise failure
        return history, list(stack.thetas)

    def held_out_points(self, replica: int) -> Points:
        """A replica's test points, as many as it is trained on."""
        return draw_points(self.params, self._stream(replica, "held-out points"))

    def _outcome(self, replica: int, theta: np.ndarray, points: Points, losses: Losses) -> Outcome:
        p = self.params
        vectors = make_step(p, points).forward(theta)
        own_loss, _ = ask(losses, replica, p.steps - 1, vectors)
        residuals, edge = np.split(vectors[: p.n_residual + points.n_edge], [p.n_residual])
        terms = [np.mean(v**2) for v in (residuals, edge[: p.n_initial], edge[p.n_initial :])]
        u = values(theta, p.hidden_width, p.hidden_layers, GRID_X, GRID_T)
        return Outcome(u, np.array(terms), own_loss)

    def _stream(self, replica: int, purpose: str) -> np.random.Generator:
        return hidden_stream("burgers", self.split, self.seed, replica, purpose)
