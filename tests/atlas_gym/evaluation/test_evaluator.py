"""Evaluators in one process: what they report and how they fail."""

import math
import sys
from dataclasses import replace

import pytest

from atlas_gym.evaluation import (
    ConfinedEvaluator,
    ConfinementError,
    EvaluatorError,
    Limits,
    Status,
    UnconfinedEvaluator,
    make_evaluator,
)
from atlas_gym.evaluation.evaluator import shared_evaluator
from atlas_gym.sandbox.confinement import ALL_LAYERS
from tests.atlas_gym.evaluation.processes import alive, descendants
from tests.atlas_gym.evaluation.toy import HONEST, LAZY, ToyTask, play_bare

TASK = ToyTask()
EVALUATORS = {"confined": ConfinedEvaluator, "unconfined": UnconfinedEvaluator}


@pytest.fixture
def evaluator():
    with ConfinedEvaluator() as evaluator:
        yield evaluator


@pytest.mark.parametrize("kind", EVALUATORS)
def test_scores_equal_plain_calls_bit_for_bit(kind):
    with EVALUATORS[kind]() as evaluator:
        for program in (HONEST, LAZY):
            evaluation = evaluator.evaluate(program, TASK)
            assert evaluation.score == play_bare(program, TASK)
        assert set(evaluation.layers) == {"confined": set(ALL_LAYERS), "unconfined": {"rlimits"}}[kind]


def test_unconfined_children_end_with_the_evaluation():
    program = "import subprocess\nsubprocess.Popen(['sleep', '100'])\nwhile True: pass"
    before = descendants()
    with UnconfinedEvaluator() as evaluator:
        task = replace(TASK, limits=Limits(wall_s=1.0))
        # Anybody but root is kept from starting processes by a resource limit.
        ends = (Status.TIMEOUT, Status.ERROR, Status.VIOLATION)
        assert evaluator.evaluate(program, task).status in ends
        # the fork server and the worker it keeps ready
        assert len(alive(descendants() - before)) <= 2


@pytest.mark.parametrize(
    "draw",
    [
        "np.random.rand",
        "np.random.default_rng().random",
        "random.random",
        "random.Random().random",
        "random.SystemRandom().random",
        "lambda: int.from_bytes(os.urandom(4)) / 2**32",
        "lambda: uuid.uuid4().int / 2**128",
        "lambda: int.from_bytes(os.getrandom(4)) / 2**32",
        "lambda: secrets.randbelow(2**30) / 2**30",
        "seeding",
    ],
)
def test_programs_draw_the_same_numbers_every_time(draw, evaluator):
    program = f"""
import os, random, secrets, uuid
def seeding():
    random.seed()
    return random.random()
draw = {draw}
assert draw() != draw()
def guess(hint, t):
    return draw()
"""
    (one,) = {(found.status, found.score) for found in (evaluator.evaluate(program, TASK) for _ in range(3))}
    assert one[0] is Status.OK


@pytest.mark.parametrize(
    ("line", "status"),
    [
        ("import scipy.stats; scipy.stats.norm.cdf(0)", "ok"),
        ("from scipy import linalg; linalg.norm([3.0])", "ok"),
        ("import scipy; scipy.optimize.minimize", "ok"),
        ("from numpy import *; from numpy.linalg import *; norm(fft.fft([3.0]))", "ok"),
        ("import importlib; importlib.import_module('col' + 'orsys')", "error"),
        ("from scipy.special import roots_legendre; roots_legendre(5)", "ok"),
        ("from scipy.optimize import brute; brute(np.sum, ((-1, 1), (-1, 1)), Ns=3)", "ok"),
        ("from scipy.optimize import shgo; shgo(np.sum, [(-1, 1)])", "ok"),
        ("from scipy.optimize import differential_evolution as de; de(np.sum, [(-1, 1)], maxiter=2)", "ok"),
        ("from scipy import optimize; optimize.minimize(np.sum, [1.0], method='COBYLA')", "ok"),
        ("import scipy; scipy.optimize.minimize(lambda x: x @ x, [1.0], method='COBYQA')", "ok"),
        ("from scipy.integrate import quad_vec; quad_vec(np.sin, 0, 1)", "ok"),
        ("np.testing.assert_allclose(1, 1); np.char.upper('a'); np.rec.array([1])", "ok"),
        ("import datetime; datetime.datetime.strptime('2020', '%Y')", "ok"),
        ("import gymnasium", "error"),
        ("import os; os.stat('/')", "violation"),
        ("import signal; signal.setitimer(signal.ITIMER_REAL, 1)", "violation"),
    ],
)
def test_what_an_honest_program_notices(evaluator, line, status):
    evaluation = evaluator.evaluate(f"{line}\n{HONEST}", replace(TASK, limits=Limits()))
    assert evaluation.status == status, evaluation.detail
    assert status != "error" or "No module named" in evaluation.detail


@pytest.mark.parametrize(
    ("line", "advised"),
    [
        ("import importlib; importlib.import_module('col' + 'orsys')", "import colorsys"),
        ("import scipy.no_such_part", ""),
        ("import importlib; importlib.import_module('gymnasium')", ""),
        ("raise ModuleNotFoundError('x', name='scipy')", ""),
        ("from scipy.optimize import brute; brute(np.sum, [(-1, 1)], Ns=3, workers=2)", ""),
    ],
)
def test_a_module_that_is_looked_for_while_the_program_runs_has_to_be_imported(evaluator, line, advised):
    task = replace(TASK, limits=Limits())
    evaluation = evaluator.evaluate(f"{line}\n{HONEST}", task)
    assert evaluation.status == "error"
    assert ("Put `" in evaluation.detail) == bool(advised)
    if advised:
        assert f"Put `{advised}` into the program" in evaluation.detail
        assert evaluator.evaluate(f"{advised}\n{line}\n{HONEST}", task).ok


@pytest.mark.parametrize(
    "around", ["{}", "\ufeff{}", "```python\n{}```", "\n````\n{}````\n", "\ufeff```\n{}```\nDone."]
)
def test_a_mark_or_a_fence_around_a_program_is_taken_off(evaluator, around):
    assert evaluator.evaluate(around.format(HONEST), TASK).ok


def test_a_missing_driver_is_an_error(evaluator):
    with pytest.raises(EvaluatorError, match="no driver module"):
        evaluator.evaluate(HONEST, replace(TASK, driver="tests.atlas_gym.evaluation.nowhere"))


def test_a_driver_that_starts_threads_is_an_error(evaluator, tmp_path, monkeypatch):
    text = "import threading, time\nthreading.Thread(target=time.sleep, args=(30,), daemon=True).start()\n"
    text += "def serve(load, pipe): pass\n"
    (tmp_path / "threaded_driver.py").write_text(text)
    monkeypatch.syspath_prepend(tmp_path)
    for unfit in (replace(TASK, driver="threaded_driver"), replace(TASK, imports=("threaded_driver",))):
        with pytest.raises(EvaluatorError, match="threaded_driver started threads") as raised:
            evaluator.evaluate(HONEST, unfit)
        assert "Traceback" not in str(raised.value)


@pytest.mark.parametrize("program", [None, b"def guess(): pass", 7])
def test_what_is_not_text_is_invalid(evaluator, program):
    assert evaluator.evaluate(program, TASK).status is Status.INVALID


@pytest.mark.parametrize("field", ["wall_s", "cpu_s", "memory_mb", "source_chars", "error_chars"])
def test_limits_must_be_positive_and_finite(field):
    for value in (0, -1, math.nan, math.inf, 1e10, "1", None):
        with pytest.raises(ValueError, match=rf"{field} is {value!r}; it must be a (whole )?number above 0"):
            Limits(**{field: value})


def test_evaluators_by_keyword():
    assert isinstance(make_evaluator("default"), ConfinedEvaluator)
    assert isinstance(make_evaluator("unconfined"), UnconfinedEvaluator)
    assert isinstance(make_evaluator(("rlimits", "seccomp")), ConfinedEvaluator)
    with pytest.raises(ValueError, match="'none'"):
        make_evaluator("none")
    with pytest.raises(ValueError, match="unknown layers"):
        make_evaluator(("rlimits", "walls"))


def test_other_systems_must_ask_for_no_confinement(monkeypatch):
    monkeypatch.setattr(sys, "platform", "darwin")
    with pytest.raises(ConfinementError, match=r"this is not Linux(.|\n)*UnconfinedEvaluator"):
        ConfinedEvaluator().evaluate(HONEST, ToyTask())


def test_environments_of_the_same_confinement_share_an_evaluator_that_ends_with_the_last():
    first, second = shared_evaluator(("rlimits",)), shared_evaluator(("rlimits",))
    assert first is second is not shared_evaluator("unconfined")
    assert first.evaluate(HONEST, ToyTask()).ok
    servers = {server.pid for server in first._servers.values()}
    del first
    assert alive(servers) == servers
    del second
    assert alive(servers) == set()
