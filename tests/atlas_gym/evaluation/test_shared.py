import gc

import pytest

import atlas_gym
from atlas_gym.evaluation import shared
from atlas_gym.evaluation.shared import SharedEvaluator

TASK = atlas_gym.make_task("ATLAS-Bandit-v0", seed=0, horizon=20, replicas=1)
PROGRAM = atlas_gym.make_task("ATLAS-Bandit-v0").starts["named"]


@pytest.fixture(autouse=True)
def no_other_shares(monkeypatch):
    """Environments that another file's tests left open hold shares of their own."""
    gc.collect()
    monkeypatch.setattr(shared, "_shared", {})


def evaluator_of(share):
    return share._evaluator


def servers_of(share):
    return evaluator_of(share)._servers


def test_shares_of_the_same_confinement_share_an_evaluator():
    first, second, other = (
        SharedEvaluator("default"),
        SharedEvaluator("default"),
        SharedEvaluator("unconfined"),
    )
    assert evaluator_of(first) is evaluator_of(second) is not evaluator_of(other)
    for share in (first, second, other):
        share.close()


def test_the_last_share_to_close_ends_the_processes():
    first, second = SharedEvaluator("default"), SharedEvaluator("default")
    assert first.evaluate(PROGRAM, TASK).ok
    servers = servers_of(first)
    first.close()
    first.close()
    assert servers
    assert second.evaluate(PROGRAM, TASK).ok
    second.close()
    assert not servers


def test_a_dropped_share_counts_as_closed():
    share = SharedEvaluator("default")
    assert share.evaluate(PROGRAM, TASK).ok
    servers = servers_of(share)
    del share
    gc.collect()
    assert not servers


def test_a_closed_share_evaluates_nothing():
    share = SharedEvaluator("default")
    share.close()
    with pytest.raises(RuntimeError, match="closed"):
        share.evaluate(PROGRAM, TASK)


def test_a_new_share_after_the_last_was_closed_gets_a_new_evaluator():
    old = SharedEvaluator("default")
    evaluator = evaluator_of(old)
    old.close()
    new = SharedEvaluator("default")
    assert evaluator_of(new) is not evaluator
    assert new.evaluate(PROGRAM, TASK).ok
    new.close()
