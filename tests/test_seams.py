"""Each seam with the smallest thing that fits it: what it takes to add an engine, an evaluator, a task, a supporter, a
store or a logger (docs/seams.md). All six explore together."""

from collections.abc import Sequence

import pytest

import atlas_gym
from atlas_gym.agents.engines.engine import Completion, Generator, OnCompletion, Request
from atlas_gym.agents.research_agent import ResearchAgent
from atlas_gym.agents.settings import AgentSettings
from atlas_gym.agents.supporters.consult import Consultation, SupporterCall
from atlas_gym.agents.supporters.exploration import ExplorationAdvice, Patch
from atlas_gym.evaluation import Evaluation, Pool, Status
from atlas_gym.trainers.data.rollouts import ProgramCache
from atlas_gym.trainers.loop.exploration import Explorer
from atlas_gym.trainers.loop.observer import Observer
from atlas_gym.trainers.loop.settings import ExplorationSettings


class CountingEngine(Generator):
    """Writes the whole numbers, one after the other."""

    def stream(self, requests: Sequence[Request], on_completion: OnCompletion) -> None:
        for index, request in enumerate(requests):
            for sample in range(request.n):
                on_completion(index, sample, Completion(f" {request.seed % 100 + sample}\n", tokens=1))


class TrustingEvaluator:
    """Runs programs in this very process."""

    def ready(self, wait_s: float) -> None: ...

    def evaluate(self, program, task, wait_s):
        names: dict = {}
        exec(program, names)
        return Evaluation(Status.OK, task.score(names[task.function], None))

    def stop(self) -> None: ...

    def kill(self) -> None: ...


class Largest(atlas_gym.ProgramTask):
    """Returns a number, the larger the better."""

    start = "def number():\n    best = 1\n    return best\n"

    def score(self, program, instance):
        return float(program())


class Doubling:
    """Proposes a program with a larger number."""

    def consult(self, request):
        patch = Patch(
            f"def number():\n    best = {2 * int(request.parent.score)}\n    return best\n", "double"
        )
        call = SupporterCall("exploration", "rules", "", request.key, "ok")
        return Consultation(ExplorationAdvice(patches=(patch,)), call)

    def resume(self, calls) -> None: ...


class Dictionary:
    """Keeps everything until the process ends."""

    def __init__(self):
        self.units = {}

    def add_unit(self, round_, group, candidates, summary, proposals=(), calls=()):
        self.units[round_, group] = (list(candidates), dict(summary))

    def unit_summary(self, round_, group):
        return self.units[round_, group][1] if (round_, group) in self.units else None

    def unit_candidates(self, round_, islands):
        return [c for c in self._candidates() if c.round == round_ and c.island in islands]

    def candidate(self, candidate_id):
        return next(c for c in self._candidates() if c.id == candidate_id)

    def _candidates(self):
        return [candidate for candidates, _ in self.units.values() for candidate in candidates]


class BestScores(Observer):
    """Notes the best score so far."""

    def __init__(self):
        self.scores = []

    def unit(self, summary, best):
        self.scores.append(best)


@pytest.fixture(scope="module")
def explored():
    """Four rounds of the six together: the store and the logger."""
    task, store, logger = Largest(), Dictionary(), BestScores()
    with Pool([TrustingEvaluator]) as pool:
        explorer = Explorer(
            ExplorationSettings(islands=2, samples=2, groups=2, patches=1),
            ResearchAgent(task, AgentSettings(), seed=0),
            CountingEngine,
            ProgramCache(pool, [task], store),
            store,
            Doubling(),
        )
        explorer.seed([task.starts["named"]])
        for summary in explorer.rounds(1, 4):
            logger.unit(summary, explorer.agent.best_score)
    return store, logger


def test_every_candidate_was_written_scored_and_kept(explored):
    store, _ = explored
    found = [candidate for candidates, _ in store.units.values() for candidate in candidates]
    assert len(found) == 2 + 4 * 2 * (2 + 1)
    assert {candidate.origin for candidate in found} == {"seed", "agent", "supporter"}
    for candidate in found:
        names: dict = {}
        exec(candidate.program, names)
        assert candidate.score == names["number"]()


def test_the_supporters_programs_are_those_it_proposed(explored):
    store, _ = explored
    for candidates, _ in store.units.values():
        for patched in (c for c in candidates if c.origin == "supporter"):
            assert patched.score == 2 * store.candidate(patched.parent_id).score


def test_the_logger_saw_the_best_score_rise(explored):
    store, logger = explored
    best = max(c.score for candidates, _ in store.units.values() for c in candidates)
    assert len(logger.scores) == 4 * 2
    assert logger.scores == sorted(logger.scores)
    assert logger.scores[-1] == best
