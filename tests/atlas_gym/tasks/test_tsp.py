"""Round trips built city by city, and those of a guided local search."""

import gymnasium as gym
import numpy as np
import pytest

from atlas_gym.evaluation.channel import CandidateError
from atlas_gym.tasks.registry import make_task
from atlas_gym.tasks.tours import TourSearch, nearest_neighbour_tour, short_tour, tour_length
from atlas_gym.tasks.tsp import TravellingSalesman
from atlas_gym.tasks.tsp_guided import GuidedSalesman, guided_tour
from tests.atlas_gym.tasks.in_process import judge_in_process

SMALL = TravellingSalesman(cities=15, count=4)
GUIDED = GuidedSalesman(cities=15, count=4)


def drawn(task):
    return list(task.instances(task._stream("instances")))


def text(name, task=SMALL):
    return task.programs[name].program


def scores(program, task=SMALL):
    return judge_in_process(program, task).traces["scores"]


def test_the_nearest_neighbour_scores_its_excess():
    lengths = [tour_length(c.distances, nearest_neighbour_tour(c.distances)) for c in drawn(SMALL)]
    expected = [1 - length / c.good for length, c in zip(lengths, drawn(SMALL), strict=True)]
    np.testing.assert_allclose(scores(text("scratch")), expected, rtol=1e-12)


def test_following_a_very_good_tour_scores_zero():
    task = TravellingSalesman(cities=15, count=1)
    (cities,) = drawn(task)
    tour = short_tour(cities.distances, 300, 1)
    at = tour.index(0)
    order = tour[at:] + tour[:at]
    program = (
        "import numpy as np\n"
        f"order = {order}\n"
        "def next_city(current, start, unvisited, distances):\n"
        "    return unvisited == order[len(order) - len(unvisited)]\n"
    )
    judgement = judge_in_process(program, task)
    assert judgement.score == pytest.approx(0, abs=1e-9)
    assert judgement.metrics["length"] == pytest.approx(cities.good)
    assert judgement.traces["tour"].tolist() == order
    assert judgement.traces["points"].shape == (15, 2)


def test_programs_are_told_where_the_tour_is_and_what_is_left():
    program = (
        "import numpy as np\n"
        "tour = [0]\n"
        "def next_city(current, start, unvisited, distances):\n"
        "    assert start == 0 and current == tour[-1]\n"
        "    assert sorted([*tour, *unvisited]) == list(range(15)) and (np.diff(unvisited) > 0).all()\n"
        "    assert (distances == distances.T).all() and not distances.flags.writeable\n"
        "    tour.append(unvisited[len(unvisited) // 2])\n"
        "    return unvisited == tour[-1]\n"
    )
    assert (scores(program) < 0).all()


@pytest.mark.parametrize("task", [SMALL, GUIDED])
def test_the_start_reads_the_same_with_its_constants_inlined(task):
    np.testing.assert_array_equal(scores(text("start", task), task), scores(text("inlined", task), task))


def test_experts_come_in_the_order_that_the_gallery_shows():
    # The start and the nearest neighbour are too close for eighty tours to tell apart on every machine's streams.
    task = TravellingSalesman(cities=40, count=80)
    mean = {name: scores(text(name), task).mean() for name in task.programs}
    assert mean["plan"] > mean["look_ahead"] > max(mean["start"], mean["scratch"])
    assert min(mean.values()) > -0.5


@pytest.mark.parametrize(
    ("returned", "message"),
    [("distances[0]", "shape"), ("unvisited * float('nan')", "NaN"), ("int(unvisited[0])", "shape")],
)
def test_what_ranks_no_cities_is_refused_in_words(returned, message):
    with pytest.raises(CandidateError, match=message):
        scores(f"def next_city(current, start, unvisited, distances):\n    return {returned}\n")


@pytest.mark.parametrize("returned", ["distances[:5]", "distances + float('inf')", "0.0"])
def test_what_is_no_guide_is_refused_in_words(returned):
    with pytest.raises(CandidateError, match="badness returned"):
        scores(f"def badness(distances):\n    return {returned}\n", GUIDED)


def test_a_guided_search_never_ends_above_its_first_local_optimum():
    for cities in drawn(GuidedSalesman(cities=30, count=5)):
        search = TourSearch(cities.distances, nearest_neighbour_tour(cities.distances))
        search.improve(range(30))
        assert guided_tour(cities.distances, cities.distances, 0) == search.tour
        for punishments in (1, 40):
            tour = guided_tour(cities.distances, cities.distances, punishments)
            assert sorted(tour) == list(range(30))
            assert tour_length(cities.distances, tour) <= search.length() + 1e-12


def test_both_directions_of_an_edge_are_punished_alike():
    (cities, *_) = drawn(GuidedSalesman(cities=30, count=1))
    one_sided = 2 * np.triu(cities.distances)
    assert guided_tour(cities.distances, one_sided, 40) == guided_tour(cities.distances, cities.distances, 40)


def test_a_guide_matters_and_a_gigantic_one_does_no_harm():
    cities = drawn(GuidedSalesman(cities=60, count=10))
    misguided, guided = (
        [tour_length(c.distances, guided_tour(c.distances, guide(c), 60)) for c in cities]
        for guide in (lambda c: c.distances.max() - c.distances, lambda c: c.distances)
    )
    assert misguided != guided
    np.testing.assert_array_equal(
        [tour_length(c.distances, guided_tour(c.distances, c.distances * 2.0**1020, 60)) for c in cities],
        guided,
    )


def test_guided_experts_beat_no_guide():
    task = GuidedSalesman(count=12)
    mean = {name: scores(text(name, task), task).mean() for name in ("no_guide", "alpha_nearness")}
    assert mean["alpha_nearness"] > mean["no_guide"]


def test_the_guided_preset_has_other_programs_and_the_same_cities():
    task = make_task("ATLAS-TSP-v0", seed=3, preset="guided", cities=15, count=4)
    assert task.env_id == "ATLAS-TSP-v0"
    assert task.function == "badness"
    assert "60 times" in task.description.replace("\n", " ")
    np.testing.assert_array_equal(drawn(task)[0].points, drawn(SMALL.at(3))[0].points)
    with gym.make("ATLAS-TSP-v0", preset="guided", cities=15, count=4) as env:
        env.reset(seed=0)
        assert env.step(text("scratch", GUIDED))[4]["status"] == "ok"


def test_seeds_and_splits_share_no_cities():
    tasks = [SMALL.at(seed, split) for seed in (0, 1) for split in ("train", "held_out")]
    assert len({c.good for task in tasks for c in drawn(task)}) == 4 * 4


@pytest.mark.parametrize("wrong", [{"cities": 4}, {"count": 0}, {"cities": 10**20}, {"count": 10**20}])
def test_constants_are_checked(wrong):
    with pytest.raises(ValueError, match="must be 5 to"):
        TravellingSalesman(**wrong)


def test_unknown_presets_and_constants_are_refused():
    with pytest.raises(ValueError, match="no preset 'guide'"):
        TravellingSalesman.from_keywords(preset="guide")
    with pytest.raises(TypeError, match="no constant punishments"):
        TravellingSalesman.from_keywords(punishments=3)
