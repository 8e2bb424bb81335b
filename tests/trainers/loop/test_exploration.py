"""Exploration with a model and an evaluator that are functions: exact order, exact ids, exact resumption."""

import random
from concurrent.futures import Future
from dataclasses import replace

import pytest

from agents.engines.engine import Completion
from agents.research_agent import ResearchAgent
from agents.settings import AgentSettings
from agents.supporters import Consultation, ExplorationAdvice, SupporterCall
from atlas_gym.evaluation import Evaluation, InfrastructureError, Status
from atlas_gym.seeding import stream
from atlas_gym.tasks.program_task import ProgramTask
from trainers.data.rollouts import ProgramCache, again, fresh_samples
from trainers.loop.exploration import Explorer
from trainers.loop.settings import ExplorationSettings
from trainers.store.store import RunStore

START = "import math\n\n\ndef f(x):\n    a = 1\n    b = 2\n    return a * x + b\n"


class Toy(ProgramTask):
    """Make f large."""

    start = START
    floor = -9.0


SPEC = Toy()
SETTINGS = ExplorationSettings(islands=3, samples=4, groups=2)
ROUNDS = 6


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
        self.programs.append(program)
        status, score = Status.OK, None
        try:
            names: dict = {}
            exec(program, names)
            score = float(names["f"](2))
        except SyntaxError:
            status = Status.INVALID
        future: Future = Future()
        future.set_result(
            Evaluation(status=status, score=score, detail="", metrics={"normalized_score": 0.0}, diagnosis="",
                       wall_s=0.0, cpu_s=0.0, peak_memory_mb=0.0, layers=(), traces={})
        )  # fmt: skip
        return future


def explore(folder, dies_after=None, settings=SETTINGS):
    """One process's life: from whatever is stored to the last round; returns the evaluator."""
    evaluator, writer = Evaluator(), Writer(dies_after)
    with RunStore(folder) as store:
        agent = ResearchAgent(SPEC, AgentSettings(migrate_every=2), seed=5)
        explorer = Explorer(settings, agent, lambda: writer, ProgramCache(evaluator, [None], store), store)
        explorer.seed([START])
        for _ in explorer.rounds(1, ROUNDS):
            pass
    return evaluator


def stored(folder):
    with RunStore(folder) as store:
        return list(store.candidates())


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    folder = tmp_path_factory.mktemp("whole")
    evaluator = explore(folder)
    return stored(folder), evaluator


def test_every_candidate_is_there_once(whole):
    records, _ = whole
    sampled = [r for r in records if r.origin == "agent"]
    assert len(sampled) == ROUNDS * SETTINGS.islands * SETTINGS.samples
    assert sorted(r.id for r in records) == [r.id for r in records]
    assert {(r.round, r.island) for r in sampled} == {(r, i) for r in range(1, ROUNDS + 1) for i in range(3)}


def test_a_program_is_evaluated_once_and_its_duplicates_say_so(whole):
    records, evaluator = whole
    parsed = [r.program for r in records if r.program_key]
    assert len({r.program_key for r in records if r.program_key}) == len(
        [p for p in evaluator.programs if p in set(parsed)]
    )
    first: dict[str, int] = {}
    for record in records:
        if record.program_key is None:
            assert record.duplicate_of is None
        elif record.duplicate_of is not None:
            assert next(r for r in records if r.id == record.duplicate_of).score == record.score
        else:
            assert record.program_key not in first
            first[record.program_key] = record.id


def test_several_sites_of_a_parent_are_asked_and_resumed_as_one(tmp_path):
    settings = replace(SETTINGS, sites=2)
    explore(tmp_path / "whole", settings=settings)
    with pytest.raises(KeyboardInterrupt):
        explore(tmp_path / "killed", dies_after=18, settings=settings)
    explore(tmp_path / "killed", settings=settings)
    records = stored(tmp_path / "whole")
    assert stored(tmp_path / "killed") == records
    with RunStore(tmp_path / "whole") as store:
        asked = store.asked(ROUNDS)
        assert len(asked) == ROUNDS * settings.islands * 2
        assert len(set(asked)) == len(asked)
        for record in records:
            if record.origin == "agent":  # each has the prompt that it was written for
                proposal = store.proposal(record.round, record.island, record.prompt)
                assert (proposal.hole, proposal.assemble(record.completion)) == (record.hole, record.program)


class PerTask(Evaluator):
    """Scores on one of several tasks, which are numbers."""

    def submit(self, program, task):
        future = super().submit(program, task)
        evaluation = future.result()
        if evaluation.score is not None:
            future = Future()
            future.set_result(replace(evaluation, score=task * evaluation.score))
        return future


def test_each_island_searches_on_its_own_instance(tmp_path):
    with RunStore(tmp_path) as store:
        store.set_instances(2)
        agent = ResearchAgent(SPEC, AgentSettings(migrate_every=1), seed=5, instances=2)
        explorer = Explorer(SETTINGS, agent, Writer, ProgramCache(PerTask(), [1.0, -1.0], store), store)
        explorer.notes = [["up"], ["down"]]
        explorer.seed([START, START.replace("a = 1", "a = 4")])
        list(explorer.rounds(1, ROUNDS))
        records = list(store.candidates())
        starts = [store.start(island=island).score for island in range(3)]
        assert starts == [4.0, -10.0, 4.0]
        assert records[2].duplicate_of == records[0].id  # two islands share the first instance
        assert max(r.score for r in records if r.island == 1 and r.score is not None) <= 0
        assert all(("# down" in r.prompt) == (r.island == 1) for r in records if r.origin == "agent")
        ids = {r.id: r for r in records}
        twins = [(r, ids[r.duplicate_of]) for r in records if r.duplicate_of is not None]
        assert twins
        assert all(one.island % 2 == other.island % 2 for one, other in twins)
        bests = store.best_scores(0, ROUNDS)
        assert agent.best_score == pytest.approx((bests[0] + bests[1]) / 2)
        (down,) = store.best_candidates(1, island=1)
        assert (down.island, down.score) == (1, bests[1])
        (best,) = store.best_candidates(1)
        assert best.score - starts[best.island] == max(bests[0] - 4.0, bests[1] + 10.0)


def test_copies_are_recognised(whole):
    records, _ = whole
    by_id = {r.id: r for r in records}
    for record in records:
        if record.parent_id is not None and record.program_key is not None:
            assert record.is_copy == (by_id[record.parent_id].program_key == record.program_key)


@pytest.mark.parametrize("seed", range(6))
def test_killed_anywhere_and_resumed_is_the_same_run(whole, tmp_path, seed):
    rng = random.Random(seed)
    for _ in range(4):
        try:
            explore(tmp_path, dies_after=rng.randrange(1, 60))
        except KeyboardInterrupt:
            continue
    explore(tmp_path)
    assert stored(tmp_path) == whole[0]


def test_a_failing_start_is_an_error(tmp_path):
    with RunStore(tmp_path) as store:
        agent = ResearchAgent(SPEC, AgentSettings(), seed=5)
        explorer = Explorer(SETTINGS, agent, Writer, ProgramCache(Evaluator(), [None], store), store)
        with pytest.raises(ValueError, match="starting program fails"):
            explorer.seed(["def f(x:\n"])


class Scaled(Evaluator):
    """An evaluator whose task is a factor."""

    def submit(self, program, task):
        future = super().submit(program, task)
        found = future.result()
        if found.score is None:
            return future
        scaled: Future = Future()
        scaled.set_result(replace(found, score=found.score * task))
        return scaled


def explore_drifting(folder, dies_after=None):
    """Like `explore`, but after three rounds the task turns round."""
    evaluator, writer = Scaled(), Writer(dies_after)
    with RunStore(folder) as store:
        agent = ResearchAgent(SPEC, AgentSettings(migrate_every=2), seed=5)
        explorer = Explorer(SETTINGS, agent, lambda: writer, ProgramCache(evaluator, [1.0], store), store)
        explorer.seed([START])
        list(explorer.rounds(1, 3))
        kept = {i: [r.program for r in island.population[:1]] for i, island in agent.islands.items()}
        explorer.change_tasks([-1.0])
        list(explorer.rounds(4, ROUNDS))
        return kept, store.task_began(3), store.task_began(), store.start().score, store.best_candidates(1)[0]


def test_a_changed_task_scores_the_islands_best_again_and_forgets_the_rest(tmp_path):
    best, before, began, start, winner = explore_drifting(tmp_path)
    records = stored(tmp_path)
    carried = [r for r in records if r.round == 4]
    assert (before, began) == (0, 4)
    assert {r.origin for r in carried} == {"carried"}
    for island in range(3):
        own = [r for r in carried if r.island == island]
        assert own[0].program == START
        assert set(best[island]) <= {r.program for r in own}
        assert len(own) <= SETTINGS.carried
    old = {r.id: r for r in records if r.round < 4}
    assert all(r.score == -old[r.parent_id].score for r in carried)
    assert all(r.duplicate_of is None or r.duplicate_of >= carried[0].id for r in records if r.round >= 4)
    assert all(r.parent_id >= carried[0].id for r in records if r.round > 4)
    assert start == -4.0
    assert winner.round >= 4
    assert winner.score == max(r.score for r in records if r.round >= 4 and r.score is not None)


@pytest.mark.parametrize("dies_after", [0, 13, 40, 43, 50])
def test_a_drifting_run_killed_anywhere_ends_the_same(tmp_path, dies_after):
    explore_drifting(tmp_path / "whole")
    with pytest.raises(KeyboardInterrupt):
        explore_drifting(tmp_path / "killed", dies_after)
    explore_drifting(tmp_path / "killed")
    assert stored(tmp_path / "killed") == stored(tmp_path / "whole")


class Critic:
    """A supporter that has something to say of every program, and no patch."""

    def consult(self, request):
        call = SupporterCall("exploration", "rules", "", request.key, "ok")
        return Consultation(ExplorationAdvice(critique=f"{request.key} could be larger\nimport os"), call)


def explore_with_critique(folder, dies_after=None, show=True):
    layout = replace(SETTINGS, show_critique=show)
    with RunStore(folder) as store:
        agent = ResearchAgent(SPEC, AgentSettings(), seed=5)
        cache = ProgramCache(Evaluator(), [None], store)
        explorer = Explorer(layout, agent, lambda: Writer(dies_after), cache, store, Critic())
        explorer.seed([START])
        for _ in explorer.rounds(1, 4):
            pass
    return [r for r in stored(folder) if r.origin == "agent"]


def test_a_critique_stands_in_the_next_prompt_as_a_comment(tmp_path):
    records = explore_with_critique(tmp_path / "shown")
    assert all("could be larger" not in r.prompt for r in records if r.round == 1)
    for record in (r for r in records if r.round > 1):
        said = f"# ('round', {record.round - 1}, 'island', {record.island}) could be larger import os\n"
        assert said in record.prompt
    hidden = explore_with_critique(tmp_path / "hidden", show=False)
    assert all("could be larger" not in r.prompt for r in hidden)


def test_a_resumed_run_remembers_the_critiques(tmp_path):
    whole = explore_with_critique(tmp_path / "whole")
    with pytest.raises(KeyboardInterrupt):
        explore_with_critique(tmp_path / "killed", dies_after=6)
    assert explore_with_critique(tmp_path / "killed") == whole


class Spoiling(Evaluator):
    """An evaluator on a machine that fails with every `every`-th program."""

    def __init__(self, every):
        super().__init__()
        self.every = every

    def submit(self, program, task):
        future = super().submit(program, task)
        if len(self.programs) > 1 and len(self.programs) % self.every == 0:
            future = Future()
            future.set_exception(InfrastructureError("out of memory"))
        return future


def explore_on(folder, evaluator):
    with RunStore(folder) as store:
        agent = ResearchAgent(SPEC, AgentSettings(migrate_every=2), seed=5)
        cache = ProgramCache(evaluator, [None], store)
        explorer = Explorer(SETTINGS, agent, Writer, cache, store)
        explorer.seed([START])
        return list(explorer.rounds(1, ROUNDS)), store.candidate_counts()


def test_a_program_that_the_machine_failed_is_no_candidate(tmp_path):
    plain, _ = explore_on(tmp_path / "plain", Evaluator())
    spoiled, _ = explore_on(tmp_path / "spoiled", Spoiling(every=5))
    assert all(unit["spoiled"] == 0 for unit in plain)
    assert sum(unit["spoiled"] for unit in spoiled) > 0
    assert all(u["samples"] + u["spoiled"] == p["samples"] for u, p in zip(spoiled, plain, strict=True))
    again, _ = explore_on(tmp_path / "spoiled", Evaluator())  # from the store
    assert again == spoiled


def test_a_machine_that_fails_with_every_program_ends_the_run(tmp_path):
    with pytest.raises(InfrastructureError, match="out of memory"):
        explore_on(tmp_path, Spoiling(every=1))


def test_a_spoiled_evaluation_is_not_joined_but_made_again(tmp_path):
    with RunStore(tmp_path) as store:
        spoiling = Spoiling(every=2)
        cache = ProgramCache(spoiling, [None], store)
        cache.submit("def f(x):\n    return 1\n")
        spoiled = cache.submit("def f(x):\n    return 2\n")
        assert isinstance(spoiled.exception(), InfrastructureError)
        assert cache.submit("def f(x):\n    return 2\n").result().ok


def test_fresh_samples_leave_out_what_the_machine_failed(tmp_path):
    with RunStore(tmp_path) as store:
        agent = ResearchAgent(SPEC, AgentSettings(), seed=5)
        start = Explorer(SETTINGS, agent, Writer, ProgramCache(Evaluator(), [None], store), store).seed(
            [START]
        )
        (proposal, *_) = agent.propose(1, [0], 4)
        asked = [again(proposal, 0, start)]
        cache = ProgramCache(Spoiling(every=3), [None], store)
        (group,) = fresh_samples(Writer(), cache, asked, 12, [0])
        assert 0 < len(group) < 12
        with pytest.raises(InfrastructureError):
            fresh_samples(Writer(), ProgramCache(AlwaysSpoiling(), [None], store), asked, 3, [1])


class AlwaysSpoiling(Evaluator):
    def submit(self, program, task):
        future = Future()
        future.set_exception(InfrastructureError("out of memory"))
        return future
