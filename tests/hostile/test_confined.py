"""Every attack in every registered environment, confined: none succeeds, each ends in a status in time."""

import functools

import pytest

from tests.hostile import arena, scene
from tests.hostile.seats import SEATS, registered_ids

SEAT = {env_id: SEATS[env_id]() for env_id in registered_ids()}
SAMPLE = {env_id: {attack.name for attack in arena.sample_of(seat)} for env_id, seat in SEAT.items()}
PAIRS = [(env_id, attack) for env_id, seat in SEAT.items() for attack in arena.catalogue_of(seat)]


def marked(*values: object, sampled: bool, name: str) -> object:
    return pytest.param(*values, marks=[] if sampled else [pytest.mark.slow], id=name)


@functools.cache
def record_of(env_id: str, sampled: bool) -> arena.Record:
    """What came of the attacks that the quick suite tries, or of the others."""
    seat = SEAT[env_id]
    chosen = [attack for attack in arena.attacks_on(seat) if (attack.name in SAMPLE[env_id]) == sampled]
    return arena.run(seat, chosen)


@pytest.mark.parametrize(
    ("env_id", "attack"),
    [marked(env_id, a, sampled=a.name in SAMPLE[env_id], name=f"{env_id}: {a.name}") for env_id, a in PAIRS],
)
def test_attack_comes_to_nothing(env_id, attack):
    if not attack.works_here:
        pytest.skip(f"it calls the kernel by numbers of {attack.machine}")
    outcome = record_of(env_id, attack.name in SAMPLE[env_id]).outcomes[attack.name]
    assert outcome.harm == [], outcome.evaluation
    assert outcome.evaluation.status in attack.statuses, outcome.evaluation
    assert (outcome.evaluation.score is None) == (not outcome.evaluation.ok)


@pytest.mark.parametrize(
    ("env_id", "sampled"),
    [
        marked(env_id, sampled, sampled=sampled, name=f"{env_id}: {'sample' if sampled else 'rest'}")
        for env_id in SEAT
        for sampled in ((True,) if env_id == arena.WHOLE else (True, False))
    ],
)
def test_evaluator_and_honest_program_are_unharmed(env_id, sampled):
    record = record_of(env_id, sampled)
    assert record.errors == []
    assert {evaluation.status.value for evaluation in record.honest} == {"ok"}
    assert len({evaluation.score for evaluation in record.honest}) == 1
    assert scene.orphans() == []


def test_the_quick_suite_tries_every_kind_of_attack_in_every_environment():
    for seat in SEAT.values():
        assert {a.category for a in arena.sample_of(seat)} == {a.category for a in arena.catalogue_of(seat)}
    assert SAMPLE[arena.WHOLE] == {attack.name for attack in arena.catalogue_of(SEAT[arena.WHOLE])}
