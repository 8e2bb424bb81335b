"""ATLAS-Burgers-v0: the task, and the trusted side of its evaluation, which trains networks with the program's loss.

Each replica has its own initial network, collocation and test points, drawn from hidden streams that depend
on the task's seed only, so that programs are compared on common random numbers. The driver is of its own: it
answers with gradients, for all replicas in lockstep.
"""

from collections.abc import Mapping
from dataclasses import replace
from importlib.util import find_spec
from typing import Any, Self

import numpy as np
from gymnasium.error import DependencyNotInstalled

from atlas_gym.evaluation.channel import Channel
from atlas_gym.evaluation.result import Judgement, Limits
from atlas_gym.hidden_streams import hidden_stream
from atlas_gym.tasks.burgers import experts
from atlas_gym.tasks.burgers.network import Points, draw_parameters, draw_points, values
from atlas_gym.tasks.burgers.params import METRICS, PRESETS, BurgersParams
from atlas_gym.tasks.burgers.prompts import HINTS, description
from atlas_gym.tasks.burgers.reference import GRID_T, GRID_X, reference
from atlas_gym.tasks.burgers.scoring import TERMS, WORST_METRIC, Outcome, judgement
from atlas_gym.tasks.burgers.steps import stacks
from atlas_gym.tasks.burgers.training import Conversation, Losses, Training, ask, train
from atlas_gym.tasks.given_programs import opened, without_docstring
from atlas_gym.tasks.program_task import ProgramTask
from atlas_gym.tasks.smoke import SECONDS
from atlas_gym.tasks.template import Parameter

DEFAULT_LIMITS = Limits(wall_s=60.0, cpu_s=30.0, memory_mb=1024)
"""Some 2 s with the compiled kernel and 15 s without, on an idle core of 2024; the rest is for busy
machines."""
STARTS = {"named": "weighted", "inlined": "weighted_inlined", "scratch": "from_scratch"}
"""Programs to start a search from: the plain loss twice, and one that learns nothing of the solution."""

LOSS_WEIGHTS = opened(
    "loss_weights",
    without_docstring(experts.__name__, "weighted").replace(
        "(weight * residuals) ** 2", "weight * residuals**2"
    ),
    Parameter("w_pde", 0.01, 100.0),
    Parameter("w_ic", 0.01, 100.0),
    Parameter("w_bc", 0.01, 100.0),
    Parameter("steep", 0.0, 5.0, scale="linear"),
)
"""Weights of the three terms, and how much a squared residual counts less where the solution is steep (the shock).
Bounds are wide, and their middle is the plain loss."""


class BurgersTask(BurgersParams, ProgramTask, id="ATLAS-Burgers-v0"):
    """
    ## Description
    A program computes the training loss of a physics-informed neural network (PINN) for the viscous Burgers
    equation u_t + u u_x = ν(t) u_xx on [−1, 1] × [0, 1], with u(x, 0) = −sin πx and u(±1, t) = 0 (Eq. 18 of
    the ATLAS paper). The viscosity falls from ν₀ to ν₁, so that the smooth initial wave sharpens into a
    shock. The environment trains fresh networks with the program's loss, the program itself in a confined
    process, and scores the solution.

    >>> import gymnasium as gym
    >>> import atlas_gym
    >>> env = gym.make("ATLAS-Burgers-v0", steps=20, replicas=1)
    >>> observation, info = env.reset(seed=0)
    >>> program = '''
    ... def pinn_loss_strategy(residuals, ic_err, bc_err, extras):
    ...     return torch.mean(residuals**2) + torch.mean(ic_err**2) + torch.mean(bc_err**2)
    ... '''
    >>> observation, reward, terminated, truncated, info = env.step(program)
    >>> info["status"], terminated
    ('ok', True)
    >>> reward == info["score"] == -info["metrics"]["relative_l2"]
    True
    >>> env.close()

    ## Action Space
    `Source(65536)`: the text of a Python module that defines
    `pinn_loss_strategy(residuals, ic_err, bc_err, extras)`.

    | Argument    | Content                                                                                        |
    |-------------|------------------------------------------------------------------------------------------------|
    | `residuals` | float64 tensor (n_residual,): u_t + u u_x − ν u_xx at the collocation points                   |
    | `ic_err`    | float64 tensor (n_initial,): u(x, 0) + sin πx                                                  |
    | `bc_err`    | float64 tensor (n_boundary,): u(±1, t)                                                         |
    | `extras`    | dict: `epoch`, `n_epochs`, and at the collocation points, detached, `x`, `t`, `nu`, `u`, `u_x` |
    | returns     | scalar tensor, the loss                                                                        |

    The function is called once per epoch and replica, and at the end once more, with the last epoch's number, at
    held-out points. Module-level variables keep their values within a training, so that running averages and
    attention weights work; each replica runs the program in a namespace of its own. The default type of new
    tensors is float64.

    ## Observation Space
    `Source`: the task in words, the limits, the best program so far (or one to start from) and, after a step,
    the feedback on the last program: which error stayed large and where the solution is wrong, or what the
    program raised.

    ## Rewards
    The score: minus the relative L2 error of u against a reference solution on a 101 × 201 grid, averaged
    over the replicas and cut off at −10. A program that fails, or whose loss or gradient is not finite at
    some epoch, gets the worst score, −11. `metric="residual"` scores the mean squares of the three errors at
    held-out points, and `metric="nvl"` the paper's own measure, the program's own loss at held-out points.
    The last one **can be gamed**, e.g. by `0 * residuals.mean()`: it is there to reproduce the paper, not to
    trust.

    `info` has a `normalized_score`, 1 − relative L2 error (0 is u = 0, 1 the exact solution), and as `metrics` all
    three metrics, the three mean squares, and the best and the worst replica's relative L2 error.

    ## Starting State
    `reset(seed=s)` poses the task of seed `s`: every replica's initial network, collocation and held-out
    points. The same seed gives the same task on one machine; on another only with the same
    `ATLAS_GYM_SECRET`.

    ## Arguments

    | Keyword                         | Default                | Meaning                                              |
    |---------------------------------|------------------------|------------------------------------------------------|
    | `preset`                        | `"default"`            | or `paper` (`metric="nvl"`), `constant`, `linear`    |
    | `schedule`                      | `"geometric"`          | ν(t) = ν₀ (ν₁/ν₀)^t; or `linear`, `constant` (ν₁)    |
    | `nu0`, `nu1`                    | 0.1, 0.01/π            | viscosity at t = 0 and t = 1                         |
    | `n_residual`                    | 1000                   | collocation points                                   |
    | `n_initial`, `n_boundary`       | 100, 100               | initial and boundary points                          |
    | `hidden_width`, `hidden_layers` | 32, 4                  | the network                                          |
    | `steps`, `learning_rate`        | 500, 1e-3              | Adam                                                 |
    | `replicas`                      | 3                      | trainings per evaluation                             |
    | `metric`                        | `"relative_l2"`        | or `residual`, `nvl`                                 |
    | `backend`                       | `"auto"`               | `compiled` kernel, `torch`, or whichever can be had  |
    | `device`                        | `"cpu"`                | where torch trains all replicas at once, e.g. `cuda` |
    | `limits`                        | `Limits(60, 30, 1024)` | seconds of wall clock and CPU, MB of memory, …       |
    | `start`                         | `"named"`              | program shown first; or `inlined`, `scratch`         |

    All tasks have the keywords of `atlas_gym.envs.program_env.ProgramEnv` as well.
    """

    function = "pinn_loss_strategy"
    start = {name: without_docstring(experts.__name__, expert) for name, expert in STARTS.items()}
    controls = experts.CONTROLS
    experts = experts.EXPERTS
    initial = STARTS["named"]
    templates = (LOSS_WEIGHTS,)
    metrics = (*METRICS, *TERMS, "worst_replica", "best_replica")
    errors = ("relative_l2", "residual", *TERMS)
    presets = PRESETS
    traits = frozenset({"loss"})
    call_hints = (
        "residuals: tensor (n,); ic_err, bc_err: tensors; returns a scalar tensor",
        "extras: epoch, n_epochs; tensors (n,) x, t, nu, u, u_x",
    )
    hints = HINTS
    floor = -WORST_METRIC
    torch = True
    driver = "atlas_gym.tasks.burgers.driver"
    limits = DEFAULT_LIMITS

    def at(self, seed: int, split: str = "train") -> Self:
        """See `ProgramTask`; DependencyNotInstalled without torch, in which every program is run."""
        if find_spec("torch") is None:
            raise DependencyNotInstalled('ATLAS-Burgers-v0 needs torch: pip install "atlas-gym[burgers]"')
        return super().at(seed, split)

    @property
    def description(self) -> str:
        return description(self)

    def reference_scores(self) -> Mapping[str, float]:
        """The ends of the scale of the default metric; the others have no such fixed points."""
        return {"u = 0": -1.0, "exact solution": 0.0} if self.metric == "relative_l2" else {}

    def draw(self, axes: Any, traces: Mapping[str, np.ndarray]) -> None:
        """The first network's error, u - reference, over t and x."""
        error = traces["u"] - traces["reference"]
        bound = max(float(np.abs(error).max()), 1e-12)
        shown = axes.pcolormesh(GRID_T, GRID_X, error.T, cmap="RdBu_r", vmin=-bound, vmax=bound)
        axes.figure.colorbar(shown, ax=axes)
        axes.set(xlabel="t", ylabel="x")

    def smoke(self) -> Self:
        """Three steps of one small training."""
        limits = self.limits.within(SECONDS)  # type: ignore[operator]  # mypy takes the overridden default for a descriptor
        points = {name: min(getattr(self, name), 64) for name in ("n_residual", "n_initial", "n_boundary")}
        return replace(self, steps=min(self.steps, 3), replicas=1, limits=limits, **points)

    def prepare(self) -> None:
        """Nothing: drawing the hidden state takes no time beside the training."""

    def judge(self, channel: Channel) -> Judgement:
        return self.judgement(Conversation(channel, self, self.program_seed))

    def judgement(self, losses: Losses) -> Judgement:
        """Train with these losses and score the networks.

        Raises CandidateError if a loss, its gradient or a network is no longer finite.
        """
        replicas = range(self.replicas)
        points, thetas = zip(*map(self.beginning, replicas), strict=True)
        training = Training(self, points, thetas)
        history = train(self, training, losses)
        held_out = [*map(self.held_out_points, replicas)]
        losses.begin(held_out)
        trained = zip(replicas, training.thetas, held_out, strict=True)
        outcomes = []
        here = replace(self, backend="torch", device="cpu") if stacks(self) else self
        for replica, theta, own in trained:
            vectors = Training(here, [own], [theta]).vectors()[0]
            own_loss, _ = ask(losses, replica, self.steps - 1, vectors)
            residuals, edge = np.split(vectors[: self.n_residual + own.n_edge], [self.n_residual])
            terms = [np.mean(v**2) for v in (residuals, edge[: self.n_initial], edge[self.n_initial :])]
            outcomes.append(Outcome(values(self, theta, GRID_X, GRID_T), np.array(terms), own_loss))
        return judgement(outcomes, history, reference(self.viscosity), self.metric)

    def beginning(self, replica: int) -> tuple[Points, np.ndarray]:
        theta = draw_parameters(self, self._replica_stream(replica, "network"))
        return draw_points(self, self._replica_stream(replica, "points")), theta

    def held_out_points(self, replica: int) -> Points:
        """A replica's test points, as many as it is trained on."""
        return draw_points(self, self._replica_stream(replica, "held-out points"))

    def _replica_stream(self, replica: int, purpose: str) -> np.random.Generator:
        return hidden_stream("burgers", self.split, self.seed, replica, purpose)
