"""One request of each kind, what a neutral answer to it is, and replies of an exploration model."""

import json
from types import SimpleNamespace

from atlas_gym.agents.engines.settings import Endpoint
from atlas_gym.agents.proposals import EditSite
from atlas_gym.agents.supporters.build import build_supporters
from atlas_gym.agents.supporters.exploration import ExplorationAdvice, ExplorationRequest
from atlas_gym.agents.supporters.inspector import Inspection, InspectorVerdict, MetricChange
from atlas_gym.agents.supporters.settings import RoleSettings, SupporterSettings
from atlas_gym.agents.supporters.strategist import GateOutcome, Telemetry, TuningControls, bounded_advice
from tests.agents.records import record

BANDIT = """import numpy as np


def policy(context, history, t):
    K, d = context.shape
    window = 50
    lam = 1.0
    alpha = 1.0
    X = history.contexts[-window:]
    y = history.rewards[-window:]
    A = lam * np.eye(d) + X.T @ X
    b = X.T @ y
    theta = np.linalg.solve(A, b)
    bonus = np.sqrt(np.sum(context @ np.linalg.inv(A) * context, axis=1))
    scores = context @ theta + alpha * bonus
    return int(np.argmax(scores))
"""

BANDIT_LOOP = """def policy(context, history, t):
    K, d = context.shape
    A = np.eye(d)
    b = np.zeros(d)
    for x, arm, reward in history:
        A += np.outer(x, x)
        b += reward * x
    scores = context @ np.linalg.solve(A, b)
    return int(np.argmax(scores))
"""

BURGERS = """import torch


def pinn_loss_strategy(residuals, ic_err, bc_err, extras):
    w_ic = 1.0
    loss_pde = torch.mean(residuals ** 2)
    loss_ic = torch.mean(ic_err ** 2)
    loss_bc = torch.mean(bc_err ** 2)
    return loss_pde + w_ic * loss_ic + loss_bc
"""


def posed(function="policy", traits=frozenset({"drift", "memory", "regression", "choice"}), hints=()):
    """What a supporter reads of a task."""
    description = "A drifting linear contextual bandit."
    return SimpleNamespace(function=function, traits=traits, hints=hints, description=description)


def failed(status, detail, completion=""):
    """A candidate that failed."""
    return record(score=None, status=status, detail=detail, completion=completion)


EXPLORATION = ExplorationRequest(
    key=("round", 3, "island", 1),
    task=posed(),
    parent=record(BANDIT, -0.16, diagnosis="Regret grows late.", metrics={"best_arm_share": 0.5}),
    failures=(failed("error", "name 'thta' is not defined", "theta = thta"),),
)

TELEMETRY = Telemetry(
    key=("phase", 2), controls=TuningControls(), pairs=64, passed=200, failed=100,
    score_quantiles=(-0.5, -0.3, -0.2, -0.17, -0.1), initial_score=-0.16, best_scores=(-0.15, -0.12),
    distinct_share=0.6, entropy=1.2, losses=(0.69, 0.6, 0.5, 0.45), gate=(GateOutcome(True, 0.02, 0.08),),
    min_gain=0.005, max_kl=0.2,
)  # fmt: skip

INSPECTION = Inspection(
    key=("phase", 2), rule_accepts=True, gain=0.02, kl=0.1, min_gain=0.005, max_kl=0.2, gain_error=0.008, samples=96,
    metrics=(MetricChange("valid_share", 0.5, 0.6, higher_is_better=True), MetricChange("ic_mse", 0.01, 0.012)),
    recent=(True, False),
)  # fmt: skip

NEUTRAL = {
    "exploration": ExplorationAdvice(),
    "strategist": bounded_advice(TELEMETRY.controls),
    "inspector": InspectorVerdict(rule_accepts=True),
}

_SERVED = RoleSettings("llm", Endpoint("http://127.0.0.1:9/v1", "test-model"))
MODELS = build_supporters(SupporterSettings(_SERVED, _SERVED, _SERVED), seed=0)
"""Every role as a language model that nobody asks."""

REQUESTS = {"exploration": EXPLORATION, "strategist": TELEMETRY, "inspector": INSPECTION}


def site_of(program: str, text: str) -> dict:
    """The place of a text within one line, as a request's field."""
    return {"site": EditSite("", program.index(text), program.index(text) + len(text))}


def reply(**fields) -> str:
    """A reply of the exploration supporter's model."""
    return json.dumps({"critique": "too slow"} | fields)


def patch(*edits: tuple[str, str], reason: str = "why") -> dict:
    """One of its patches, as pairs of what is found and what stands there instead."""
    return {"edits": [{"find": find, "replace": text} for find, text in edits], "reason": reason}
