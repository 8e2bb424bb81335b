"""A program that solves the equation itself: that it wins is known, and learners are not shown how."""

from dataclasses import replace

import gymnasium as gym
import numpy as np
import pytest

import atlas_gym  # noqa: F401 - registers the environments
from atlas_gym.evaluation import Limits
from atlas_gym.tasks.burgers import experts
from atlas_gym.tasks.burgers.params import BurgersParams
from atlas_gym.tasks.burgers.reference import GRID_T, GRID_X, reference
from atlas_gym.tasks.burgers.task import BurgersTask
from atlas_gym.wrappers.numeric import ProgramChoice
from tests.atlas_gym.tasks.burgers.in_process import judge_in_process

CONTROL = experts.CONTROLS["knows_the_answer"].program
PATIENT = Limits(wall_s=600.0, cpu_s=120.0, memory_mb=1024)
SHORT = BurgersTask(steps=64, replicas=1, n_residual=100, n_initial=20, n_boundary=20, seed=1, limits=PATIENT)


@pytest.fixture
def namespace():
    found = {}
    exec(CONTROL, found)
    return found


def test_it_runs_through_warm_up_and_held_out_points():
    assert judge_in_process(CONTROL, SHORT).score > -2.0


def test_it_does_know_the_answer(namespace):
    viscosity = BurgersParams().viscosity
    t = np.linspace(0.0, 1.0, 500)
    found, exact = namespace["solve"](t, viscosity(t)), reference(viscosity)
    for j in (0, 15, 30):
        row = np.interp(namespace["x_grid"], GRID_X, exact[np.abs(GRID_T - j / 30).argmin()])
        assert found[j] == pytest.approx(row, abs=0.1)


def test_its_loss_has_the_gradient_of_the_supervised_one(namespace):
    """∫ a δr + ∫ a(0) δu(0) = ∫ e δu for the change δr of the residual with δu: Lagrange's identity."""
    nu, rate = 0.1, 5.0
    x, t = namespace["x_grid"], namespace["t_grid"]
    grid_x, grid_t = np.meshgrid(x, t)
    u, error = -0.7 * np.sin(np.pi * grid_x) * (1 + grid_t), np.sin(2 * np.pi * grid_x) * (0.5 + grid_t)
    namespace["state"].update(nu=np.full(len(t), nu))
    namespace["state"]["inverses"] = namespace["inverses"](u)
    a = namespace["adjoint"](error)
    wave, change = np.sin(2 * np.pi * grid_x), np.exp(-rate * grid_t)
    u_x = -0.7 * np.pi * np.cos(np.pi * grid_x) * (1 + grid_t)
    slope = 2 * np.pi * np.cos(2 * np.pi * grid_x)
    residual = change * (-rate * wave + u_x * wave + u * slope + nu * 4 * np.pi**2 * wave)
    inside = np.trapezoid(np.trapezoid(a * residual, x, axis=1), t)
    start = np.trapezoid(a[0] * wave[0], x)
    supervised = np.trapezoid(np.trapezoid(error * change * wave, x, axis=1), t)
    assert inside + start == pytest.approx(supervised, rel=0.1)


@pytest.mark.slow
def test_it_beats_the_plain_loss(evaluator):
    """If this fails, the control has become worse or the door is closed: docs/burgers.md says it is open."""
    task = replace(SHORT, **vars(BurgersParams()))
    expert = evaluator.evaluate(experts.EXPERTS["weighted"].program, task)
    control = evaluator.evaluate(CONTROL, task)
    assert control.ok, control.detail
    assert control.score > expert.score


def test_learners_are_not_shown_it():
    env = gym.make("ATLAS-Burgers-v0", steps=2, replicas=1)
    assert CONTROL not in env.action_space.pool
    assert "knows_the_answer" not in ProgramChoice(env).names
    assert CONTROL not in BurgersTask().starts.values()
    env.close()
