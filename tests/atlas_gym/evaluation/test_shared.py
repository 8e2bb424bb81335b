import gc

import pytest

import atlas_gym
from atlas_gym.evaluation.shared import Lease

TASK = atlas_gym.make_task("ATLAS-Bandit-v0", seed=0, horizon=20, replicas=1)
PROGRAM = atlas_gym.make_task("ATLAS-Bandit-v0").starts["named"]


def evaluator_of(lease):
    return lease._evaluator


def servers_of(lease):
    return evaluator_of(lease)._servers


def test_leases_of_the_same_confinement_share_an_evaluator():
    first, second, other = Lease("default"), Lease("default"), Lease("unconfined")
    assert evaluator_of(first) is evaluator_of(second) is not evaluator_of(other)
    for lease in (first, second, other):
        lease.close()


def test_the_last_lease_to_close_ends_the_processes():
    first, second = Lease("default"), Lease("default")
    assert first.evaluate(PROGRAM, TASK).ok
    servers = servers_of(first)
    first.close()
    first.close()
    assert servers
    assert second.evaluate(PROGRAM, TASK).ok
    second.close()
    assert not servers


def test_a_dropped_lease_counts_as_closed():
    lease = Lease("default")
    assert lease.evaluate(PROGRAM, TASK).ok
    servers = servers_of(lease)
    del lease
    gc.collect()
    assert not servers


def test_a_closed_lease_evaluates_nothing():
    lease = Lease("default")
    lease.close()
    with pytest.raises(RuntimeError, match="closed"):
        lease.evaluate(PROGRAM, TASK)


def test_a_new_lease_after_the_last_was_closed_gets_a_new_evaluator():
    old = Lease("default")
    evaluator = evaluator_of(old)
    old.close()
    new = Lease("default")
    assert evaluator_of(new) is not evaluator
    assert new.evaluate(PROGRAM, TASK).ok
    new.close()
