"""Thousands of evaluations, one in five of them hostile, on one pool: does it stay as it was?

`python -m tests.hostile.soak 2000` prints the report.
"""

import itertools
import os
import random
import sys
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

from atlas_gym.evaluation import Evaluation, EvaluatorPool
from tests.atlas_gym.evaluation.processes import descendants
from tests.hostile.arena import attacks_on
from tests.hostile.attack import Seat
from tests.hostile.scene import Scene
from tests.hostile.seats import bandit

HOSTILE_SHARE = 0.2
WARM_UP = 0.2
"""Share of the evaluations before the first measurement: caches fill, allocators grow to their size."""
_PORTION = 50


@dataclass(frozen=True)
class Footprint:
    """What this process and the pool's lasting processes hold."""

    memory_mb: float
    """Resident; pages that processes share count in each."""
    descriptors: int
    """Open descriptors, all processes together."""
    processes: int
    """How many there are."""


NOTHING = Footprint(0.0, 0, 0)


@dataclass
class Report:
    """What came of it."""

    before: Footprint = NOTHING
    """After the warm-up."""
    after: Footprint = NOTHING
    """At the end."""
    hostile: Counter[str] = field(default_factory=Counter)
    """Statuses of the hostile programs."""
    honest: Counter[str] = field(default_factory=Counter)
    """Statuses of the honest programs."""
    honest_scores: set[float | None] = field(default_factory=set)
    """One, if the honest program was never affected."""
    seconds: float = 0.0
    """Wall-clock time of it all."""

    @property
    def memory_growth(self) -> float:
        """Share by which memory grew."""
        return self.after.memory_mb / self.before.memory_mb - 1.0

    def count(self, hostile: bool, evaluation: Evaluation) -> None:
        """Take note of one evaluation."""
        (self.hostile if hostile else self.honest)[evaluation.status.value] += 1
        if not hostile:
            self.honest_scores.add(evaluation.score)


def soak(evaluations: int, workers: int = 2, seed: int = 0) -> Report:
    """Evaluate honest and hostile programs in random order and compare the footprints."""
    seat = bandit()
    report, began = Report(), time.monotonic()
    with Scene() as scene, EvaluatorPool(workers) as pool:
        batch = _batch(seat, scene, evaluations, seed)
        warm_up = int(WARM_UP * evaluations)
        _run(pool, seat, batch[:warm_up], report)
        report.before = _footprint()
        _run(pool, seat, batch[warm_up:], report)
        report.after = _footprint()
    report.seconds = time.monotonic() - began
    return report


def _batch(seat: Seat, scene: Scene, evaluations: int, seed: int) -> list[tuple[bool, str]]:
    rng = random.Random(seed)
    attacks = itertools.cycle(rng.sample(attacks_on(seat), len(attacks_on(seat))))
    batch = []
    for _ in range(evaluations):
        hostile = rng.random() < HOSTILE_SHARE
        batch.append((hostile, seat.program(next(attacks), scene) if hostile else seat.honest))
    return batch


def _run(pool: EvaluatorPool, seat: Seat, batch: list[tuple[bool, str]], report: Report) -> None:
    """In portions, so that it is not the results that take the memory."""
    for start in range(0, len(batch), _PORTION):
        portion = batch[start : start + _PORTION]
        evaluations = pool.map([program for _, program in portion], seat.task)
        for (hostile, _), evaluation in zip(portion, evaluations, strict=True):
            report.count(hostile, evaluation)


def _footprint(settle_s: float = 1.0) -> Footprint:
    time.sleep(settle_s)  # the workers kept ready are forked and quiet
    pids = [os.getpid(), *descendants()]
    return Footprint(sum(map(_resident_mb, pids)), sum(map(_descriptors, pids)), len(pids))


def _descriptors(pid: int) -> int:
    try:
        return len(os.listdir(f"/proc/{pid}/fd"))
    except PermissionError:  # an ordinary user may not look into a process that hides its memory
        return 0


def _resident_mb(pid: int) -> float:
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 2**20


def main(evaluations: int) -> None:
    """Print the report."""
    report = soak(evaluations)
    print(f"{evaluations} evaluations in {report.seconds:.0f} s on two workers")
    print(f"  honest programs   {dict(report.honest)}, {len(report.honest_scores)} distinct score")
    print(f"  hostile programs  {dict(report.hostile)}")
    for name in ("memory_mb", "descriptors", "processes"):
        print(f"  {name:<16}  {getattr(report.before, name):.0f} -> {getattr(report.after, name):.0f}")
    print(f"  memory growth     {100 * report.memory_growth:+.1f} %")


if __name__ == "__main__":
    main(int(sys.argv[1]))
