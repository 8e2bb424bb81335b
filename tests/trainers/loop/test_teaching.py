"""A supporter that teaches: which prompts it is asked about, what it is told, and what is stored of its answers."""

from concurrent.futures import Future
from dataclasses import replace
from types import SimpleNamespace

import pytest

from atlas_gym.agents.proposals import EditLine, Showing
from atlas_gym.agents.supporters.consult import Consultation, SupporterCall
from atlas_gym.agents.supporters.exploration import ExplorationAdvice, Patch
from atlas_gym.evaluation import Evaluation, InfrastructureError, Status
from atlas_gym.program_text import program_key
from atlas_gym.tasks.program_task import ProgramTask
from atlas_gym.trainers.data.rollouts import ProgramCache
from atlas_gym.trainers.loop.config import load_config
from atlas_gym.trainers.loop.phase_data import answers
from atlas_gym.trainers.loop.teaching import Teacher
from atlas_gym.trainers.store.store import RunStore
from tests.trainers.samples import RECORD, parts

PROGRAM = "def f(x):\n    a = 1\n    b = 2\n    return a * x + b\n"


class Toy(ProgramTask):
    """Make f large."""

    start = PROGRAM
    floor = -9.0
    traits = frozenset({"memory"})
    hints = ("It is small.",)


class Evaluator:
    def __init__(self):
        self.programs = []

    def submit(self, program, task):
        self.programs.append(program)
        names: dict = {}
        exec(program, names)
        future: Future = Future()
        try:
            future.set_result(Evaluation(Status.OK, float(names["f"](2))))
        except TypeError:
            future.set_result(Evaluation(Status.ERROR, None, "TypeError"))
        return future


class Supporter:
    """Answers every prompt by a large number, by nothing that runs, and by a change of another line."""

    def __init__(self):
        self.requests = []

    def consult(self, request):
        self.requests.append(request)
        program, site = request.parent.program, request.site
        before, after = program[: site.start], program[site.end :]
        texts = [before + f" {text}" + after for text in ("7", "None")]
        programs = [*texts, program.replace("def f(x)", "def f(y)").replace("* x", "* y")]
        patches = tuple(
            Patch(text, f"kind {i}", program_key=key)
            for i, text in enumerate(programs)
            if (key := program_key(text) or "") not in request.tried
        )[: request.max_patches]
        return Consultation(
            ExplorationAdvice(patches=patches), SupporterCall("exploration", "rules", "", request.key, "ok")
        )

    def resume(self, calls):
        pass


@pytest.fixture
def store(tmp_path):
    """Three rounds of one island each, on three sites; in the last one the agent failed."""
    start = replace(
        RECORD, id=0, round=0, island=0, origin="seed", parent_id=None, prompt="", completion="", program=PROGRAM,
        program_key=program_key(PROGRAM), score=4.0, diagnosis="It ends at 4.", metrics={"size": 4.0},
    )  # fmt: skip
    style = EditLine("f")
    with RunStore(tmp_path) as store:
        store.add_round(0, [start], {})
        for round_, site in enumerate(style.sites(PROGRAM), start=1):
            proposal = replace(style.propose(start, site, Showing()), island=0, parent_score=4.0)
            wrote = proposal.candidate(10 * round_, round_, " None\n")
            failed = wrote.judged(Evaluation(Status.ERROR, None, "TypeError"))
            store.add_round(round_, [failed], {}, [replace(proposal, island=0)])
        yield store


def teacher(store, supporter, prompts=9, evaluator=None, gate_score="gain", taught_per_prompt=2):
    cache = ProgramCache(evaluator or Evaluator(), [Toy()], store)
    settings = {
        "taught_per_prompt": taught_per_prompt,
        "pairs": {"prompts": prompts},
        "seed": 3,
        "gate_score": gate_score,
    }
    config = load_config(None, settings)
    return Teacher(parts(config, store, cache=cache, agent=SimpleNamespace(spec=Toy())), supporter)


def test_lessons_answer_the_phases_prompts_and_are_scored_like_candidates(store):
    supporter = Supporter()
    teacher(store, supporter).teach(1, 2, 3, set())
    lessons = store.taught(1)
    assert [lesson.id for lesson in lessons] == [-2, -3, -4, -5]
    for lesson in lessons:
        proposal = store.proposal(lesson.round, 0)
        assert lesson.round in (2, 3)  # the first round is an earlier phase's
        assert (lesson.origin, lesson.prompt, lesson.site) == ("supporter", proposal.prompt, proposal.site)
        assert lesson.program == proposal.assemble(lesson.completion)
        assert (lesson.parent_id, lesson.parent_score) == (0, 4.0)
        assert store.candidate(lesson.id) == lesson
    assert {(lesson.style, lesson.completion, lesson.status) for lesson in lessons} >= {
        ("kind 0", " 7\n", "ok"), ("kind 1", " None\n", "error")
    }  # fmt: skip
    assert {call["phase"] for call in store.supporter_calls(1)} == {1}
    assert all(record.id >= 0 for record in store.candidates())


def test_the_supporter_is_told_what_it_was_promised(store):
    supporter = Supporter()
    teacher(store, supporter).teach(1, 3, 3, set())
    request = supporter.requests[0]
    assert (request.parent, request.task) == (store.candidate(0), Toy())
    (failure,) = request.failures
    assert (failure.status, failure.detail, failure.completion) == ("error", "TypeError", " None\n")
    assert [(request.max_patches, len(request.tried)) for request in supporter.requests] == [(1, 0), (1, 1)]


def test_prompts_set_apart_are_not_taught(store):
    apart = {store.proposal(2, 0).prompt}
    teacher(store, Supporter()).teach(1, 1, 3, apart)
    assert {lesson.round for lesson in store.taught(1)} == {1, 3}


def test_in_an_exam_the_prompts_set_apart_are_answered_too(store):
    apart = {store.proposal(1, 0).prompt}  # of an earlier phase's round
    teacher(store, Supporter(), prompts=1, gate_score="likelihood").teach(1, 2, 3, apart)
    rounds = [lesson.round for lesson in store.taught(1)]
    assert sorted(set(rounds)) in ([1, 2], [1, 3])  # one prompt to be trained on, and the exam
    assert {lesson.prompt for lesson in store.taught(1) if lesson.round == 1} == apart


def test_what_is_stored_is_not_taught_again(store):
    teacher(store, Supporter()).teach(1, 1, 2, set())
    before, again = store.taught(1), Supporter()
    teacher(store, again).teach(1, 1, 2, set())
    assert again.requests == []
    teacher(store, again).teach(2, 3, 3, set())
    assert store.taught(1) == before
    assert [lesson.id for lesson in store.taught(2)[len(before) :]] == [before[-1].id - 1, before[-1].id - 2]


def test_every_site_comes_before_any_comes_twice(store):
    style, start = EditLine("f"), store.candidate(0)
    for round_ in range(4, 12):  # one site again and again
        first = style.sites(PROGRAM)[0]
        worse = replace(start, program=PROGRAM.replace("2", str(round_)))
        proposal = replace(style.propose(start, first, Showing(worse)), island=0, parent_score=4.0)
        store.add_round(round_, [], {}, [replace(proposal, island=0)])
    teacher(store, Supporter(), prompts=3).teach(1, 1, 11, set())
    assert len({lesson.site for lesson in store.taught(1)}) == 3


def test_sites_that_pay_are_asked_about_more(store):
    class Numbers(Supporter):
        """At `a` it finds larger numbers, elsewhere nothing that runs."""

        def consult(self, request):
            self.requests.append(request)
            program, site = request.parent.program, request.site
            numbers = range(len(request.tried), len(request.tried) + request.max_patches)
            texts = [f" {9 + i}" if site.label == "a =" else f" None, {i}" for i in numbers]
            programs = [program[: site.start] + text + program[site.end :] for text in texts]
            patches = tuple(Patch(text, "kind", program_key=program_key(text) or "") for text in programs)
            call = SupporterCall("exploration", "rules", "", request.key, "ok")
            return Consultation(ExplorationAdvice(patches=patches), call)

    teacher(store, Numbers(), taught_per_prompt=40).teach(1, 1, 3, set())
    turns = [lesson.site for lesson in store.taught(1)]
    assert len(set(turns[:3])) == 3
    assert turns.count("a =") > len(turns) / 3


def test_lessons_stand_beside_the_agents_answers_where_pairs_are_formed(store):
    teacher(store, Supporter()).teach(1, 1, 3, set())
    pool = answers(store, 3, 9, None, taught=store.taught(1))
    for prompt in {record.prompt for record in pool}:
        ids = [record.id for record in pool if record.prompt == prompt]
        assert {id_ < 0 for id_ in ids} == {False, True}
    assert not any(record.id < 0 for record in answers(store, 3, 9, None))


def test_a_lesson_keeps_the_prompt_of_its_own_site(store):
    start, style = store.candidate(0), EditLine("f")
    proposals = [
        replace(style.propose(start, site, Showing(notes=["other"])), island=0, parent_score=4.0)
        for site in style.sites(PROGRAM)
    ]
    store.add_round(4, [], {}, proposals)
    teacher(store, Supporter()).teach(1, 4, 4, set())
    lessons = store.taught(1)
    assert {lesson.prompt for lesson in lessons} == {proposal.prompt for proposal in proposals}
    for lesson in lessons:
        assert store.proposal(4, 0, lesson.prompt).site == lesson.site


def test_a_lesson_that_the_machine_failed_to_score_leaves_the_next_phases_theirs(store):
    class Failing(Evaluator):
        def submit(self, program, task):
            if self.programs:
                return super().submit(program, task)
            self.programs.append(program)
            future: Future = Future()
            future.set_exception(InfrastructureError("out of memory"))
            return future

    teacher(store, Supporter(), evaluator=Failing()).teach(1, 1, 2, set())
    lost, *kept = range(-2, -5, -1)
    assert [lesson.id for lesson in store.taught(1)][:2] == kept
    teacher(store, Supporter()).teach(2, 3, 3, set())
    ids = [lesson.id for lesson in store.taught(2)]
    assert lost not in ids
    assert len(set(ids)) == len(ids)
