"""What a task's author may get wrong is said where it stands, and is no status of a program."""

import itertools
import linecache
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


@pytest.mark.parametrize("value", ["bad", None, np.zeros(3)], ids=["text", "nothing", "array"])
def test_a_metric_that_is_no_number_is_the_authors(value, evaluator):
    class Measured(Threefold):
        metrics = ("worst",)

        def score(self, program, instance):
            return atlas_gym.Judgement(-1.0, {"worst": value})

    with pytest.raises(TypeError, match="metric worst is of type"):
        evaluator.evaluate(START, Measured())


def test_what_cannot_be_sent_to_a_program_is_said_to_be_an_argument(evaluator):
    class Sending(Threefold):
        def score(self, program, instance):
            return program(object()).number()

    with pytest.raises(TypeError, match="double cannot be given a object; use numbers"):
        evaluator.evaluate(START, Sending())


@pytest.mark.parametrize("observed", ["one fact", [1]])
def test_facts_are_texts(observed):
    task = type("Odd", (Threefold,), {"__module__": __name__, "observe": lambda self, rng: observed})
    with pytest.raises(TypeError, match=r"Odd\.observe returned"):
        task().observations()


def test_class_statements_say_what_they_take():
    with pytest.raises(TypeError, match='takes id="MyTask-v0", not name'):
        type("Named", (Threefold,), {"__module__": __name__}, name="Named-v0")
    with pytest.raises(ValueError, match="id is 5; give a text"):
        type("Numbered", (Threefold,), {"__module__": __name__}, id=5)


def test_a_text_may_stand_as_far_right_as_its_class():
    task = definition(
        start="""
        def half(x):
            return x / 2
        """
    )
    assert task.starts["named"] == "def half(x):\n    return x / 2\n"


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


@pytest.mark.parametrize("floor", [0.0, 2, math.nan, -math.inf])
def test_a_floor_that_is_a_constant_is_checked_when_it_is_given(floor):
    task = definition(start=triple, floor=-2.0, __annotations__={"floor": float})
    assert task.from_keywords(floor=-3).floor == -3
    with pytest.raises(ValueError, match=f"floor is {floor}; it must be below 0"):
        task.from_keywords(floor=floor)


def test_limits_may_be_given_as_what_differs_from_the_bases():
    base = definition(start=triple, limits={"wall_s": 5})
    derived = type("Derived", (base,), {"__module__": __name__, "limits": {"cpu_s": 4}})
    assert derived().limits == atlas_gym.Limits(wall_s=5, cpu_s=4)


def test_an_id_that_gymnasium_does_not_take_is_said():
    with pytest.raises(ValueError, match="takes no id 'my task'; give one such as MyTask-v0"):
        type("Bad", (Threefold,), {"__doc__": "Bad.", "__module__": __name__}, id="my task")


def test_lines_that_are_not_the_functions_are_not_taken_for_it(monkeypatch):
    """Python 3.13 remembers what `python -c` was given under the name that all executed strings have."""
    monkeypatch.setitem(linecache.cache, "<string>", (6, None, ["x = 1\n"], "<string>"))
    namespace = {}
    exec("def f(x):\n    return x\n", namespace)
    with pytest.raises(ValueError, match="the source of f cannot be read here; give the program as a text"):
        definition(start=namespace["f"])


def test_starts_may_be_several():
    task = definition(start={"named": triple, "scratch": "def triple(x):\n    return 0.0\n"})
    assert list(task.starts) == ["named", "scratch"]
    assert list(task.programs) == ["start", "scratch"]


@pytest.mark.parametrize("end", ["", "\n", "\n\n", "\n    "])
def test_a_text_may_end_as_it_likes(end):
    task = definition(start=f"\n{START.rstrip()}{end}", experts={"own": f"{START.rstrip()}{end}"})
    assert {program.program for program in task.programs.values()} == {START}
    assert [program.title for program in task.programs.values()] == ["start", "own"]


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


def test_a_base_without_a_start_is_no_task():
    base = definition()
    assert not base.programs
    derived = type("Derived", (base,), {"__doc__": "Derived.", "__module__": __name__, "start": triple})
    assert list(derived.programs) == ["start"]


def test_assigning_to_a_task_says_what_to_do_instead(evaluator):
    class Keeping(Threefold):
        def instances(self, rng):
            self.data = rng.random(3)
            return self.data

    with pytest.raises(AttributeError, match=r"cannot assign to self\.data.*yield from `instances`"):
        evaluator.evaluate(START, Keeping())


@pytest.mark.parametrize("horizon", ["a", None])
def test_a_bandits_horizon_that_is_no_number_is_refused_by_its_name(horizon):
    with pytest.raises(ValueError, match=r"horizon is .*; it must be a whole number"):
        atlas_gym.make_task("ATLAS-Bandit-v0", horizon=horizon)


def test_what_a_constant_takes_is_what_its_annotation_says():
    class Loose(Threefold):
        share_of_gold: float = 1
        cap: "int" = None
        limit: int | None = 3
        weight: "float | None" = 0.5

    assert Loose.from_keywords(limit=None, weight=None).limit is None
    assert Loose.from_keywords(share_of_gold=0.5, cap=None).share_of_gold == 0.5
    assert Loose.from_keywords(cap=3).cap == 3
    with pytest.raises(ValueError, match="cap is 'a'; it must be a whole number"):
        Loose.from_keywords(cap="a")
