"""Who takes part in the board of templates, and what each of them submits."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np

from atlas_gym import make_task
from experiments.learners.objective import Found, Setting
from experiments.learners.ppo_template import ALGORITHMS, choose_expert, learn_sb3, reference_of
from experiments.learners.template_optimisers import learn_cma, learn_optuna, learn_random
from experiments.report.data import read_run


@dataclass(frozen=True)
class Submission:
    """A learner's answer, still to be confirmed."""

    program: str
    """The program."""
    evaluations: int
    """Programs evaluated to find it."""
    what: str
    """What it is, for the table."""


TemplateLearner = Callable[[Setting, int, int], Found]
Learner = Callable[[Setting, int, int], Submission]

TEMPLATE_LEARNERS: Mapping[str, TemplateLearner] = {
    "random search": learn_random,
    "CMA-ES": learn_cma,
    "Optuna TPE": learn_optuna,
    **{f"SB3 {name}": partial(learn_sb3, algorithm=name) for name in ALGORITHMS},
}
"""By name: a point from (setting, budget, seed)."""


def start(setting: Setting) -> Submission:
    """The middle of the template, where every search begins."""
    return _of_template(setting, Found(np.zeros(setting.load_template().size), 0))


def expert(setting: Setting) -> Submission:
    """The hand-written program that the learners are compared with."""
    name = reference_of(setting.env_id)
    return Submission(make_task(setting.env_id).programs[name].program, 0, f"`{name}`")


def _of_template(setting: Setting, found: Found) -> Submission:
    template = setting.load_template()
    values = template.values(found.coordinates).items()
    what = " ".join(f"{name}={value:.4g}" for name, value in values)
    return Submission(template.program(found.coordinates), found.evaluations, what)


def _search(learn: TemplateLearner, setting: Setting, budget: int, seed: int) -> Submission:
    return _of_template(setting, learn(setting, budget, seed))


def _choice(setting: Setting, budget: int, seed: int) -> Submission:
    name, evaluations = choose_expert(setting, budget, seed)
    return Submission(make_task(setting.env_id).programs[name].program, evaluations, f"`{name}`")


LEARNERS: Mapping[str, Learner] = {
    **{name: partial(_search, learn) for name, learn in TEMPLATE_LEARNERS.items()},
    "SB3 PPO, expert choice": _choice,
}
"""By name: a submission from (setting, budget, seed)."""


@dataclass(frozen=True)
class AtlasRow:
    """A finished run of ATLAS or another method of this package, from its store."""

    env_id: str
    """Its environment."""
    learner: str
    """Its method, length, starting program, model and whether a supporter also wrote programs."""
    seed: int
    """Its seed."""
    evaluations: int
    """Different programs that it evaluated."""
    scores: tuple[float, ...]
    """Held-out scores of its best program."""


def read_atlas(folder: Path) -> AtlasRow:
    """A run's row; ValueError if the run has not been confirmed on held-out seeds yet."""
    run = read_run(folder)
    scores = run.held_out_scores(run.best)
    if not scores:
        raise ValueError(f"{folder} has no held-out scores: the run is not finished")
    if run.setting("env_args"):
        raise ValueError(f"{folder} is a run of the environment with other constants")
    supporter = run.setting("supporters.exploration.form") or "off"
    learner = (
        f"{run.setting('method')} run, {run.rounds} rounds, `{run.setting('start')}` start, model "
        f"{run.setting('model')}, exploration supporter {supporter}"
    )
    evaluations = sum(record.duplicate_of is None for record in run.candidates)
    return AtlasRow(run.setting("env"), learner, run.setting("seed"), evaluations, tuple(scores))
