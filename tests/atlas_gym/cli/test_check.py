"""`check` finds what is wrong with a task, and nothing with one that is right."""

import itertools

import numpy as np
import pytest

import atlas_gym
from atlas_gym.cli.check import findings
from atlas_gym.cli.main import main


class Sound(atlas_gym.ProgramTask):
    """x: a number. Returns its half."""

    start = "def half(x):\n    share = 0.9\n    return share * x\n"
    experts = {"better": "def half(x):\n    return 0.6 * x\n"}  # noqa: RUF012 - as an author writes it
    limits = atlas_gym.Limits(wall_s=2.0, cpu_s=2.0, memory_mb=256)

    def instances(self, rng):
        return rng.random(3)

    def score(self, program, instance):
        return -abs(program(float(instance)).number() - instance / 2)


def verdicts(task, evaluator):
    found = {}
    for finding in findings(task, evaluator, seeds=1):
        found.setdefault(finding.check, []).append((finding.verdict, finding.text))
    return found


def test_a_sound_task_is_ok_in_every_respect(evaluator):
    found = verdicts(Sound(), evaluator)
    # On a crowded machine a program that never ends may only wait, which says nothing of the task.
    said = [v for entries in found.values() for v, text in entries if "could not be tried" not in text]
    assert set(said) == {"ok"}
    assert list(found) == [
        "seeds",
        "start",
        "better",
        "repeated",
        "nonsense",
        "look-ahead",
        "speed",
        "head-room",
    ]


@pytest.mark.parametrize("visible", [True, False])
@pytest.mark.parametrize("given", ["a number", "a list", "an array"])
def test_who_looks_at_the_next_call_is_found_where_that_wins(given, visible, evaluator):
    class Forecast(Sound):
        """now: an index. seen: what has been seen. Returns what is next."""

        start = "def half(now, seen):\n    return 0.5\n"

        def instances(self, rng):
            return [rng.random(9)]

        def score(self, program, instance):
            forms = {"a number": lambda k: float(instance[k]), "a list": lambda k: instance[: k + 1].tolist()}
            given_at = forms.get(given, lambda k: instance[: k + 1])
            answers = program.batch([(k, given_at(k)) for k in range(8)], all_visible=visible)
            return -sum(
                abs(answer.number() - value) for answer, value in zip(answers, instance[1:], strict=True)
            )

    (verdict, text) = verdicts(Forecast(), evaluator)["look-ahead"][0]
    assert verdict == ("wrong" if visible else "ok")
    assert ("no `all_visible`" in text) == visible


def test_instances_from_elsewhere_than_the_seed_are_wrong(evaluator):
    class Restless(Sound):
        """x: a number."""

        def instances(self, rng):
            return np.random.default_rng().random(3)

    assert verdicts(Restless(), evaluator)["seeds"][0][0] == "wrong"


def test_what_is_unusual_is_noted(evaluator):
    class Odd(Sound):
        """x: a number. Scores are above 0, and what is drawn cannot be compared."""

        def instances(self, rng):
            return [_Drawn(x) for x in rng.random(3)]

        def score(self, program, instance):
            return super().score(program, instance.x) + 1.0

    found = list(itertools.islice(findings(Odd(), evaluator, seeds=1), 2))
    assert [(finding.check, finding.verdict) for finding in found] == [("seeds", "note"), ("start", "note")]
    assert "make functions in `score`" in found[0].text
    assert "above 0, which is to be perfect" in found[1].text


class _Drawn:
    def __init__(self, x):
        self.x = x

    def __reduce__(self):
        raise TypeError("not to be pickled")

    def __deepcopy__(self, memo):
        return self


def test_one_problem_for_all_seeds_is_tried_once(evaluator):
    judged = []

    class Constant(Sound):
        """x: a number."""

        def instances(self, rng):
            return [0.5]

        def score(self, program, instance):
            score = super().score(program, instance)
            judged.append(score)
            return score

    found = list(itertools.islice(findings(Constant(), evaluator), 3))
    assert [(f.check, f.verdict) for f in found] == [("seeds", "note"), ("start", "ok"), ("better", "ok")]
    assert len(judged) == 2  # whatever the number of seeds


def test_a_start_that_fails_is_wrong_and_ends_the_comparison(evaluator):
    class Failing(Sound):
        """x: a number."""

        start = "def half(x):\n    return x / 0\n"

    found = verdicts(Failing(), evaluator)
    assert found["start"][0][0] == "wrong"
    assert "ZeroDivisionError" in found["start"][0][1]
    assert "nonsense" not in found


def test_what_the_authors_methods_raise_is_wrong_and_its_line_is_named(evaluator):
    class Forgetful(Sound):
        """x: a number."""

        def score(self, program, instance):
            return -abs(program(float(instance)) - instance / 2)

    class Inventive(Sound):
        """x: a number."""

        def score(self, program, instance):
            return -len(program(float(instance)).bytes())

    class Unfinished(Sound):
        """x: a number."""

        score = atlas_gym.ProgramTask.score

    class Leaving(Sound):
        """x: a number."""

        def score(self, program, instance):
            raise SystemExit(0)

    verdict, text = verdicts(Forgetful(), evaluator)["methods"][0]
    assert verdict == "wrong"
    assert text.startswith("TypeError in test_check.py, line ")
    assert ", return -abs(program(float(instance)) - instance / 2): unsupported operand" in text
    assert "used through .number()" in text
    assert "'bytes'; what a program returned is used" in verdicts(Inventive(), evaluator)["methods"][0][1]
    assert verdicts(Unfinished(), evaluator)["methods"] == [
        ("wrong", "NotImplementedError: Unfinished does not define score")
    ]
    assert verdicts(Leaving(), evaluator)["methods"][0][1].startswith("SystemExit in test_check.py, line ")


def test_a_score_that_changes_is_wrong(evaluator):
    class Moody(Sound):
        """x: a number."""

        def score(self, program, instance):
            return super().score(program, instance) - 0.01 * np.random.default_rng().random()

    verdict, text = verdicts(Moody(), evaluator)["repeated"][0]
    assert verdict == "wrong"
    assert text.endswith("noise is drawn in `instances`")


def test_an_answer_that_is_not_checked_is_found_out(evaluator):
    class Trusting(Sound):
        """x: a number."""

        def score(self, program, instance):
            value = program(float(instance)).value
            return (
                0.0
                if value is None
                else -abs(float(value) - instance / 2)
                if isinstance(value, float)
                else -0.9
            )

    found = verdicts(Trusting(), evaluator)["nonsense"]
    assert ("wrong", "nothing scores 0.0000, more than the start") in found
    assert any(verdict == "note" and "a text" in text for verdict, text in found)


class Wordy(Sound):
    """x: a number. Returns its half."""

    experts = {"a_larger_share": "def half(x):\n    return 0.6 * x\n"}  # noqa: RUF012 - as above


def test_the_command_says_it_in_lines_and_in_its_exit_code(capsys):
    assert main(["check", "tests.atlas_gym.cli.test_check:Wordy", "--seeds", "1"]) == 0
    printed = capsys.readouterr().out
    assert "ok    nonsense   " in printed
    assert "ok    a_larger_share score" in printed
    assert main(["check", "tests.atlas_gym.cli.test_check:Nobody"]) == 2
