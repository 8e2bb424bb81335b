"""What a task's author may get wrong is said where it stands, and is no status of a program."""

import itertools
import math

import pytest

import atlas_gym
from atlas_gym.evaluation import EvaluatorError, EvaluatorPool, Status
from tests.atlas_gym.tasks.examples import SUM, Remember, Threefold, triple

START = "def double(x):\n    return 2 * x\n"


TASK = """
import numpy as np
import atlas_gym

class Mine(atlas_gym.ProgramTask):
    "x: a number."
    start = "def double(x): return x"
    def instances(self, rng): return [1]
    def score(self, program, instance):
        {mistake}
"""


def _factor():
    return 3


def leaning(x):
    return _factor() * math.floor(x)


def test_an_authors_mistake_is_the_authors_and_no_status(evaluator):
    class Wrong(Threefold):
        def score(self, program, instance):
            return 1 / 0

    with pytest.raises(ZeroDivisionError):
        evaluator.evaluate(START, Wrong())
    assert evaluator.evaluate(START, Threefold()).ok


@pytest.mark.parametrize("place", ["", "lib/python3/site-packages/installed"])
@pytest.mark.parametrize(
    "mistake",
    [
        "1 / 0",
        "raise SystemExit(3)",
        "raise ValueError('a\\nb')",
        "raise KeyboardInterrupt",
        "np.linalg.inv(np.zeros((2, 2)))",
    ],
)
def test_in_a_pool_it_is_one_line_with_its_place(mistake, place, tmp_path):
    (folder := tmp_path / place).mkdir(parents=True, exist_ok=True)
    (folder / "my_task.py").write_text(TASK.format(mistake=mistake))
    task = atlas_gym.make_task(f"{folder / 'my_task.py'}:Mine")
    with EvaluatorPool(workers=1) as pool:
        with pytest.raises(EvaluatorError) as raised:
            pool.evaluate(START, task)
        assert pool.evaluate(START, Threefold()).ok
    assert f"in my_task.py, line 10, {mistake}:" in str(raised.value)
    assert "\n" not in str(raised.value)


def test_what_is_kept_is_the_same_for_every_run(evaluator):
    class Sharing(Remember):
        def score_all(self, calls, instances):
            kept = calls.keep({"a": [1.0, 2.0]})
            runs = [calls.start() for _ in instances]
            return [0.0 for run in runs if run(kept, 0).number() == 2.0]

    greedy = "def remember(x, _):\n    x['a'].append(0)\n    return x.pop('a')[1]\n"
    assert evaluator.evaluate(greedy, Sharing()).ok


@pytest.mark.parametrize(
    ("method", "returned", "message"),
    [
        ("score", None, "score is of type NoneType; return a number"),
        ("score", "-1", "score is of type str"),
        ("score_all", [], "score_all returned 0 results for 3 instances"),
        ("instances", [], "instances gives none"),
        ("instances", itertools.count(), "instances gives more than 1,000,000"),
        ("instances", {1.0}, r"instances returned \{1.0\}; return a list"),
        ("instances", [(x for x in "a")], "instances gives what cannot be copied for each program"),
    ],
)
def test_what_an_authors_method_may_not_return_is_said(method, returned, message, evaluator):
    task = type("Wrong", (Remember,), {"__module__": __name__, method: lambda self, *given: returned})
    with pytest.raises((TypeError, ValueError), match=message):
        evaluator.evaluate(SUM, task())


def test_observations_in_one_text_and_instances_that_no_memory_holds_are_said():
    def all_of_it(self, rng):
        raise MemoryError

    with pytest.raises(TypeError, match="observe returned a text; return several"):
        type("Wordy", (Remember,), {"observe": lambda self, rng: "one"})().observations()
    with pytest.raises(ValueError, match="needs more memory than there is; give smaller constants"):
        type("Greedy", (Remember,), {"instances": all_of_it})().prepare()


def test_a_score_that_is_no_number_is_none(evaluator):
    class NaN(Threefold):
        def score(self, program, instance):
            return float("nan")

    evaluation = evaluator.evaluate(START, NaN())
    assert evaluation.status is Status.ERROR
    assert "score on instance 0 is nan" in evaluation.detail


def definition(**attributes):
    return type("Bad", (atlas_gym.ProgramTask,), {"__doc__": "Bad.", "__module__": __name__, **attributes})


@pytest.mark.parametrize(
    ("attributes", "message"),
    [
        ({"start": "def f(:\n"}, "does not parse: line 1"),
        ({"start": "def f(x):\n    return x\n", "function": "g"}, "does not define g"),
        ({"start": {"first": triple}}, "call the usual one `named`"),
        ({"start": triple, "initial": "nobody"}, "initial is 'nobody'; it must be one of start"),
        ({"start": triple, "floor": 0.0}, "floor is 0.0; it must be below 0"),
        ({"start": triple, "imports": "scipy.stats"}, "imports is 'scipy.stats'; give a tuple of texts"),
        ({"start": triple, "experts": triple}, "give a tuple of functions, or a mapping by name"),
        ({"start": triple, "turns": 3, "__annotations__": {"turns": int}}, "have a keyword turns"),
        ({"start": triple, "__init__": lambda self, count=5: None}, "its constants are annotated"),
        ({"start": triple, "limits": {"wall": 5}}, "limits has no wall; there are wall_s, cpu_s"),
        ({"start": leaning}, "leaning uses _factor, which programs do not have"),
    ],
)
def test_a_wrong_definition_is_refused_where_it_stands(attributes, message):
    with pytest.raises((TypeError, ValueError), match=message):
        definition(**attributes)


FOLDER = {
    "initial_program.py": START,
    "evaluator.py": "def evaluate(program_path):\n    return {'combined_score': __import__('p').double(1)}\n",
    "config.yaml": "evaluator:\n  timeout: 60\n",
}


@pytest.mark.parametrize(
    ("file", "text", "message"),
    [
        ("evaluator.py", "x = 1\ndef evaluate(:\n", "evaluator.py does not parse: line 2"),
        ("config.yaml", "evaluator:\n", "config.yaml cannot be used"),
        ("config.yaml", "evaluator:\n  timeout: -1\n", "config.yaml cannot be used"),
        ("config.yaml", "evaluator: [\n", "config.yaml is no YAML"),
        ("config.yaml", "a: &a [x]\nb: *a\n", "config.yaml is no YAML"),
    ],
)
def test_files_of_a_folder_that_cannot_be_used_are_named(file, text, message, tmp_path):
    for name, content in FOLDER.items():
        (tmp_path / name).write_text(content)
    (tmp_path / file).write_text(text)
    with pytest.raises(ValueError, match=message):
        atlas_gym.make_task(str(tmp_path))
    (tmp_path / file).write_text(FOLDER[file])
    assert atlas_gym.make_task(str(tmp_path)).limits.wall_s == 60


def test_assigning_to_a_task_says_what_to_do_instead(evaluator):
    class Keeping(Threefold):
        def instances(self, rng):
            self.data = rng.random(3)
            return self.data

    with pytest.raises(AttributeError, match=r"cannot assign to self\.data.*yield from `instances`"):
        evaluator.evaluate(START, Keeping())
