"""Answers that are not what they should be: each ends the evaluation in its status, quickly, and the next one works."""

import numpy as np
import pytest

from atlas_gym.evaluation import Status
from tests.atlas_gym.tasks.examples import Echo, Remember

PIPE = """
    import os, sys, time
    frame = sys._getframe()
    while 'pipe' not in frame.f_locals:
        frame = frame.f_back
    descriptor = frame.f_locals['pipe']._write_fd
"""
REPLY = PIPE + "    os.write(descriptor, {0!r})\n    time.sleep(60)"
HEAD = bytes(4)

ANSWERS = {
    "a text": ("return 'seven'", Status.ERROR, "a str; return a number"),
    "out of range": ("return 11", Status.ERROR, "from 0 to 10"),
    "an array": ("return np.zeros(3)", Status.ERROR, "shape (3,); return a number"),
    "an array of nine megabytes": ("return np.zeros(9 << 17)", Status.ERROR, "more than 8 MiB"),
    "a million numbers": ("return [1.0] * 1_000_000", Status.ERROR, "use an array"),
    "a text of ten megabytes": ("return 'x' * (10 << 20)", Status.ERROR, "more than 8 MiB"),
    "a list within itself": ("x = []\n    x.append(x)\n    return x", Status.ERROR, "nested"),
    "a lone surrogate": ("return '\\ud800'", Status.ERROR, "surrogates"),
    "an integer of 71 bits": ("return 1 << 70", Status.ERROR, "beyond 64 bits"),
    "a list that lies about its length": (
        "class Long(list):\n        def __len__(self): return 1 << 60\n    return Long([1.0])",
        Status.MEMORY,
        "",
    ),
    "two replies at once": (
        REPLY.format((HEAD + b"\x09\0\0\0\x04" + bytes(8)) * 2),
        Status.VIOLATION,
        "more than once",
    ),
    "a reply that claims four gigabytes": (
        REPLY.format(HEAD + b"\xff\xff\xff\xff"),
        Status.ERROR,
        "more than 8 MiB",
    ),
    "a reply that does not end": (REPLY.format(HEAD + b"\0\x10\0\0" + bytes(4)), Status.TIMEOUT, ""),
    "a reply of no kind": (REPLY.format(HEAD + b"\1\0\0\0\x63"), Status.ERROR, "cannot be read"),
    "a reply of nothing": (REPLY.format(HEAD + bytes(4)), Status.ERROR, "cannot be read"),
    "half a head": (REPLY.format(b"\0\0"), Status.TIMEOUT, ""),
    "a reply with a tag of its own": (REPLY.format(b"\x42" * 64), Status.VIOLATION, "written to"),
    "the channel closed": (PIPE + "    os.close(descriptor)\n    time.sleep(60)", Status.CRASHED, "closed"),
    "the encoder replaced": (
        "import sys\n    sys.modules['atlas_gym.sandbox.call_driver'].encode = lambda *a: bytearray(b'\\7' * 99)",
        Status.ERROR,
        "cannot be read",
    ),
    "the runs replaced by many": (
        "import sys\n    frame = sys._getframe(1)\n    frame.f_locals['self']._runs.clear()\n    return 1.0",
        Status.ERROR,
        "KeyError",
    ),
}


@pytest.mark.parametrize("name", ANSWERS)
def test_it_ends_in_its_status_and_harms_nothing(name, evaluator):
    body, status, detail = ANSWERS[name]
    evaluation = evaluator.evaluate(f"def echo(x):\n    {body}\n", Echo())
    assert (evaluation.status, evaluation.score) == (status, None), evaluation.detail
    assert detail in evaluation.detail
    assert len(evaluation.detail) <= Echo().limits.error_chars
    assert evaluator.evaluate("def echo(x):\n    return x\n", Echo()).ok


def test_a_reply_before_the_reply_gains_nothing(evaluator):
    """Its last answer may have been read when the second one arrives: it was the program's own either way."""
    body = PIPE + f"    os.write(descriptor, {HEAD + bytes([9, 0, 0, 0, 4]) + bytes(8)!r})\n    return 1.0"
    evaluation = evaluator.evaluate(f"def echo(x):\n    {body}\n", Echo())
    assert evaluation.status in (Status.OK, Status.VIOLATION, Status.ERROR), evaluation.detail
    assert evaluator.evaluate("def echo(x):\n    return x\n", Echo()).ok


def test_answers_before_the_question_gain_nothing(evaluator):
    """They are taken for those to the first questions, and there are too many of them."""
    early = (
        PIPE.replace("\n    ", "\n")
        + f"os.write(descriptor, {(HEAD + bytes([9, 0, 0, 0, 4]) + bytes(8))!r} * 2)\n"
    )
    evaluation = evaluator.evaluate(f"{early}def echo(x):\n    return x\n", Echo())
    assert evaluation.status is Status.VIOLATION, evaluation.detail


@pytest.mark.parametrize("answers", ["[(1, 4.0)]", "[(1, 4.0)] * 4", "(1, 4.0)"])
def test_no_instance_is_answered_for_another(answers, evaluator):
    """Three are asked at a time, and each answer must be there."""
    program = f"""
import sys
driver = sys.modules["atlas_gym.sandbox.call_driver"]
encode = driver.encode

def remember(step, weights):
    driver.encode = lambda answer, head=0: encode({answers}, head)
    return 1, 4.0
"""
    evaluation = evaluator.evaluate(program, Remember(lockstep=True))
    assert evaluation.status is Status.ERROR
    assert "did not answer every call" in evaluation.detail


def test_an_end_of_iteration_in_one_of_many_calls_is_told_by_its_line(evaluator):
    program = "def remember(step, weights):\n    return next(iter(()))\n"
    evaluation = evaluator.evaluate(program, Remember(lockstep=True))
    assert evaluation.status is Status.ERROR
    assert "line 2, in remember" in evaluation.detail


class Squared(Echo):
    """Returns 0; scored by its square, as a number or among numpy's, and by how far that is from itself."""

    def score(self, program, instance):
        answer = program(instance)
        if self.check == "number":
            return -(answer.number() ** 2)
        square = np.square(answer.array(()))
        return float(square - square - square)


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("answer", ["1e200", "-1.7e308"])
@pytest.mark.parametrize(
    ("check", "said"),
    [("number", "its answers are too large to be scored"), ("array", "not a finite number")],
)
def test_a_finite_answer_whose_square_is_not_is_the_programs_failure(check, said, answer, evaluator):
    evaluation = evaluator.evaluate(f"def echo(x):\n    return {answer}\n", Squared(check=check))
    assert evaluation.status is Status.ERROR
    assert said in evaluation.detail
    tried = evaluator.evaluate(f"def echo(x):\n    return {answer}\n", Squared(check=check).smoke())
    assert tried.status is (Status.ERROR if check == "number" else Status.OK)
    assert evaluator.evaluate("def echo(x):\n    return 0.5\n", Squared(check=check)).score == -0.25
