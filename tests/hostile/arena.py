"""Runs attacks of the catalogue in one environment, confined, several at a time."""

import contextlib
import itertools
import os
import queue
import threading
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

from atlas_gym.evaluation import ConfinedEvaluator, Evaluation
from tests.hostile.attack import Attack, Seat
from tests.hostile.catalogue import ATTACKS
from tests.hostile.scene import Scene

LANES = 4
"""Many attacks only wait for their limit, so more lanes than cores."""
HONEST_EVERY = 3
"""The honest program follows so many attacks: what they do to it does not heal."""
SAMPLE_EVERY = 5
"""The quick suite tries the first and every so manieth attack of a category, but for the environment `WHOLE`."""
WHOLE = "ATLAS-Bandit-v0"
"""The environment in which the quick suite tries every attack."""
OPEN_FILES = 500
"""So that the descriptors of fork servers and workers begin above this number."""


@dataclass
class Outcome:
    """What came of one attack."""

    evaluation: Evaluation
    """As the evaluator reported it."""
    harm: list[str]
    """What it achieved; should be empty."""


@dataclass
class Record:
    """What came of all attacks in one environment."""

    outcomes: dict[str, Outcome] = field(default_factory=dict)
    """By the attack's name."""
    honest: list[Evaluation] = field(default_factory=list)
    """The honest program's evaluations, before, between and after."""
    errors: list[BaseException] = field(default_factory=list)
    """What the evaluator itself raised; should be empty."""


def catalogue_of(seat: Seat) -> tuple[Attack, ...]:
    """What of the general catalogue can do anything to this environment, and what is meant for it."""
    general = [attack for attack in ATTACKS if attack.runs <= seat.runs]
    expected = [replace(a, statuses=seat.otherwise.get(a.name, a.statuses)) for a in general]
    return (*expected, *seat.attacks)


def attacks_on(seat: Seat) -> tuple[Attack, ...]:
    """Those of an environment's catalogue that can do anything on this machine."""
    return tuple(attack for attack in catalogue_of(seat) if attack.works_here)


def sample_of(seat: Seat) -> tuple[Attack, ...]:
    """What the quick suite tries of an environment's catalogue: every category."""
    whole = catalogue_of(seat)
    if seat.env_id == WHOLE:
        return whole
    seen, chosen = Counter[str](), []
    for attack in whole:
        if seen[attack.category] % SAMPLE_EVERY == 0:
            chosen.append(attack)
        seen[attack.category] += 1
    return tuple(chosen)


@contextlib.contextmanager
def many_open_files() -> Iterator[None]:
    """This process holds `OPEN_FILES` files in the block."""
    with contextlib.ExitStack() as stack:
        for _ in range(OPEN_FILES):
            stack.enter_context(open(os.devnull))
        yield


@many_open_files()
def run(seat: Seat, attacks: Sequence[Attack], lanes: int = LANES) -> Record:
    """Evaluate these attacks; each lane has its own evaluator and scene. The process has many files open."""
    record, waiting = Record(), queue.SimpleQueue[Attack]()
    for attack in attacks:
        waiting.put(attack)
    threads = [threading.Thread(target=_lane, args=(seat, waiting, record)) for _ in range(lanes)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return record


def _lane(seat: Seat, waiting: "queue.SimpleQueue[Attack]", record: Record) -> None:
    # The honest program is to show that its score is untouched, not how busy the machine is.
    patient = replace(seat.task, limits=replace(seat.task.limits, wall_s=60.0, cpu_s=60.0))
    try:
        with ConfinedEvaluator() as evaluator, Scene() as scene:
            record.honest.append(evaluator.evaluate(seat.honest, patient))
            ceiling = (record.honest[-1].score or 0.0) + seat.margin
            for number in itertools.count(1):
                try:
                    attack = waiting.get_nowait()
                except queue.Empty:
                    break
                evaluation = evaluator.evaluate(seat.program(attack, scene), seat.task)
                harm = scene.harm(evaluation, ceiling, seat.task.limits.wall_s)
                record.outcomes[attack.name] = Outcome(evaluation, harm)
                if number % HONEST_EVERY == 0:
                    record.honest.append(evaluator.evaluate(seat.honest, patient))
            record.honest.append(evaluator.evaluate(seat.honest, patient))
    except BaseException as error:  # noqa: BLE001 - reported by the test
        record.errors.append(error)
