"""A seat for every registered environment, and one for the toy task of the evaluator's own tests."""

from collections.abc import Callable
from dataclasses import replace

import numpy as np

import atlas_gym
from atlas_gym.evaluation import Limits, Status
from atlas_gym.tasks.bandit.bare import play_bare
from atlas_gym.tasks.registry import BUILT_IN
from tests.atlas_gym.evaluation import toy
from tests.hostile.attack import Seat
from tests.hostile.catalogue import pinn

LIMITS = Limits(wall_s=1.0, cpu_s=2.0, memory_mb=256)


def play_naively(program: str, task: toy.ToyTask) -> float:
    """The toy's game as evaluators without confinement play it: with functions that the program may replace."""
    hints, hidden = task.numbers()
    namespace: dict = {}
    exec(compile(program, "<program>", "exec"), namespace)
    guesses = [[float(namespace["guess"](hint, t)) for hint in row] for t, row in enumerate(hints)]
    distance = np.mean(np.abs(np.subtract(guesses, hidden)))
    return -float(distance)


TOY = Seat(
    env_id="toy",
    task=toy.ToyTask(steps=10, limits=LIMITS),
    function="guess",
    signature="hint, t",
    answer="0.0",
    honest=toy.HONEST,
    play_bare=play_naively,
    spared={
        "search the garbage collector's objects": "hidden numbers are local variables",
        "search every module": "hidden numbers are local variables",
        "the second replica exits": "it loads the program once",
        "the second replica hangs": "it loads the program once",
        "the second replica hangs in its first call": "it loads the program once",
    },
    steal="""
    hints, hidden = names.get('hints'), names.get('hidden')
    if isinstance(hidden, np.ndarray):
        return float(hidden[arguments[1], abs(hints[arguments[1]] - arguments[0]).argmin()])
    """.strip(),
)


def bandit() -> Seat:
    """ATLAS-Bandit-v0, five replicas of 60 rounds."""
    spec = atlas_gym.make_task("ATLAS-Bandit-v0")
    task = replace(atlas_gym.make_task("ATLAS-Bandit-v0", seed=3, horizon=60, replicas=5), limits=LIMITS)
    return Seat(
        env_id="ATLAS-Bandit-v0",
        task=task,
        function="policy",
        signature="context, history, t",
        answer="0",
        honest=spec.starts["named"],
        play_bare=play_bare,
        spared={
            "search every module": "hidden state is a local variable",
            "search the garbage collector's objects": "hidden state is a local variable",
            "replace the built-in functions": "the judge, which calls them too, fails with them",
            "replace numpy's means and sums": "its score is a method of an array",
            "not a number": "arms are whole numbers",
            "an integer with an evil index": "arms are compared as the integers that they are",
        },
        steal="""
    instances = names.get('instances')
    contexts = getattr(instances, 'contexts', None)
    if contexts is not None:
        t = arguments[2]
        mine = (contexts[t] == arguments[0]).all(axis=(1, 2)).argmax()
        return int(instances.regret[t, mine].argmin())
    """.strip(),
    )


def burgers() -> Seat:
    """ATLAS-Burgers-v0, two replicas of a few steps with a small network."""
    spec = atlas_gym.make_task("ATLAS-Burgers-v0")
    small = {"steps": 5, "n_residual": 50, "n_initial": 10, "n_boundary": 10, "hidden_width": 8}
    task = atlas_gym.make_task("ATLAS-Burgers-v0", seed=3, replicas=2, hidden_layers=2, **small)
    return Seat(
        env_id="ATLAS-Burgers-v0",
        task=replace(task, limits=LIMITS),
        function="pinn_loss_strategy",
        signature="residuals, ic_err, bc_err, extras",
        answer="residuals.pow(2).mean() + ic_err.pow(2).mean() + bc_err.pow(2).mean()",
        honest=spec.starts["named"],
        prelude="import torch",
        # Any gradient is a legitimate loss; five steps of a lucky one may be worth a little.
        margin=0.1,
        otherwise={
            # It answers ahead of the questions, and has ended before the last of them or not.
            "the driver's receiving replaced": frozenset({Status.CRASHED, Status.OK}),
        },
        attacks=pinn.ATTACKS,
    )


def task_seat(env_id: str, answer: str, *, runs: int = 2, **constants: int) -> Seat:
    """A task whose programs answer `answer`, as its start from scratch does."""
    spec = atlas_gym.make_task(env_id)
    return Seat(
        env_id=env_id,
        task=replace(atlas_gym.make_task(env_id, seed=3, **constants), limits=LIMITS),
        function=spec.function,
        signature=spec.signature.partition("(")[2].rpartition(")")[0],
        answer=answer,
        honest=spec.starts["scratch"],
        runs=runs,
        otherwise=BY_CALLS,
    )


BY_CALLS: dict[str, frozenset[Status]] = {
    "the driver's sending replaced": frozenset({Status.VIOLATION}),
    "the driver's receiving replaced": frozenset({Status.VIOLATION, Status.ERROR}),
    "the driver's pipe replaced, found in its frame": frozenset({Status.OK}),
    "one replica replaces the others' functions": frozenset({Status.OK}),
    "one forged byte": frozenset({Status.ERROR, Status.TIMEOUT}),
    "rewrite its arguments": frozenset({Status.OK, Status.ERROR}),
    # Where a program is called once, nothing comes after the attack.
    "replace the code of the caller": frozenset({Status.ERROR, Status.OK}),
    "answers for a while, then silence": frozenset({Status.TIMEOUT, Status.OK}),
    # What is left may do for one more call.
    "a list that grows and catches its errors": frozenset({Status.MEMORY, Status.OK}),
}
"""How attacks end where programs are called from the trusted side; some aim at what only the other drivers do."""

ROW = "(np.column_stack([(np.arange(n) + 0.5) / n, np.full(n, 0.5)]), np.full(n, 0.5 / n) * (1 - 1e-12))"

GRID = "np.indices((4, 4)).reshape(2, -1).T"

SEATS: dict[str, Callable[[], Seat]] = {
    "toy": lambda: TOY,
    "ATLAS-Bandit-v0": bandit,
    "ATLAS-Burgers-v0": burgers,
    "ATLAS-BinPacking-v0": lambda: task_seat(
        "ATLAS-BinPacking-v0", "-np.arange(len(bins), dtype=float)", items=60, count=3
    ),
    "ATLAS-TSP-v0": lambda: task_seat("ATLAS-TSP-v0", "-distances[current, unvisited]", cities=12, count=3),
    "ATLAS-CirclePacking-v0": lambda: task_seat("ATLAS-CirclePacking-v0", ROW, runs=1),
    "ATLAS-Dispatching-v0": lambda: task_seat(
        "ATLAS-Dispatching-v0", "-np.arange(len(due))", jobs=30, count=3
    ),
    "ATLAS-Construct-DistanceRatio-v0": lambda: task_seat("ATLAS-Construct-DistanceRatio-v0", GRID, runs=1),
}


def registered_ids() -> list[str]:
    """Every environment of this package; one of the constructions, which differ in their judges only."""
    return [env_id for env_id in BUILT_IN if "Construct" not in env_id or env_id in SEATS]
