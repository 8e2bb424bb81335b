"""The trusted side of a bandit evaluation: deals contexts and rewards, counts the regret.

The score is the negative mean regret (NMR), −(1/RT) Σ [max_a ⟨θ_t, x_a⟩ − ⟨θ_t, x_chosen⟩], in expected
rewards: the noise that a program was dealt does not count. Replicas advance together, so a step costs one
exchange.
"""

from dataclasses import dataclass, field

import numpy as np

from atlas_gym.evaluation.channel import CandidateError, Channel
from atlas_gym.evaluation.result import Judgement, Limits
from atlas_gym.tasks.bandit.diagnosis import diagnose
from atlas_gym.tasks.bandit.driver import HEADER, LOADED
from atlas_gym.tasks.bandit.instances import Instances, draw_instances
from atlas_gym.tasks.bandit.params import BanditParams


@dataclass(frozen=True)
class BanditTask:
    """One bandit problem to score programs on: plain data, the hidden state is drawn where it is judged."""

    params: BanditParams
    """The constants."""
    seed: int
    """Which of the split's tasks."""
    split: str = "train"
    """Family of seeds: `train` or `held_out`."""
    limits: Limits = field(default_factory=Limits)
    """Of one evaluation, all replicas together."""

    function = "policy"
    driver = "atlas_gym.tasks.bandit.driver"
    torch = False

    @property
    def program_seed(self) -> int:
        """Seed of the global random generators in the worker; public, unlike the bandit's own streams."""
        return self.seed % 2**32

    def instances(self) -> Instances:
        """The hidden state, drawn once per process."""
        return draw_instances(self.params, self.seed, self.split)

    def prepare(self) -> None:
        """Draw the hidden state, before the program's clock starts."""
        self.instances()

    def judge(self, channel: Channel) -> Judgement:
        """Play a program to the end and score its choices."""
        instances = self.instances()
        return self.judgement(self._play(channel, instances), instances)

    def score(self, choices: np.ndarray) -> float:
        """NMR of the arms chosen, (T, R) integers."""
        return score_of(_chosen(self.instances().regret, choices), self.params)

    def judgement(self, choices: np.ndarray, instances: Instances) -> Judgement:
        """Score the arms chosen, (T, R) integers, and say where regret was lost."""
        regret = _chosen(instances.regret, choices)
        score = score_of(regret, self.params)
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
            "displacement": instances.displacement,
            "replica_scores": -regret.mean(axis=0),
        }
        return Judgement(score, metrics, diagnose(regret, instances, self.params), traces)

    def _play(self, channel: Channel, instances: Instances) -> np.ndarray:
        """Deal every step to the worker and return the arms it chose, (T, R)."""
        p = self.params
        channel.send(HEADER.pack(p.replicas, p.arms, p.dimension, p.horizon, self.program_seed))
        if channel.receive(len(LOADED)) != LOADED:
            raise CandidateError("the program answered before it was asked")
        replicas = np.arange(p.replicas)
        contexts = instances.contexts.reshape(p.horizon, -1)
        choices = np.empty((p.horizon, p.replicas), dtype=np.uint8)
        message = np.zeros(p.replicas + contexts.shape[1])
        for t in range(p.horizon):
            message[p.replicas :] = contexts[t]
            answer = channel.exchange(message, p.replicas)
            if max(answer) >= p.arms:
                raise CandidateError(f"the program chose arm {max(answer)} of {p.arms}")
            choices[t] = chosen = np.frombuffer(answer, dtype=np.uint8)
            message[: p.replicas] = instances.rewards[t, replicas, chosen]
        return choices


WORST_GAUSSIAN = -10.0
"""Where scores under Gaussian contexts, whose regret has no bound, are cut off."""


def score_of(regret: np.ndarray, params: BanditParams) -> float:
    """The score of the regret suffered, (T, R)."""
    score = -float(regret.mean())
    return score if params.contexts == "unit" else max(score, WORST_GAUSSIAN)


def _chosen(per_arm: np.ndarray, choices: np.ndarray) -> np.ndarray:
    return np.take_along_axis(per_arm, choices[..., None].astype(np.intp), axis=-1)[..., 0]
