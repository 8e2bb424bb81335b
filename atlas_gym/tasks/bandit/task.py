"""ATLAS-Bandit-v0: the task, and the trusted side of its evaluation, which deals contexts and rewards.

The score is the negative mean regret (NMR), −(1/RT) Σ [max_a ⟨θ_t, x_a⟩ − ⟨θ_t, x_chosen⟩], in expected rewards.
Replicas advance together, so a step costs one exchange; the driver is the bandit's own, as calls cost a quarter more.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Self

import numpy as np

from atlas_gym.evaluation.channel import CandidateError, Channel
from atlas_gym.evaluation.result import Judgement
from atlas_gym.tasks.bandit import experts
from atlas_gym.tasks.bandit.driver import HEADER, LOADED
from atlas_gym.tasks.bandit.instances import Instances, draw_instances
from atlas_gym.tasks.bandit.params import PRESETS, BanditParams
from atlas_gym.tasks.bandit.prompts import HINTS, description, observe
from atlas_gym.tasks.constants import values_of
from atlas_gym.tasks.given_programs import opened, without_docstring
from atlas_gym.tasks.program_task import ProgramTask
from atlas_gym.tasks.smoke import SECONDS
from atlas_gym.tasks.template import Parameter, Template

STARTS = {"named": "sw_linucb", "inlined": "sw_linucb_inlined", "scratch": "from_scratch"}
"""Programs to start a search from: the paper's initial one twice, and one that plays without learning."""
SMOKE_STEPS = 72
"""Steps of a smoke run: enough to fill the paper's window of 50."""
SMOKE_SEED = 2**31 - 1
"""Of the bandit of smoke runs, which no run or held-out task has."""
WORST_GAUSSIAN = -10.0
"""Where scores under Gaussian contexts, whose regret has no bound, are cut off."""

SW_LINUCB = opened(
    "sw_linucb",
    without_docstring(experts.__name__, "sw_linucb"),
    Parameter("window", 5, 500, integer=True),
    Parameter("lam", 0.01, 100.0),
    Parameter("alpha", 0.01, 100.0),
)
"""LinUCB on the last `window` steps. The bounds of templates are wide, and their middle (coordinates 0) is a program to
start from, here the paper's initial one, not a solution: a search that stands still shows nothing."""

DISCOUNTED_LINUCB = Template(
    "discounted_linucb",
    without_docstring(experts.__name__, "weighted_linucb")
    .replace("gamma = 0.8", "gamma = 1.0 - $forgetting")
    .replace("lam = 0.1", "lam = $lam")
    .replace("alpha = 0.1", "alpha = $alpha"),
    (Parameter("forgetting", 0.001, 0.9), Parameter("lam", 0.01, 100.0), Parameter("alpha", 0.01, 100.0)),
)
"""LinUCB in which a step of age s counts (1 - forgetting)^s: the expert `weighted_linucb`, its constants left open."""


class BanditTask(BanditParams, ProgramTask, id="ATLAS-Bandit-v0"):
    """
    ## Description
    A program plays a linear contextual bandit whose hidden parameter drifts. In each of T steps it sees K
    context vectors x and chooses one; the reward is ⟨θ_t, x⟩ plus Gaussian noise, and the unit vector θ_t
    moves by V/T per step (Eq. 17 of the ATLAS paper). The environment runs the program in a confined process
    and scores its regret.

    >>> import gymnasium as gym
    >>> import atlas_gym
    >>> env = gym.make("ATLAS-Bandit-v0")
    >>> observation, info = env.reset(seed=0)
    >>> program = "def policy(context, history, t):\\n    return 0\\n"
    >>> observation, reward, terminated, truncated, info = env.step(program)
    >>> info["status"], terminated
    ('ok', True)
    >>> -0.6 < reward == info["score"] < -0.4
    True
    >>> env.step("def policy(context, history, t):\\n    return 7\\n") # doctest: +IGNORE_EXCEPTION_DETAIL
    Traceback (most recent call last):
    gymnasium.error.ResetNeeded: ...
    >>> env.close()

    ## Action Space
    `Source(65536)`: the text of a Python module that defines `policy(context, history, t)`.

    | Argument  | Content                                                                             |
    |-----------|-------------------------------------------------------------------------------------|
    | `context` | float64 array (K, d): the context vectors of this step                              |
    | `history` | the past: (x, arm, reward) per step; arrays `.contexts` (n, d), `.arms`, `.rewards` |
    | `t`       | the step, from 0; equal to `len(history)`                                           |
    | returns   | the arm, an integer in 0 … K − 1                                                    |

    ## Observation Space
    `Source`: the task in words, the limits, the best program so far (or one to start from) and, after a
    step, the feedback on the last program: where it lost regret, or the error it raised.

    ## Rewards
    The score: minus the mean expected regret per step, averaged over the replicas; at most 0. A program that
    fails gets the worst score, −3 (−11 with Gaussian contexts), below any that a program can reach.

    `info` has a `normalized_score`: 0 is uniformly random play, 1 full information, being told θ_{t−1} in every step.

    ## Starting State
    `reset(seed=s)` poses the task of seed `s`: contexts, θ and noise of every replica. The same seed gives
    the same task on one machine; on another only with the same `ATLAS_GYM_SECRET`, so that programs cannot
    recompute the hidden state from the seed. A reset without seed poses the next task of the stream.

    ## Arguments

    | Keyword             | Default         | Meaning                                                        |
    |---------------------|-----------------|----------------------------------------------------------------|
    | `preset`            | `"default"`     | `default`, `paper`, `noisy`, `rotation`, `jumps`, `stationary` |
    | `arms`, `dimension` | 5, 5            | K and d                                                        |
    | `horizon`           | 2000            | T                                                              |
    | `noise`             | 0.2             | σ, standard deviation of the reward's noise                    |
    | `variation_budget`  | 400.0           | V, length of θ's path                                          |
    | `drift`             | `"random_walk"` | or `rotation`, `jumps`, `none`                                 |
    | `jump_length`       | 1.0             | length of a jump, for drift `jumps`                            |
    | `contexts`          | `"unit"`        | or `gaussian`: not normalised                                  |
    | `replicas`          | 5               | independent bandits per evaluation                             |
    | `limits`            | `Limits()`      | wall-clock and CPU time, memory, source and error length       |
    | `start`             | `"named"`       | program shown first; or `inlined`, `scratch`                   |

    All tasks have the keywords of `atlas_gym.envs.program_env.ProgramEnv` as well.
    """

    function = "policy"
    start = {name: without_docstring(experts.__name__, expert) for name, expert in STARTS.items()}
    experts = experts.EXPERTS
    initial = STARTS["named"]
    templates = (SW_LINUCB, DISCOUNTED_LINUCB)
    metrics = ("best_arm_share", "worst_replica", "best_replica")
    presets = PRESETS
    traits = frozenset({"drift", "memory", "regression", "choice"})
    call_hints = (
        "context: array (K, d); history.contexts: (n, d); history.rewards, history.arms: (n,)",
        "the history may be empty: n = 0",
    )
    hints = HINTS
    driver = "atlas_gym.tasks.bandit.driver"

    @classmethod
    def from_keywords(cls, *, preset: str = "", **constants: Any) -> Self:
        """See `ProgramTask`. Another horizon without another budget keeps the speed of the drift, V/T."""
        if "horizon" in constants and "variation_budget" not in constants:
            horizon = values_of(cls, {}, constants)["horizon"]  # a number, or refused by its name
            usual = super().from_keywords(preset=preset)
            constants["variation_budget"] = usual.variation_budget * horizon / usual.horizon
        return super().from_keywords(preset=preset, **constants)

    @property
    def description(self) -> str:
        return description(self)

    @property
    def worst_score(self) -> float:
        # Below every score: regret per step is at most 2 between contexts of length 1, or cut off.
        return -3.0 if self.contexts == "unit" else WORST_GAUSSIAN - 1.0

    def reference_scores(self) -> Mapping[str, float]:
        drawn = self.drawn()
        return {
            "uniform play, expected": -float(drawn.uniform_regret.mean()),
            "full information (told θ of the last step)": -float(drawn.informed_regret.mean()),
        }

    def observations(self) -> tuple[str, ...]:
        return observe(self, self.seed, self.split)

    def draw(self, axes: Any, traces: Mapping[str, np.ndarray]) -> None:
        """Cumulative regret between uniform play and full information."""
        for name in ("uniform_regret", "regret", "informed_regret"):
            axes.plot(traces[name], label=name.replace("_", " "))
        axes.set(xlabel="step", ylabel="cumulative regret")
        axes.legend()

    def drawn(self) -> Instances:
        return draw_instances(self, self.seed, self.split)

    def prepare(self) -> None:
        self.drawn()

    def smoke(self) -> Self:
        """The first steps of another bandit of this kind: histories from none to more than windows hold."""
        steps = min(self.horizon, SMOKE_STEPS)
        return replace(
            self, horizon=steps, variation_budget=self.variation_budget * steps / self.horizon, replicas=1,
            seed=SMOKE_SEED, limits=self.limits.within(SECONDS),
        )  # fmt: skip

    def judge(self, channel: Channel) -> Judgement:
        """Play a program to the end, dealing every step to its worker, and score the arms it chose."""
        instances = self.drawn()
        channel.send(HEADER.pack(self.replicas, self.arms, self.dimension, self.horizon, self.program_seed))
        if channel.receive(len(LOADED)) != LOADED:
            raise CandidateError("the program answered before it was asked")
        first_arms = np.arange(self.replicas) * self.arms
        contexts = instances.contexts.reshape(self.horizon, -1)
        rewards = instances.rewards.reshape(self.horizon, -1)
        choices = np.empty((self.horizon, self.replicas), dtype=np.uint8)
        message = np.zeros(self.replicas + contexts.shape[1])
        for t in range(self.horizon):
            message[self.replicas :] = contexts[t]
            answer = channel.exchange(message, self.replicas)
            if max(answer) >= self.arms:
                raise CandidateError(f"the program chose arm {max(answer)} of {self.arms}")
            choices[t] = chosen = np.frombuffer(answer, dtype=np.uint8)
            message[: self.replicas] = rewards[t].take(first_arms + chosen)
        return self.judgement(choices)

    def judgement(self, choices: np.ndarray) -> Judgement:
        """Score the arms chosen, (T, R) integers, and say where regret was lost."""
        instances = self.drawn()
        regret = np.take_along_axis(instances.regret, choices[..., None].astype(np.intp), axis=-1)[..., 0]
        score = max(-float(regret.mean()), self.worst_score + 1.0)
        uniform, informed = -float(instances.uniform_regret.mean()), -float(instances.informed_regret.mean())
        metrics = {
            "normalized_score": (score - uniform) / (informed - uniform),
            "best_arm_share": float((regret == 0).mean()),
            "worst_replica": -float(regret.mean(axis=0).max()),
            "best_replica": -float(regret.mean(axis=0).min()),
        }
        traces = {
            "regret": np.cumsum(regret.mean(axis=1)),
            "uniform_regret": np.cumsum(instances.uniform_regret.mean(axis=1)),
            "informed_regret": np.cumsum(instances.informed_regret.mean(axis=1)),
            "scores": -regret.mean(axis=0),
        }
        return Judgement(score, metrics, self._diagnosis(regret, uniform, informed), traces)

    def _diagnosis(self, regret: np.ndarray, uniform: float, informed: float) -> str:
        """When regret, (T, R), was lost, how often the best arm was played and how fast θ moves, in a few sentences."""
        by_step = regret.mean(axis=1)
        quarters = ", ".join(
            f"{quarter.mean():.3f}" for quarter in np.array_split(by_step, min(4, len(by_step)))
        )
        speed = self.variation_budget / self.horizon
        if self.drift == "none" or speed == 0:
            drift = "The hidden parameter does not move."
        elif self.drift == "jumps":
            every = self.jump_length / speed
            drift = f"The hidden parameter jumps by {self.jump_length:g}, on average every {every:.0f} steps."
        else:
            degrees = np.degrees(2.0 * np.arcsin(speed / 2.0))
            drift = f"The hidden parameter moves by {speed:.3g} per step, {degrees:.0f} degrees of its unit sphere."
        return (
            f"Mean regret per step by quarter of the horizon: {quarters}; in its first twentieth "
            f"{by_step[: max(1, len(by_step) // 20)].mean():.3f}. "
            f"It played the best arm in {(regret == 0).mean():.0%} of the steps (chance: {1 / self.arms:.0%}). "
            f"It lost {-regret.mean() / uniform:.0%} of the regret of random play; full information would lose "
            f"{informed / uniform:.0%}. {drift}"
        )
