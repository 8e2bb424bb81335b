"""Round trips built city by city."""

import numpy as np
import pytest

from atlas_gym.tasks.tours import (
    TravellingSalesman,
    nearest_neighbour_tour,
    short_tour,
    tour_length,
)
from tests.atlas_gym.tasks.in_process import judge_in_process

SMALL = TravellingSalesman(cities=15, count=4)


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


def test_experts_come_in_the_order_that_the_gallery_shows():
    # The start and the nearest neighbour are too close for eighty tours to tell apart on every machine's streams.
    task = TravellingSalesman(cities=40, count=80)
    names = ("plan", "look_ahead", "start", "scratch")  # `guided` takes a second a tour
    mean = {name: scores(text(name), task).mean() for name in names}
    assert mean["plan"] > mean["look_ahead"] > max(mean["start"], mean["scratch"])
    assert min(mean.values()) > -0.5
