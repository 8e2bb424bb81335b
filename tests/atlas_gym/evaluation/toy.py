"""A task small enough to see through: the hidden number is three times the hint, give or take a little."""

import math
import struct
from dataclasses import dataclass, field

import numpy as np

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
    imports: tuple[str, ...] = ()

    def numbers(self) -> tuple[np.ndarray, np.ndarray]:
        """Hints and hidden numbers, (steps, replicas) each."""
        stream = hidden_stream("toy", self.seed, secret="test")
        hints = stream.random((self.steps, self.replicas))
        return hints, 3.0 * hints + 0.1 * stream.standard_normal(hints.shape)

    def prepare(self) -> None:
        pass

    def judge(self, channel: Channel) -> Judgement:
        hints, hidden = self.numbers()
        channel.send(struct.pack("<II", self.replicas, self.steps))
        channel.receive(0)
        distance = 0.0
        for row, wanted in zip(hints, hidden, strict=True):
            answer = channel.exchange(row, 8 * self.replicas)
            for guess, number in zip(struct.unpack(f"<{self.replicas}d", answer), wanted, strict=True):
                if not math.isfinite(guess):
                    raise CandidateError("the guess is not finite")
                distance += abs(guess - number)
        metrics = {"steps": float(self.steps)}
        return Judgement(-distance / hints.size, metrics, "well guessed", {"hints": hints})


def play_bare(program: str, task: ToyTask) -> float:
    """The same game by plain calls in one process, as evaluators without confinement play it."""
    namespace: dict = {}
    exec(compile(program, "<program>", "exec"), namespace)
    hints, hidden = task.numbers()
    distance = 0.0
    for t in range(task.steps):
        for hint, number in zip(hints[t], hidden[t], strict=True):
            distance += abs(float(namespace["guess"](hint, t)) - number)
    return -distance / hints.size
