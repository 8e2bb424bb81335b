"""Constants of a task that are one of a few: they reach other processes, and only what is one of them is taken."""

from atlas_gym.evaluation import EvaluatorPool
from atlas_gym.tasks.registry import find_task

FILE = '''
from enum import Enum

import atlas_gym


class Law(Enum):
    EVEN = "even"
    HEAVY = "heavy"


class Half(atlas_gym.ProgramTask):
    """x: a number. Returns half of it."""

    start = "def half(x):\\n    return x / 2\\n"

    law: Law = Law.EVEN

    def instances(self, rng):
        return rng.random(3) if self.law is Law.EVEN else rng.pareto(1.5, 3)

    def score(self, program, x):
        return -abs(program(float(x)).number() - x / 2) - (self.law is Law.EVEN) / 4
'''


def test_an_enum_of_a_tasks_file_reaches_other_processes(tmp_path):
    (tmp_path / "law_of_numbers.py").write_text(FILE)
    task = find_task(str(tmp_path / "law_of_numbers.py")).from_keywords()
    with EvaluatorPool(1) as pool:
        assert [pool.evaluate(task.starts["named"], task).score for _ in range(2)] == [-0.25, -0.25]
