"""Tasks for tests, as their authors would write them."""

import numpy as np

import atlas_gym


def double(x):
    """Twice as much."""
    return 2 * x


def triple(x):
    """Three times as much."""
    factor = 3.0
    return factor * x


class Threefold(atlas_gym.ProgramTask):
    """x: a number.
    Returns three times as much, give or take a little."""

    start = double
    experts = (triple,)
    floor = -2.0
    metrics = ("error",)
    presets = {"default": {}, "many": {"count": 40}}  # noqa: RUF012 - as an author writes it
    limits = atlas_gym.Limits(wall_s=5.0, cpu_s=5.0, memory_mb=128)

    count: int = 10
    noise: float = 0.1

    def instances(self, rng):
        hints = rng.random(self.count)
        return [np.array([x, 3 * x + self.noise * rng.standard_normal()]) for x in hints]

    def score(self, program, instance):
        error = abs(program(float(instance[0])).number(-100, 100) - instance[1])
        return atlas_gym.Judgement(
            -error, {"error": error}, f"It was {error:.1f} off.", {"hint": instance[:1]}
        )


SUM = """
total = 0

def remember(step, weights):
    global total
    total += step
    return total, sum(weights)
"""


class Remember(atlas_gym.ProgramTask):
    """step: the number of the call. Returns the sum of all numbers so far, and the sum of `weights`."""

    start = SUM
    floor = -1000.0

    steps: int = 5
    lockstep: bool = False

    def instances(self, rng):
        return [rng.integers(0, 10, self.steps) for _ in range(3)]

    def score(self, program, instance):
        weights = program.keep(np.ones(4))
        totals = [self.total(program(int(step), weights)) for step in instance]
        return -abs(totals[-1] - float(instance.sum()))

    def score_all(self, calls, instances):
        if not self.lockstep:
            return super().score_all(calls, instances)
        programs = [calls.start() for _ in instances]
        weights = calls.keep(np.ones(4))
        for steps in zip(*instances, strict=True):
            asked = [(program, (int(step), weights)) for program, step in zip(programs, steps, strict=True)]
            totals = [self.total(answer) for answer in calls.ask_all(asked, all_visible=True)]
        return [-abs(total - float(steps.sum())) for total, steps in zip(totals, instances, strict=True)]

    @staticmethod
    def total(answer):
        total, weights = answer.parts(2)
        assert weights.number() == 4.0
        return total.integer(0, 10_000)


class Echo(atlas_gym.ProgramTask):
    """Returns what it is given; told apart by `check`."""

    start = "def echo(x):\n    return x\n"
    limits = atlas_gym.Limits(wall_s=2.0, cpu_s=2.0, memory_mb=256)

    check: str = "number"

    def instances(self, rng):
        return [1.5]

    def score(self, program, instance):
        for _ in range(3):
            answer = program(instance)
            answer.number(0, 10)
        return 0.0
