import numpy as np
import pytest

from atlas_gym.tasks.burgers.reference import GRID_T, GRID_X
from atlas_gym.tasks.burgers.scoring import WORST_METRIC, Outcome, judgement, relative_l2

EXACT = -np.sin(np.pi * GRID_X) * np.ones((len(GRID_T), 1))
HISTORY = np.array([[2.0, 4.0], [0.2, 0.4]])


def judge(*fields, metric="relative_l2", terms=(0.3, 0.02, 0.001), own=(1.0, 3.0)):
    outcomes = [Outcome(u, np.array(terms), loss) for u, loss in zip(fields, own, strict=True)]
    return judgement(outcomes, HISTORY, EXACT, metric)


def test_the_scale_ends_at_the_zero_network_and_at_the_exact_solution():
    assert relative_l2(np.zeros_like(EXACT), EXACT) == 1.0
    assert relative_l2(EXACT, EXACT) == 0.0
    assert judge(EXACT, EXACT).metrics["normalized_score"] == 1.0
    assert judge(0 * EXACT, 0 * EXACT).metrics["normalized_score"] == 0.0


def test_the_score_is_minus_the_chosen_metric():
    fields = 0.9 * EXACT, 0.5 * EXACT
    assert judge(*fields).score == pytest.approx(-0.3)
    assert judge(*fields, metric="residual").score == pytest.approx(-0.321)
    assert judge(*fields, metric="nvl").score == pytest.approx(-2.0)


def test_scores_are_cut_off():
    assert judge(1e6 * EXACT, EXACT).score == -WORST_METRIC
    assert judge(EXACT, EXACT, metric="nvl", own=(1e9, 1e9)).score == -WORST_METRIC
    assert judge(EXACT, EXACT, metric="nvl", own=(-1e9, -1e9)).score == 1e9
