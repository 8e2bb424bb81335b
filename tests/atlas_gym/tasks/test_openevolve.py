"""Folders in OpenEvolve's form: evaluators run as they are, programs reach none of them."""

import pickle
import textwrap

import pytest

from atlas_gym import make_task
from atlas_gym.evaluation import EvaluatorError, EvaluatorPool, Status

START = '''\
# EVOLVE-BLOCK-START
import numpy as np


def guess(n):
    """n numbers, as near to their target as can be."""
    level = 0.25
    return np.full(n, level)
# EVOLVE-BLOCK-END


SIZE = 4


def run():
    return guess(SIZE)
'''
IMPORTS = {
    "spec": """
    spec = importlib.util.spec_from_file_location("program", program_path)
    program = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(program)
""",
    "name": """
    sys.path.insert(0, os.path.dirname(program_path))
    program = __import__(os.path.splitext(os.path.basename(program_path))[0])
""",
    "loader": """
    program = importlib.machinery.SourceFileLoader("program", program_path).load_module()
""",
}
EVALUATOR = """\
import concurrent.futures
import importlib.machinery
import importlib.util
import os
import sys

import numpy as np
from openevolve.evaluation_result import EvaluationResult

TARGET = 0.75


def evaluate(program_path):
{load}
    try:
        if not hasattr(program, "run"):
            return {{"combined_score": 0.0, "error": "there is no run"}}
        with concurrent.futures.ThreadPoolExecutor(max_workers=1) as executor:
            values = executor.submit(program.run).result(timeout=5)
        values = np.array(values, dtype=float)
        if values.shape != (program.SIZE,):
            raise ValueError("wrong shape")
        error = float(np.abs(values - TARGET).mean())
        return EvaluationResult(metrics={{"combined_score": 1.0 - error, "off": error}}, artifacts={{}})
    except Exception as error:
        return {{"combined_score": 0.0, "error": str(error)}}
"""
CONFIG = "prompt:\n  system_message: Come close to a hidden target.\nevaluator:\n  timeout: 20\n"


def write_folder(path, load=IMPORTS["spec"], evaluator=EVALUATOR, start=START):
    path.mkdir(exist_ok=True)
    (path / "initial_program.py").write_text(start)
    (path / "evaluator.py").write_text(evaluator.format(load=load))
    (path / "config.yaml").write_text(CONFIG)
    return str(path)


@pytest.fixture(scope="module")
def task(tmp_path_factory):
    return make_task(write_folder(tmp_path_factory.mktemp("oe") / "near_target"))


@pytest.mark.parametrize("way", IMPORTS)
def test_a_folder_is_a_task_however_it_imports_the_program(way, tmp_path, evaluator):
    task = make_task(write_folder(tmp_path / "near", IMPORTS[way]))
    assert (task.function, task.limits.wall_s) == ("guess", 20.0)  # it stands between the marks
    assert "Come close to a hidden target." in task.description
    evaluation = evaluator.evaluate(task.starts["named"], task)
    assert evaluation.score == pytest.approx(-0.5), evaluation.detail
    assert evaluation.metrics["normalized_score"] == pytest.approx(0.5)
    assert "off 0.5" in evaluation.diagnosis


def test_the_scale_is_the_users(task, evaluator):
    wide = type(task).from_keywords(best=0.5, worst=-0.5)
    assert evaluator.evaluate(task.starts["named"], wide).score == pytest.approx(0.0)
    assert evaluator.evaluate(START.replace("0.25", "9.0"), task).score == -1.0  # never below the floor


def test_other_processes_evaluate_it(task):
    assert pickle.loads(pickle.dumps(task)).folder == task.folder
    with EvaluatorPool(1) as pool:
        assert pool.evaluate(START.replace("0.25", "0.75"), task).score == pytest.approx(0.0)


UNFIT = {
    "a process": (
        "    import subprocess\n    subprocess.run([sys.executable, program_path])\n    program = None",
        "process",
    ),
    "the text": ("    program = type(sys)('p')\n    exec(open(program_path).read(), vars(program))", "text"),
    "a function for an argument": (IMPORTS["spec"] + "    program.run(print)", "cannot be sent"),
    "nothing": ("    return {'combined_score': 1.0}", "never came"),
}


@pytest.mark.parametrize("what", UNFIT)
def test_evaluators_that_need_more_are_refused_in_words(what, tmp_path, evaluator):
    load, why = UNFIT[what]
    caught = f"    try:\n{textwrap.indent(load, '    ')}\n    except Exception:\n        return {{}}"
    task = make_task(write_folder(tmp_path / "unfit", caught))
    with pytest.raises(EvaluatorError, match=why):
        evaluator.evaluate(task.starts["named"], task)


def test_an_evaluator_that_never_calls_the_program_is_no_task(tmp_path):
    folder = write_folder(tmp_path / "silent", evaluator="def evaluate(program_path):\n    return {{}}\n")
    with pytest.raises(ValueError, match=r"mentions none of the functions .*guess, run"):
        make_task(folder)


REST = "SIZE = 4\n\n\ndef guess(n):\n    pass\n\n\n"
"""What the start defines beside what hostile programs do."""
HOSTILE = {
    "the evaluator's target": (
        "import sys\nTARGET = sys.modules['evaluator'].TARGET\n\n\ndef run():\n    return [TARGET] * 4\n",
        Status.ERROR,
    ),
    "patched numpy": (
        "import numpy as np\nnp.abs = lambda x: np.zeros(4)\nnp.array = lambda *a, **k: np.full(4, 0.75)\n\n\n"
        "def run():\n    return [0.0] * 4\n",
        Status.OK,
    ),
    "its evaluator's file": ("def run():\n    return open('evaluator.py').read()\n", Status.VIOLATION),
    "an object that compares as it likes": (
        "import numpy as np\n\n\nclass Evil(np.ndarray):\n    def __sub__(self, other):\n        return 0 * self\n\n\n"
        "def run():\n    return np.zeros(4).view(Evil)\n",
        Status.OK,
    ),
    "a result instead of values": (
        "def run():\n    return {'combined_score': 1.0, 'metrics': {'combined_score': 1.0}}\n",
        Status.ERROR,
    ),
    "NaN": ("def run():\n    return [float('nan')] * 4\n", Status.ERROR),
    "a bomb of texts": ("def run():\n    return ['x' * 4_000_000] + [''] * 90_000\n", Status.ERROR),
    "an answer for the host": (
        "import sys\n\n\ndef run():\n    frame = sys._getframe()\n    while 'pipe' not in frame.f_locals:\n"
        "        frame = frame.f_back\n    frame.f_locals['pipe'].send_raw(b'\\0' * 64)\n    return [0.0] * 4\n",
        Status.VIOLATION,
    ),
    "no end": ("def run():\n    while True:\n        pass\n", Status.TIMEOUT),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_programs_gain_nothing(name, task, evaluator):
    program, status = HOSTILE[name]
    quick = type(task).from_keywords(limits={"wall_s": 5.0, "cpu_s": 5.0})
    evaluation = evaluator.evaluate(f"{REST}{program}", quick)
    assert evaluation.status is status, evaluation.detail
    assert evaluation.score is None or evaluation.score <= -0.74


def test_an_evaluator_remembers_nothing_of_the_last_program(tmp_path, evaluator):
    counting = EVALUATOR.replace("TARGET = 0.75", "TARGET = 0.75\nCOUNT = [0]")
    counting = counting.replace("error = float(", "COUNT[0] += 1\n        error = COUNT[0] * float(")
    task = make_task(write_folder(tmp_path / "counting", evaluator=counting))
    assert [evaluator.evaluate(START, task).score for _ in range(2)] == [pytest.approx(-0.5)] * 2


GIVES_UP = {
    "in a thread of its own": """
    def value(k):
        got = []
        thread = threading.Thread(target=lambda: got.append(program.guess(k)), daemon=True)
        thread.start()
        thread.join(0.5)
        return got[0] if got else -1.0
""",
}
"""How evaluators give up a call of the program that takes long."""
LATE_IN = "import time\n\n\ndef guess(k):\n    if k == {}:\n        time.sleep(1.0)\n    return float(k)\n"


@pytest.mark.parametrize("way", GIVES_UP)
@pytest.mark.parametrize(("late", "right"), [(0, 3), (3, 3), (9, 4)])
def test_an_answer_that_comes_too_late_is_no_other_calls_answer(way, late, right, tmp_path, evaluator):
    counting = "    right = 0\n    for k in range(4):\n        right += value(k) == k\n"
    counting += "        time.sleep(0.6 * (k == 0))\n"
    text = (
        f"import importlib.util, signal, threading, time\n\n\ndef evaluate(program_path):\n{IMPORTS['spec']}"
    )
    text += f"{GIVES_UP[way]}{counting}    return {{{{'combined_score': right / 4}}}}\n"
    task = make_task(write_folder(tmp_path / "impatient", evaluator=text, start=LATE_IN.format(9)))
    evaluation = evaluator.evaluate(LATE_IN.format(late), task)
    assert evaluation.score == pytest.approx(right / 4 - 1.0), evaluation.detail


def test_names_of_metrics_that_come_from_the_program_are_made_safe(tmp_path, evaluator):
    kind = (
        "def evaluate(program_path):\n"
        + IMPORTS["spec"]
        + "    return {{'combined_score': 0.5, **program.run()}}\n"
    )
    task = make_task(write_folder(tmp_path / "named", evaluator="import importlib.util\n\n\n" + kind))
    hostile = f"{REST}def run():\n    return {{'\\x1b[2J\\u202e' + '`' * 5 + 'x' * 100_000: 1.0}}\n"
    evaluation = evaluator.evaluate(hostile, task)
    assert evaluation.score == pytest.approx(-0.5), evaluation.detail
    assert len(evaluation.diagnosis) <= task.limits.error_chars
    assert evaluation.diagnosis.isprintable()
    assert "```" not in evaluation.diagnosis


OUT_OF_RANGE = {
    "too deep to be sent": (
        "program.run(program.run(0))",
        "for _ in range(15): x = [x]\n    return x",
        "lists nested",
    ),
    "a constant too great": ("program.run(program.SIZE + 1)", "return 0.0", "beyond 64 bits"),
    "no number for a score": ("program.run(0)", "return None", "is of type NoneType, which is no number"),
}
"""What evaluators make of an answer, the answer, and what is said of it."""


@pytest.mark.parametrize("what", OUT_OF_RANGE)
def test_answers_that_the_evaluator_cannot_use_are_the_programs_failure(what, tmp_path, evaluator):
    made, body, said = OUT_OF_RANGE[what]
    text = f"import importlib.util\n\n\ndef evaluate(program_path):\n{IMPORTS['spec']}"
    text += f"    return {{{{'combined_score': {made}, 'speed': 99.0}}}}\n"
    task = make_task(write_folder(tmp_path / "used", evaluator=text))
    program = f"SIZE = 2**63 - 1\n\n\ndef guess(n):\n    pass\n\n\ndef run(x):\n    {body}\n"
    evaluation = evaluator.evaluate(program, task)
    assert evaluation.status is Status.ERROR
    assert said in evaluation.detail
