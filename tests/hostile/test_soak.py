"""A pool of two stays what it was through thousands of programs, one in five hostile."""

import itertools
import os
import random
import time
from pathlib import Path

import pytest

from atlas_gym.evaluation import EvaluatorPool
from tests.atlas_gym.evaluation.processes import descendants
from tests.hostile.arena import attacks_on
from tests.hostile.scene import Scene
from tests.hostile.seats import bandit

HOSTILE_SHARE = 0.2
WARM_UP = 0.2
"""Share of the evaluations before the first measurement: caches fill, allocators grow to their size."""
PORTION = 50
"""Programs at a time, so that it is not the results that take the memory."""


@pytest.mark.parametrize(
    "evaluations", [80, pytest.param(2000, marks=[pytest.mark.slow, pytest.mark.timeout(1800)])]
)
def test_pool_survives_unchanged(evaluations):
    seat, rng = bandit(), random.Random(0)
    attacks = itertools.cycle(rng.sample(attacks_on(seat), len(attacks_on(seat))))
    honest = []
    with Scene() as scene, EvaluatorPool(2) as pool:

        def run(count):
            for start in range(0, count, PORTION):
                hostile = [rng.random() < HOSTILE_SHARE for _ in range(min(PORTION, count - start))]
                programs = [seat.program(next(attacks), scene) if h else seat.honest for h in hostile]
                evaluations = pool.map(programs, seat.task)
                honest.extend(e for e, h in zip(evaluations, hostile, strict=True) if not h)

        warm_up = int(WARM_UP * evaluations)
        run(warm_up)
        before = footprint()
        run(evaluations - warm_up)
        after = footprint()
    assert {(evaluation.status.value, evaluation.score) for evaluation in honest} == {("ok", honest[0].score)}
    assert after[1:] == before[1:]
    assert after[0] <= 1.05 * before[0]


def footprint(settle_s=1.0):
    """Resident pages (shared ones count in each process), open descriptors and number of lasting processes."""
    time.sleep(settle_s)  # the workers kept ready are forked and quiet
    pids = [os.getpid(), *descendants()]
    pages = sum(int(Path(f"/proc/{pid}/statm").read_text().split()[1]) for pid in pids)
    return pages, sum(map(descriptors, pids)), len(pids)


def descriptors(pid):
    try:
        return len(os.listdir(f"/proc/{pid}/fd"))
    except PermissionError:  # an ordinary user may not look into a process that hides its memory
        return 0
