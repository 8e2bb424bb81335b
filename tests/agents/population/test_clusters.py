import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from atlas_gym.agents.population import clusters
from atlas_gym.agents.population.clusters import Clusters, distance, signature
from tests.agents.proposals.programs import ORDINARY, programs


def mark(program=ORDINARY, score=-0.5, **metrics):
    return signature(program, score, metrics)


@given(programs(), programs(), st.floats(-5, 0), st.floats(-5, 0))
def test_the_distance_is_a_bounded_symmetric_dissimilarity(one, other, score, further):
    a, b = mark(one, score), mark(other, further)
    assert distance(a, a) == 0
    assert 0 <= distance(a, b) <= 1
    assert distance(a, b) == pytest.approx(distance(b, a))


def test_constants_and_names_are_no_difference_of_shape_but_calls_are():
    same = mark(ORDINARY.replace("50", "7").replace("lam", "ridge"))
    assert distance(mark(), same) == 0
    assert distance(mark(), mark(ORDINARY.replace("np.sum", "np.max"))) > 0


NUMBERS = [
    "50", "-7", "7.5e-3", "5.", "x1", "0x7", "1_000", "1_500", "1.5_5e1_5", "7.5.real", "[7, 8.0]", "7j", "'7'",
    r"'\N{CJK UNIFIED IDEOGRAPH-4E00}'", "7 .real", "7..real", "f'{x1:5.2f}'",
]  # fmt: skip


@pytest.mark.parametrize("text", NUMBERS)
def test_a_program_has_its_own_shape_though_it_shares_it_with_other_numbers(text):
    program = f"def policy(x1, h, t):\n    return {text} if t > 3 else 2\n"
    assert mark(program).shape.paths == clusters._shape.__wrapped__(program).paths


def test_behaviour_counts_relative_to_its_size_and_ignores_what_is_not_finite():
    near, far = mark(score=-0.51), mark(score=-2.0)
    assert 0 < distance(mark(), near) < distance(mark(), far)
    assert distance(mark(steps=math.nan), mark(steps=3.0)) == 0
    assert distance(mark(steps=3.0), mark(steps=9.0)) > 0


def test_programs_join_the_nearest_leader_or_lead_a_cluster():
    groups = Clusters()
    other = ORDINARY.replace(
        "return int(np.argmax(scores))", "return int(np.random.default_rng(t).integers(K))"
    )
    found = [
        groups.add(m) for m in (mark(), mark(score=-0.49), mark(other, -0.9), mark(), mark(other, -0.91))
    ]
    assert found == [0, 0, 1, 0, 1]
    assert groups.sizes == [3, 2]
    assert 1 < groups.effective < 2


def test_a_full_house_of_clusters_takes_everything_in(monkeypatch):
    monkeypatch.setattr(clusters, "LIMIT", 2)
    full = Clusters(radius=0.0)
    assert [full.add(mark(score=score)) for score in (-0.1, -1.0, -0.2, -0.9, -5.0)] == [0, 1, 0, 1, 1]


def test_the_effective_number_of_clusters_measures_collapse():
    assert Clusters(sizes=[5, 5, 5]).effective == pytest.approx(3)
    assert Clusters(sizes=[100, 1]).effective < 1.1
    assert Clusters().effective == 0
