from dataclasses import replace

import numpy as np
import pytest

from atlas_gym.tasks.bandit.instances import draw_instances
from atlas_gym.tasks.bandit.task import BanditTask

PARAMS = BanditTask.from_keywords(horizon=200, replicas=3, arms=4, dimension=6)


@pytest.mark.parametrize(("seed", "split"), [(6, "train"), (5, "held_out")])
def test_other_seeds_and_splits_share_nothing(seed, split):
    one, other = draw_instances(PARAMS, 5, "train"), draw_instances(PARAMS, seed, split)
    for name in ("contexts", "theta", "rewards"):
        assert not np.isin(getattr(one, name), getattr(other, name)).any()


def test_the_constants_do_not_change_the_draws():
    """Presets are compared under common random numbers, and a short task is the beginning of a long one."""
    base = draw_instances(PARAMS, 5, "train")
    louder = draw_instances(replace(PARAMS, noise=0.4), 5, "train")
    np.testing.assert_array_equal(base.theta, louder.theta)
    np.testing.assert_allclose(louder.rewards - louder.means, 2 * (base.rewards - base.means), atol=1e-12)
    shorter = BanditTask.from_keywords(horizon=20, replicas=1, arms=4, dimension=6)
    np.testing.assert_array_equal(draw_instances(shorter, 5, "train").contexts[:, 0], base.contexts[:20, 0])


def test_contexts_follow_their_law():
    unit = draw_instances(PARAMS, 5, "train").contexts
    np.testing.assert_allclose(np.linalg.norm(unit, axis=-1), 1.0, atol=1e-12)
    gaussian = draw_instances(replace(PARAMS, contexts="gaussian"), 5, "train").contexts
    assert gaussian.std() == pytest.approx(1.0, abs=0.05)


def test_regret_and_the_ends_of_the_scale_agree_with_a_plain_loop():
    instances = draw_instances(PARAMS, 5, "train")
    for t in (0, 1, 57, 199):
        for r in range(PARAMS.replicas):
            means = [float(x @ instances.theta[t, r]) for x in instances.contexts[t, r]]
            expected = [max(means) - mean for mean in means]
            np.testing.assert_allclose(instances.regret[t, r], expected, atol=1e-12)
            assert instances.uniform_regret[t, r] == pytest.approx(np.mean(expected))
            if t:
                told = [float(x @ instances.theta[t - 1, r]) for x in instances.contexts[t, r]]
                assert instances.informed_regret[t, r] == pytest.approx(expected[int(np.argmax(told))])
            else:
                assert instances.informed_regret[t, r] == pytest.approx(np.mean(expected))
