"""A task that lies in a file outside the package, wherever a task is named."""

from importlib.util import find_spec

import pytest

from atlas_gym import make_task
from atlas_gym.experiments.report.page import write_report
from atlas_gym.experiments.studies.plan import Arm, Plan, Task
from atlas_gym.experiments.studies.results import collect
from atlas_gym.experiments.studies.scheduler import do_runs
from tests.tiny_model import save_tiny_model

FILE = '''\
import atlas_gym
from atlas_gym.tasks.given_programs import template_of
from atlas_gym.wrappers import Parameter


def scaled(x):
    factor = 1.0
    scores = factor * x
    return scores


class Outside{number}(atlas_gym.ProgramTask, id="Outside{number}-v0"):
    """x: a number. Returns half of it."""

    start = scaled
    function = "scaled"
    experts = {{"half": "def scaled(x):\\n    return x / 2\\n"}}
    templates = (template_of(scaled, function, Parameter("factor", 0.25, 4.0)),)

    count: int = 3

    def instances(self, rng):
        return rng.random(self.count)

    def score(self, program, x):
        return -abs(program(x).number() - x / 2)
'''
HALF = "def scaled(x):\n    return x / 2\n"


@pytest.fixture(scope="module")
def reference(tmp_path_factory):
    folder = tmp_path_factory.mktemp("outside")
    (folder / "outside_task.py").write_text(FILE.format(number=1))
    return f"{folder}/outside_task.py:Outside1"


@pytest.mark.slow
@pytest.mark.skipif(find_spec("ray") is None, reason="needs the extra `ray`")
@pytest.mark.timeout(300)
def test_evaluators_on_a_cluster(reference):
    from atlas_gym.evaluation.ray import RayEvaluatorPool

    with RayEvaluatorPool(1) as pool:
        assert pool.evaluate(HALF, make_task(reference)).score == 0.0


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_a_study_and_the_report_of_a_run(reference, tmp_path):
    settings = {  # constants are varied, and the model is not asked
        "rounds": 1, "exploration": {"islands": 1, "samples": 8}, "held_out_seeds": 2,
        "tracking": "off", "model": str(save_tiny_model(tmp_path / "tiny")), "torch_threads": 1,
    }  # fmt: skip
    arms = {"numbers": Arm("numbers-alone")}
    plan = Plan("outside", {"outside": Task(reference)}, arms, seeds=(0,), settings=settings)
    assert do_runs(plan, tmp_path / "runs", 1, print) == []
    assert len(collect(plan, tmp_path / "runs")["runs"]) == 1
    page = write_report([tmp_path / "runs" / plan.runs()[0].name])
    assert "Complete: 1 rounds" in page.read_text()
