from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from atlas_gym.agents.population import island as island_module
from atlas_gym.agents.population.clusters import Clusters, signature
from atlas_gym.agents.population.island import CAPACITY, FAILED, Island
from atlas_gym.seeding import stream
from tests.agents.proposals.programs import ORDINARY
from tests.agents.records import record, windowed

RANDOM = ORDINARY.replace("return int(np.argmax(scores))", "return int(np.random.default_rng(t).integers(K))")

records = st.lists(
    st.builds(windowed, st.integers(1, 9), st.one_of(st.none(), st.sampled_from([-0.9, -0.5, -0.3, -0.2]))),
    max_size=25,
)


@given(records)
def test_an_island_takes_no_duplicates_and_the_population_is_its_best(sequence):
    island = Island(0)
    taken = [candidate for candidate in sequence if island.add(candidate)]
    keys = [r.program_key for r in taken]
    scores = [r.score for r in taken]
    assert len(set(keys)) == len(keys)
    assert len(set(scores)) == len(scores)
    assert island.population == sorted(island.population, key=lambda r: -r.score)
    if scores:
        assert island.best.score == max(scores)
        assert len(island.population) == min(CAPACITY, len(scores))
    assert all(r.score is None for r in island.failed)


@given(st.lists(st.tuples(st.integers(1, 99), st.integers(1, 40), st.booleans()), max_size=30))
def test_what_is_no_longer_kept_could_not_become_a_parent(drawn):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(island_module, "CAPACITY", 2)
        _check_an_island_of_two(drawn)


def _check_an_island_of_two(drawn):
    island = Island(0)
    clusters, taken, cluster_of = Clusters(), [], {}
    for window, score, other in drawn:
        candidate = record((RANDOM if other else ORDINARY).replace("50", str(window)), -score / 40)
        if island.add(candidate):
            cluster_of[candidate.id] = clusters.add(signature(candidate.program, candidate.score, {}))
            taken.append(candidate)
        ranked = sorted(taken, key=lambda r: (-r.score, r.id))
        best, *rest = ranked or [None]
        # The best of another cluster, if there is any, before the second best of the same.
        others = [r for r in rest if cluster_of[r.id] != cluster_of[best.id]]
        assert island.population == ([best, *(others or rest)[:1]] if ranked else [])


@given(records)
def test_an_island_is_a_fold_over_its_records(sequence):
    one, two = Island(0), Island(0)
    accepted = [one.add(candidate) for candidate in sequence]
    for candidate, new in zip(sequence, accepted, strict=True):
        if new or candidate.score is None:
            two.add(candidate)  # what was refused leaves no trace
    assert one.population == two.population
    assert one.clusters.sizes == two.clusters.sizes
    assert list(one.failed) == list(two.failed)


def test_failed_programs_are_kept_apart_and_only_the_latest():
    island = Island(0)
    for number in range(FAILED + 2):
        assert not island.add(record(score=None, detail=str(number)))
    assert not island.add(record(score=-0.1, status="timeout"))
    assert [r.detail for r in island.failed][:2] == ["3", "4"]
    assert island.population == []
    assert island.best is None
    with pytest.raises(LookupError, match="no program to start from"):
        island.choose_parent(stream(0))


def test_overlong_programs_are_kept_but_never_become_parents(monkeypatch):
    monkeypatch.setattr(island_module, "LONGEST_PARENT", len(ORDINARY))
    island = Island(0)
    island.add(windowed(50, -0.5))
    assert island.add(windowed(500, -0.1))
    assert island.best.score == -0.5
    assert not island.add(windowed(500, -0.1))


def test_a_long_start_is_a_parent_and_so_is_what_is_about_as_long():
    def padded(characters, score, origin):
        return record(f"{RANDOM}\nTEXT = '{'x' * characters}'\n", score, origin=origin)

    island = Island(0)
    for candidate in (padded(6000, -0.3, "seed"), padded(7000, -0.2, "agent"), padded(9000, -0.1, "agent")):
        island.add(candidate)
    assert [own.score for own in island.population] == [-0.2, -0.3]


def test_parents_are_drawn_by_score_and_share_their_clusters_chances():
    island = Island(0, temperature=0.1)
    other = record(RANDOM, -0.25, metrics={"steps": 9.0})
    for candidate in (
        windowed(1, -0.20, metrics={"steps": 1.0}), windowed(2, -0.2001, metrics={"steps": 1.0}),
        windowed(3, -0.2002, metrics={"steps": 1.0}), other,
    ):  # fmt: skip
        island.add(candidate)
    assert len(set(island.cluster_of)) == 2
    draws = Counter(island.choose_parent(stream(0, draw)).score for draw in range(600))
    # exp(-0.05 / 0.1) = 0.61 for the lone program against 1 for the cluster of three together.
    assert draws[-0.25] / 600 == pytest.approx(0.38, abs=0.08)
    cold = Island(0, temperature=1e-6)
    for candidate in (windowed(1, -0.3), windowed(2, -0.2), record(RANDOM, -0.25)):
        cold.add(candidate)
    assert {cold.choose_parent(stream(0, draw)).score for draw in range(30)} == {-0.2}


def test_the_worse_program_is_worse():
    island = Island(0)
    for candidate in (windowed(1, -0.3), windowed(2, -0.2), windowed(3, -0.4)):
        island.add(candidate)
    middle = next(r for r in island.population if r.score == -0.3)
    assert {island.choose_worse(middle, stream(draw)).score for draw in range(10)} == {-0.4}
    assert {island.choose_worse(island.best, stream(draw)).score for draw in range(20)} == {-0.4, -0.3}
    assert island.choose_worse(island.population[-1], stream(0)) is None
