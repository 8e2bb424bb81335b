"""Exploration with a model and an evaluator that are functions."""

import random
from concurrent.futures import Future

from atlas_gym.agents.engines.engine import Completion
from atlas_gym.agents.research_agent import ResearchAgent
from atlas_gym.agents.settings import AgentSettings
from atlas_gym.evaluation import Evaluation, Status
from atlas_gym.seeding import stream
from atlas_gym.tasks.program_task import ProgramTask
from atlas_gym.tasks.smoke import SmokeRun
from atlas_gym.trainers.data.rollouts import ProgramCache
from atlas_gym.trainers.loop.exploration import Explorer
from atlas_gym.trainers.loop.settings import ExplorationSettings
from atlas_gym.trainers.store.store import RunStore
from tests.agents.constants import with_constants

START = "import math\n\n\ndef f(x):\n    a = 1\n    b = 2\n    return a * x + b\n"


class Toy(ProgramTask):
    """Make f large."""

    start = START
    floor = -9.0


SPEC = Toy()
SETTINGS = ExplorationSettings(islands=3, samples=4, draws=2)
ROUNDS = 6
AGENT_ALONE = {"agent": 1.0}


class Writer:
    """Writes numbers; dies when it is told to, as a killed process would."""

    def __init__(self, dies_after: int | None = None):
        self.left = dies_after

    def stream(self, requests, on_completion):
        order = [(i, j) for i, request in enumerate(requests) for j in range(request.n)]
        random.Random(0).shuffle(order)  # completions end in any order
        for i, j in order:
            if self.left is not None:
                self.left -= 1
                if self.left < 0:
                    raise KeyboardInterrupt
            rng = stream(requests[i].seed, "sample", j)
            on_completion(
                i, j, Completion(f" {rng.choice(['3', '5', 'oops(', 'x', str(rng.integers(9))])}\n", 2)
            )


class Evaluator:
    """Scores by running the program on one number, at once."""

    def __init__(self):
        self.programs = []

    def submit(self, program, task):
        if not isinstance(task, SmokeRun):
            self.programs.append(program)
        status, score = Status.OK, None
        try:
            names: dict = {}
            exec(program, names)
            score = float(names["f"](2))
        except SyntaxError:
            status = Status.INVALID
        except (NameError, TypeError, ValueError, ArithmeticError, AttributeError):
            status = Status.ERROR
        future: Future = Future()
        future.set_result(
            Evaluation(status=status, score=score, detail="", metrics={"normalized_score": 0.0}, diagnosis="",
                       wall_s=0.0, cpu_s=0.0, peak_memory_mb=0.0, layers=(), traces={})
        )  # fmt: skip
        return future


def explorer_of(store, evaluator, writer, settings=SETTINGS, writers=AGENT_ALONE, supporter=None):
    agent = ResearchAgent(SPEC, with_constants(AgentSettings, migrate_every=2), seed=5)
    cache = ProgramCache(evaluator, [SPEC], store)
    return Explorer(settings, writers, agent, lambda: writer, cache, store, supporter=supporter)


def explore(folder, dies_after=None, settings=SETTINGS, writers=AGENT_ALONE, supporter=None):
    """One process's life: from whatever is stored to the last round; returns the evaluator."""
    evaluator, writer = Evaluator(), Writer(dies_after)
    with RunStore(folder) as store:
        explorer = explorer_of(store, evaluator, writer, settings, writers, supporter)
        explorer.seed([START])
        for _ in explorer.rounds(1, ROUNDS):
            pass
    return evaluator


def stored(folder):
    with RunStore(folder) as store:
        return [record for round_ in range(ROUNDS + 1) for record in store.round_candidates(round_)]
