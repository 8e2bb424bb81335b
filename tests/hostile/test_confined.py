"""Every attack in every registered environment, confined: none succeeds, each ends in a status in time."""

import functools

import pytest

from tests.hostile import arena, scene
from tests.hostile.seats import SEATS, registered_ids

PAIRS = [(env_id, attack) for env_id in registered_ids() for attack in arena.catalogue_of(SEATS[env_id]())]
SLOW = ("ATLAS-TSP-v0", "ATLAS-CirclePacking-v0")
"""Their programs are called by the same driver as those of bin packing, which the quick suite attacks."""


def marked(env_id: str, *values: object, name: str) -> object:
    marks = [pytest.mark.slow] if env_id in SLOW else []
    return pytest.param(env_id, *values, marks=marks, id=name)


@functools.cache
def record_of(env_id: str) -> arena.Record:
    return arena.run(SEATS[env_id]())


@pytest.mark.parametrize(
    ("env_id", "attack"), [marked(env_id, a, name=f"{env_id}: {a.name}") for env_id, a in PAIRS]
)
def test_attack_comes_to_nothing(env_id, attack):
    if not attack.works_here:
        pytest.skip(f"it calls the kernel by numbers of {attack.machine}")
    outcome = record_of(env_id).outcomes[attack.name]
    assert outcome.harm == [], outcome.evaluation
    assert outcome.evaluation.status in attack.statuses, outcome.evaluation
    assert (outcome.evaluation.score is None) == (not outcome.evaluation.ok)


@pytest.mark.parametrize("env_id", [marked(env_id, name=env_id) for env_id in registered_ids()])
def test_evaluator_and_honest_program_are_unharmed(env_id):
    record = record_of(env_id)
    assert record.errors == []
    assert {evaluation.status.value for evaluation in record.honest} == {"ok"}
    assert len({evaluation.score for evaluation in record.honest}) == 1
    assert scene.orphans() == []


def test_catalogue_has_every_kind_of_attack():
    categories = {attack.category for _, attack in PAIRS}
    assert len({attack.name for _, attack in PAIRS}) >= 60
    assert categories == {
        "hidden state and forged scores",
        "evil answers and objects",
        "forging the channel",
        "lockstep replicas",
        "processes and signals",
        "memory and time",
        "output and messages",
        "files",
        "marks for other programs",
        "network",
        "hostile losses",
    }
