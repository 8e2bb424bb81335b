"""One class makes a task: what it says of itself, what it hides, how it scores."""

import math
import pickle
import threading

import gymnasium as gym
import numpy as np
import pytest

import atlas_gym
from atlas_gym.evaluation import ConfinedEvaluator, Status
from tests.atlas_gym.tasks.examples import SUM, Remember, Threefold
from tests.atlas_gym.tasks.in_process import judge_in_process

PREAMBLE = "import numpy as np\n\n\n"
START = PREAMBLE + 'def double(x):\n    """Twice as much."""\n    return 2 * x\n'


def drawn(task):
    return list(task.instances(task._stream("instances")))


def test_names_and_texts_are_read_off_the_start():
    task = Threefold()
    assert (task.function, task.signature) == ("double", "def double(x):")
    assert task.starts["named"] == START
    assert list(task.programs) == ["start", "triple"]
    assert task.programs["start"].title == "Twice as much"
    assert "def double(x):\n" in task.programs["triple"].program
    assert task.programs["triple"].title == "Three times as much"
    assert task.worst_score == -3.0


def test_the_description_has_the_words_and_the_signature():
    assert atlas_gym.make_task("tests.atlas_gym.tasks.examples:Threefold").description.startswith(
        "Write a Python function `double`.\n\n"
        "x: a number.\nReturns three times as much, give or take a little.\n\ndef double(x):\n"
    )


SECTIONS = """\
## Description
What it is about.

>>> import gymnasium
>>> 1 + 1
2

## Observation Space
A text.

## Rewards
The score, at most 0.

`info` has many keys, of
which no program sees any.

## Arguments
| a | b |"""


def test_of_sections_those_on_programs_are_told_without_examples():
    task = type("Told", (Threefold,), {"__doc__": SECTIONS, "__module__": __name__})
    assert task().describe() == "Description\nWhat it is about.\n\nRewards\nThe score, at most 0."


def test_constants_are_keywords_and_presets_sets_of_them():
    assert Threefold.from_keywords() == Threefold()
    assert Threefold.from_keywords(preset="many") == Threefold(count=40)
    assert Threefold.from_keywords(preset="many", noise=0.0) == Threefold(count=40, noise=0.0)
    assert Threefold.from_keywords(limits=atlas_gym.Limits()).limits == atlas_gym.Limits()
    with pytest.raises(ValueError, match="no preset 'few'; there are default, many"):
        Threefold.from_keywords(preset="few")
    with pytest.raises(
        TypeError, match=r"no constant cuont; did you mean count\? there are count, noise, limits"
    ):
        Threefold.from_keywords(cuont=3)
    with pytest.raises(TypeError, match="no constant seed"):
        Threefold.from_keywords(seed=3)


def test_a_seed_gives_the_same_instances_and_a_split_or_seed_others():
    task = Threefold()
    np.testing.assert_equal(drawn(task.at(3)), drawn(task.at(3)))
    others = [task.at(3), task.at(4), task.at(3, "held_out"), task.at(4, "held_out")]
    assert len({drawn(other)[0][0] for other in others}) == 4


def test_instances_depend_on_the_secret(monkeypatch):
    monkeypatch.setenv("ATLAS_GYM_SECRET", "one")
    one = drawn(Threefold())
    monkeypatch.setenv("ATLAS_GYM_SECRET", "another")
    assert drawn(Threefold())[0][0] != one[0][0]


@pytest.mark.parametrize(
    ("seed", "split"), [(-1, "train"), (0.5, "train"), ("one", "train"), (math.nan, "train"), (0, "test")]
)
def test_what_is_no_seed_or_split_is_refused(seed, split):
    with pytest.raises(ValueError, match="must be"):
        Threefold().at(seed, split)


def test_scores_are_means_metrics_are_averaged_and_the_worst_instance_is_told(evaluator):
    task = Threefold(noise=0.0).at(5)
    hints = np.array([x[0] for x in drawn(task)])
    evaluation = evaluator.evaluate(START, task)
    np.testing.assert_allclose(evaluation.traces["scores"], -hints)
    assert evaluation.score == evaluation.traces["scores"].mean()
    assert evaluation.metrics == {
        "normalized_score": 1 + evaluation.score / 2,
        "error": -evaluation.score,
    }
    assert evaluation.traces["hint"] == hints.max()
    assert f"On the worst: It was {hints.max():.1f} off." in evaluation.diagnosis
    assert evaluation.diagnosis.startswith(f"Scores by instance: {-hints[0]:.4f}, ")


def test_scores_below_the_floor_count_as_the_floor(evaluator):
    evaluation = evaluator.evaluate("def double(x):\n    return 99.0\n", Threefold())
    assert evaluation.score == -2.0
    assert evaluation.metrics["normalized_score"] == 0.0


def test_confined_and_in_this_process_the_score_is_the_same(evaluator):
    state = np.random.get_state()[1].copy()
    for program in (START, Threefold.programs["triple"].program):
        evaluation = evaluator.evaluate(program, Threefold().at(1))
        assert evaluation.score == judge_in_process(program, Threefold().at(1)).score
    assert (np.random.get_state()[1] == state).all()


@pytest.mark.parametrize("lockstep", [False, True])
def test_each_instance_has_a_run_of_its_own(lockstep, evaluator):
    evaluation = evaluator.evaluate(SUM, Remember(lockstep=lockstep))
    assert (evaluation.status, evaluation.score) == (Status.OK, 0.0), evaluation.detail


class Careless(atlas_gym.ProgramTask):
    """Returns a number."""

    start = "def f(x):\n    return 0.0\n"

    def instances(self, rng):
        return [np.ones(1)]

    def score(self, program, instance):
        instance -= 0.25  # an author's mistake that must not reach the next program
        program(instance)
        return -float(instance[0])


def test_one_program_cannot_change_the_instances_of_the_next(evaluator):
    writes = "def f(x):\n    x[:] = 0.0\n    return 0.0\n"
    assert [evaluator.evaluate(writes, Careless()).score for _ in range(3)] == [-0.75] * 3


def test_observations_come_from_a_stream_of_their_own():
    class Seen(Threefold):
        def observe(self, rng):
            return [f"the first number is {rng.random():.9f}"]

    assert Threefold().observations() == ()
    assert Seen().at(1).observations() == Seen().at(1).observations() != Seen().at(2).observations()


def test_constants_of_another_type_are_refused():
    for wrong, called in (
        ({"count": 2.0}, "a whole number"),
        ({"noise": "much"}, "a number"),
        ({"count": True}, "a whole"),
    ):
        with pytest.raises(ValueError, match=f"it must be {called}"):
            Threefold.from_keywords(**wrong)
    assert Threefold.from_keywords(noise=1).noise == 1


class Sized(Threefold):
    """A constant that has parts."""

    sizes: tuple = (1, 2)


def test_tasks_are_values():
    task = Threefold(count=3).at(7)
    assert pickle.loads(pickle.dumps(task)) == task
    assert Sized.from_keywords(sizes=[3, 4]) == Sized(sizes=(3, 4))
    assert hash(Sized.from_keywords(sizes=[[3], [4]])) == hash(Sized(sizes=((3,), (4,))))
    with pytest.raises(ValueError, match="sizes is a dict; it must be a number, a text or a list"):
        Sized.from_keywords(sizes={"a": 1})
    with pytest.raises(AttributeError):
        task.count = 4


def test_what_a_task_has_not_is_said():
    with pytest.raises(ValueError, match="has no template tall; there are none"):
        Threefold.template("tall")
    with pytest.raises(NotImplementedError, match="Empty does not define instances"):
        drawn(type("Empty", (Threefold,), {"instances": atlas_gym.ProgramTask.instances})())
    assert Threefold().reference_scores() == {}


def test_a_task_that_holds_a_lock_cannot_be_given_to_other_processes():
    class Locked(Threefold):
        """x: a number."""

        lock = threading.Lock()

    with pytest.raises(TypeError, match=r"cannot be given .*Locked.*; open files, locks and connections in"):
        pickle.dumps(Locked())


def test_an_integer_that_cannot_be_sent_is_the_authors_mistake():
    class Huge(Threefold):
        """x: a number."""

        def instances(self, rng):
            return [10**20]

        def score(self, program, instance):
            return -abs(program(instance).number())

    with pytest.raises(TypeError, match="double cannot be given an integer beyond 64 bits"):
        judge_in_process(START, Huge())


def halved(x):
    """Half of it, step by step."""
    return x if x < 1 else halved(x / 2)


def test_an_expert_may_call_itself(evaluator):
    class Recursive(Threefold):
        """x: a number."""

        experts = (halved,)

    task = Recursive()
    assert evaluator.evaluate(task.programs["halved"].program, task).ok


def test_an_environment_poses_it():
    env = gym.make("atlas_gym:ATLAS-Bandit-v0")  # importing the package is enough for its own ids
    env.close()

    class Posed(Threefold, id="Posed-v0"):
        """Posed."""

    env = gym.make("Posed-v0", count=4, turns=2, render_mode="ansi")
    observation, info = env.reset(seed=3)
    assert START in observation
    assert info["task_seed"] == 3
    _, reward, terminated, _, info = env.step(START)
    assert info["metrics"].keys() == {"normalized_score", "error"}
    assert not terminated
    assert env.step("def double(x):\n    return None\n")[1] == -3.0
    assert "Posed-v0" in env.render()
    env.close()
    task = atlas_gym.make_task("Posed-v0", seed=3, count=4)
    with ConfinedEvaluator() as evaluator:
        assert evaluator.evaluate(START, task).score == reward
