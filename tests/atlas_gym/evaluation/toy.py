"""A task small enough to see through: each step gives a hint, the hidden number is three times the hint."""

import math
import struct
from dataclasses import dataclass, field

from atlas_gym.evaluation import CandidateError, Channel, Judgement, Limits, hidden_stream

HONEST = "def guess(hint, t):\n    return 3.0 * hint\n"
LAZY = "def guess(hint, t):\n    return 0.0\n"


@dataclass(frozen=True)
class ToyTask:
    """Score: minus the mean distance between guess and hidden number."""

    seed: int = 0
    steps: int = 20
    replicas: int = 2
    limits: Limits = field(default_factory=lambda: Limits(wall_s=5.0, cpu_s=5.0, memory_mb=128))
    function: str = "guess"
    driver: str = "tests.atlas_gym.evaluation.toy_driver"
    torch: bool = False

    def judge(self, channel: Channel) -> Judgement:
        hints = hidden_stream("toy", self.seed, secret="test").random((self.steps, self.replicas))
        channel.send(struct.pack("<II", self.replicas, self.steps))
        channel.receive(0)
        distance = 0.0
        for row in hints:
            answer = channel.exchange(row, 8 * self.replicas)
            for guess, hint in zip(struct.unpack(f"<{self.replicas}d", answer), row, strict=True):
                if not math.isfinite(guess):
                    raise CandidateError("the guess is not finite")
                distance += abs(guess - 3.0 * hint)
        metrics = {"steps": float(self.steps)}
        return Judgement(-distance / hints.size, metrics, "well guessed", {"hints": hints})
