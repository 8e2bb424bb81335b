"""What a task's author may get wrong is said where it stands, and is no status of a program."""

import itertools
import math
from dataclasses import field

import numpy as np
import pytest

import atlas_gym
from atlas_gym.evaluation import ConfinedEvaluator, Status
from tests.atlas_gym.tasks.examples import SUM, Remember, Threefold, triple

START = "def double(x):\n    return 2 * x\n"


def _factor():
    return 3


def leaning(x):
    return _factor() * math.floor(x)


@pytest.fixture(scope="module")
def evaluator():
    with ConfinedEvaluator() as evaluator:
        yield evaluator


def test_an_authors_mistake_is_the_authors_and_no_status(evaluator):
    class Wrong(Threefold):
        def score(self, program, instance):
            return 1 / 0

    class Empty(Threefold):
        def instances(self, rng):
            return []

    with pytest.raises(ZeroDivisionError):
        evaluator.evaluate(START, Wrong())
    with pytest.raises(ValueError, match="instances gives none"):
        evaluator.evaluate(START, Empty())
    assert evaluator.evaluate(START, Threefold()).ok


@pytest.mark.parametrize(
    ("method", "returned", "message"),
    [
        ("score", None, "score is of type NoneType; return a number"),
        ("score", atlas_gym.Judgement(None), "score is of type NoneType"),
        ("score", "good", "score is of type str"),
        ("score", "-1", "score is of type str"),
        ("score", np.complex128(-1 + 2j), "score is of type complex128"),
        ("score_all", [], "score_all returned 0 results for 3 instances"),
        ("instances", None, "instances returned None; return a list"),
        ("instances", itertools.count(), "instances gives more than 1,000,000"),
        ("instances", "abc", "instances returned 'abc'; return a list"),
        ("instances", {"a": 1}, r"instances returned \{'a': 1\}; return a list"),
        ("instances", {1.0}, r"instances returned \{1.0\}; return a list"),
        ("instances", [(x for x in "a")], "instances gives what cannot be copied for each program"),
    ],
)
def test_what_an_authors_method_may_not_return_is_said(method, returned, message, evaluator):
    task = type("Wrong", (Remember,), {"__module__": __name__, method: lambda self, *given: returned})
    with pytest.raises((TypeError, ValueError), match=message):
        evaluator.evaluate(SUM, task())


def test_an_answer_is_no_score(evaluator):
    class Forgetful(Remember):
        def score(self, program, instance):
            return program(1, [])

    with pytest.raises(
        TypeError, match=r"score is of type Answer; return a number, of an answer its \.number\(\)"
    ):
        evaluator.evaluate(SUM, Forgetful())


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
        ({"start": "x = 1\n"}, "does not define a function"),
        ({"start": "def f(x):\n    return x\n", "function": "g"}, "does not define g"),
        ({"start": {}}, "start is empty"),
        ({"start": triple, "initial": "nobody"}, "initial is 'nobody'; it must be one of start"),
        ({"start": {"first": triple}}, "call the usual one `named`"),
        ({"start": triple, "floor": 0.0}, "floor is 0.0; it must be below 0"),
        (
            {"start": triple, "floor": -math.inf},
            "floor is -inf; it must be below 0, the perfect score, and finite",
        ),
        ({"start": triple, "floor": "low"}, "floor is 'low'; it must be below 0"),
        ({"start": triple, "presets": {}}, "presets is {}; give a mapping"),
        ({"start": triple, "presets": {"a": {}, "b": {"limit": 5}}}, "the preset 'b': no constant limit"),
        ({"start": triple, "presets": {"a": 5}}, "the preset 'a': 'int' object is not a mapping"),
        ({"start": triple, "imports": "scipy.stats"}, "imports is 'scipy.stats'; give a tuple of texts"),
        ({"start": 5}, "5 is no program; give a function or a text"),
        ({"start": triple, "experts": triple}, "give a tuple of functions, or a mapping with texts by name"),
        ({"start": triple, "experts": ("def triple(x):\n    return x\n",)}, "has no name; give experts that"),
        (
            {"start": triple, "turns": 3, "__annotations__": {"turns": int}},
            "have a keyword turns of their own",
        ),
        ({"start": triple, "seed": 3, "__annotations__": {"seed": int}}, "every task has a seed"),
        (
            {"start": triple, "weights": [1], "__annotations__": {"weights": list}},
            "weights is a list, which can be changed; give a number, a text or a tuple",
        ),
        (
            {"start": triple, "weights": field(default_factory=dict), "__annotations__": {"weights": dict}},
            "weights is a dict, which can be changed",
        ),
        ({"start": triple, "__init__": lambda self, count=5: None}, "its constants are annotated"),
        ({"start": eval("lambda x: x")}, "give the program as a text"),
        (
            {"start": triple, "limits": 5},
            r"limits is 5; pass atlas_gym\.evaluation\.Limits\(\.\.\.\) or a mapping",
        ),
        ({"start": triple, "limits": {"wall": 5}}, "limits has no wall; there are wall_s, cpu_s"),
        ({"start": leaning}, "leaning uses _factor, which programs do not have"),
        ({"start": triple, "sizes": field(), "__annotations__": {"sizes": int}}, "`sizes: int = …`"),
        ({"start": triple, "traits": "drift"}, "traits is 'drift'; give a tuple of texts"),
        ({"start": triple, "hints": (1, 2)}, r"hints is \(1, 2\); give a tuple of texts"),
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
        ("evaluator.py", "x = 1\ndef evaluate(:\n", "evaluator.py does not parse: line 2: .*; repair it"),
        ("initial_program.py", "def double(x:\n", "initial_program.py does not parse: line 1: .*; repair it"),
        ("config.yaml", "evaluator:\n", "config.yaml has None for evaluator; write its entries below it"),
        ("config.yaml", "prompt: short\n", "config.yaml has 'short' for prompt; write its entries below it"),
        ("config.yaml", "evaluator:\n  timeout:\n", "config.yaml has None for the evaluator's timeout; give"),
        ("config.yaml", "evaluator:\n  timeout: 60s\n", "config.yaml has '60s' for the evaluator's timeout"),
        ("config.yaml", "evaluator:\n  timeout: -1\n", "config.yaml has -1 for the evaluator's timeout"),
        ("config.yaml", "evaluator: [\n", "config.yaml is no YAML; repair it"),
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
