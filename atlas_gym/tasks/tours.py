"""ATLAS-TSP-v0: a program builds short round trips city by city; its tours are measured against a local search's.

`TourSearch` repairs a tour by 2-opt (Croes 1958) and Or-opt (Or 1976) moves that create an edge to one of a city's
nearest neighbours, around cities in a queue ("don't look bits", Bentley 1992). `short_tour` iterates it from
double-bridge kicks (Martin, Otto and Felten 1991).
"""

import itertools
import math
import random
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from atlas_gym.evaluation.result import Judgement
from atlas_gym.tasks.calls import Calls
from atlas_gym.tasks.given_programs import load_experts, template_of
from atlas_gym.tasks.program_task import ProgramTask
from atlas_gym.tasks.template import Parameter

_NEIGHBOURS = 8
"""Nearest cities that new edges lead to."""
_LONGEST_SEGMENT = 3
"""Cities that an Or-opt move takes along, at most."""
_LONGEST_BRIDGE = 20
"""Cities between two cuts of a kick, at most. With 12, one tour in three of 60 cities stayed 0.5 % too long."""
_LEAST_GAIN = 1e-10
"""Smaller gains are rounding."""


def distance_matrix(points: np.ndarray) -> np.ndarray:
    """Euclidean distances (n, n) between points (n, 2)."""
    return np.sqrt(((points[:, None] - points[None]) ** 2).sum(-1))


def tour_length(distances: np.ndarray, tour: Sequence[int] | np.ndarray) -> float:
    """Length of a round trip through all cities of `tour`."""
    order = np.asarray(tour)
    return math.fsum(distances[order, np.roll(order, -1)])


def nearest_neighbour_tour(distances: np.ndarray) -> list[int]:
    """The round trip that always goes on to the nearest city left."""
    away = distances.copy()
    tour = [0]
    while len(tour) < len(away):
        away[:, tour[-1]] = np.inf
        tour.append(int(away[tour[-1]].argmin()))
    return tour


def short_tour(distances: np.ndarray, kicks: int, seed: int) -> list[int]:
    """A round trip within a fraction of a percent of the shortest one for symmetric distances (n, n), n ≥ 4, after so
    many rounds of kick and repair (10 n is plenty); the same for the same arguments."""
    dice = random.Random(seed)
    search = TourSearch(distances, nearest_neighbour_tour(distances))
    search.improve(range(len(distances)))
    length = search.length()
    for _ in range(kicks):
        kept = search.tour[:]
        search.improve(search.kick(dice))
        kicked = search.length()
        if kicked > length + _LEAST_GAIN:
            search.set(kept)
        else:
            length = kicked
    return search.tour


class TourSearch:
    """A tour, all cities in some order, and the moves that shorten it."""

    def __init__(self, distances: np.ndarray, tour: Iterable[int]) -> None:
        self.distances: list[list[float]] = distances.tolist()
        order = np.argsort(distances + np.diag(np.full(len(distances), np.inf)), axis=1, kind="stable")
        self._near: list[list[int]] = order[:, : min(_NEIGHBOURS, len(distances) - 1)].tolist()
        self.set(list(tour))

    def set(self, tour: list[int]) -> None:
        self.tour = tour
        self._at = [0] * len(tour)
        for position, city in enumerate(tour):
            self._at[city] = position

    def length(self) -> float:
        distances = self.distances
        return math.fsum(distances[a][b] for a, b in itertools.pairwise([*self.tour, self.tour[0]]))

    def kick(self, dice: random.Random) -> list[int]:
        """Swap two neighbouring stretches of the tour (a double bridge); returns the cities at the cuts."""
        n = len(self.tour)
        longest = min(_LONGEST_BRIDGE, (n - 2) // 2)
        start, first, second = dice.randrange(n), dice.randint(1, longest), dice.randint(1, longest)
        turned = self.tour[start:] + self.tour[:start]
        middle, end = 1 + first, 1 + first + second
        self.set([turned[0], *turned[middle:end], *turned[1:middle], *turned[end:]])
        return [turned[k] for k in (0, 1, middle - 1, middle, end - 1, end)]

    def improve(self, cities: Iterable[int]) -> None:
        """Apply moves around these cities and around those that a move touches, until none there shortens the tour."""
        queue = list(cities)
        queued = set(queue)
        while queue:
            city = queue.pop()
            queued.discard(city)
            while touched := self._two_opt(city) or self._or_opt(city):
                queue += [c for c in touched if c not in queued]
                queued.update(touched)

    def _two_opt(self, a: int) -> tuple[int, ...]:
        """Exchange an edge at a and another for two that are shorter together; the cities touched, or none."""
        tour, at, costs, n = self.tour, self._at, self.distances, len(self.tour)
        for step in (1, -1):
            b = tour[(at[a] + step) % n]
            present, from_a, from_b = costs[a][b], costs[a], costs[b]
            for c in self._near[a]:
                if from_a[c] >= present:
                    break
                d = tour[(at[c] + step) % n]
                if from_a[c] + from_b[d] < present + costs[c][d] - _LEAST_GAIN:
                    # Going forwards a b … c d becomes a c … b d; backwards the same with the roles of the ends changed.
                    self._reverse(*((b, c) if step == 1 else (a, d)))
                    return a, b, c, d
        return ()

    def _reverse(self, first: int, last: int) -> None:
        """Turn round the stretch from one city forwards to another, or what is left, which gives the same tour."""
        i, j = self._at[first], self._at[last]
        if i > j:
            i, j = j + 1, i - 1
        stretch = self.tour[i : j + 1]
        stretch.reverse()
        self.tour[i : j + 1] = stretch
        for position, city in enumerate(stretch, i):
            self._at[city] = position

    def _or_opt(self, a: int) -> tuple[int, ...]:
        """Move a and up to two cities behind it beside one of its neighbours, where that is shorter."""
        tour, at, costs, n = self.tour, self._at, self.distances, len(self.tour)
        i, from_a = at[a], costs[a]
        for step in (1, -1):
            before = tour[(i - step) % n]
            for size in range(1, min(_LONGEST_SEGMENT, n - 3) + 1):
                tail, behind = tour[(i + step * (size - 1)) % n], tour[(i + step * size) % n]
                saved = from_a[before] + costs[tail][behind] - costs[before][behind] - _LEAST_GAIN
                for c in self._near[a]:
                    if from_a[c] >= saved:
                        break
                    k = at[c]
                    if (k - i) * step % n < size:  # c moves along
                        continue
                    for d in (tour[(k + 1) % n], tour[k - 1]):
                        if (
                            from_a[c] + costs[tail][d] - costs[c][d] < saved
                            and (at[d] - i) * step % n >= size
                        ):
                            self._insert([tour[(i + step * m) % n] for m in range(size)], c, d)
                            return before, behind, a, tail, c, d
        return ()

    def _insert(self, segment: list[int], head: int, tail: int) -> None:
        """Move a segment between two neighbouring cities, its first city beside `head`."""
        rest = [city for city in self.tour if city not in segment]
        i, j = rest.index(head), rest.index(tail)
        if (i + 1) % len(rest) == j:
            self.set(rest[: i + 1] + segment + rest[i + 1 :])
        else:
            self.set(rest[: j + 1] + segment[::-1] + rest[j + 1 :])


_KICKS_PER_CITY = 4
"""Of the search for the tours that scores are measured against."""


@dataclass(frozen=True)
class Cities:
    """The hidden data of one tour."""

    points: np.ndarray  # in the unit square, (n, 2)
    distances: np.ndarray  # (n, n)
    good: float  # length of the tour that scores are measured against


def near_first(current, start, unvisited, distances):
    """Near cities first, rather those that are far from the others"""
    w_spread = 0.05
    w_back = 0.02
    ahead = distances[current, unvisited]
    spread = distances[np.ix_(unvisited, unvisited)].mean(axis=1)
    back = distances[start, unvisited]
    scores = -ahead + w_spread * spread + w_back * back
    return scores


def near_first_inlined(current, start, unvisited, distances):
    """Near cities first, its constants written into the formula"""
    spread = distances[np.ix_(unvisited, unvisited)].mean(axis=1)
    return -distances[current, unvisited] + 0.05 * spread + 0.02 * distances[start, unvisited]


def nearest(current, start, unvisited, distances):
    """Nearest neighbour: the nearest city left"""
    scores = -distances[current, unvisited]
    return scores


def look_ahead(current, start, unvisited, distances):
    """Near cities first, rather those far from the others and from the end (tuned by hand)"""
    ahead = distances[current, unvisited]
    spread = distances[np.ix_(unvisited, unvisited)].mean(axis=1)
    return -ahead + 0.35 * spread + 0.1 * distances[start, unvisited]


class TravellingSalesman(ProgramTask, id="ATLAS-TSP-v0"):
    """
    ## Description
    A program builds short round trips through cities in the unit square, city by city.

    >>> import gymnasium as gym
    >>> import atlas_gym
    >>> env = gym.make("ATLAS-TSP-v0", cities=12, count=2)
    >>> observation, info = env.reset(seed=0)
    >>> program = "def next_city(current, start, unvisited, distances):\\n    return -distances[current, unvisited]\\n"
    >>> observation, reward, terminated, truncated, info = env.step(program)
    >>> info["status"], terminated, -0.6 < reward <= 0.01
    ('ok', True, True)
    >>> env.close()

    ## Action Space
    `Source(65536)`: the text of a Python module that defines `next_city(current, start, unvisited, distances)`.

    | Argument    | Content                                                                                 |
    |-------------|-----------------------------------------------------------------------------------------|
    | `current`   | the city that the tour has come to                                                      |
    | `start`     | the city that it began in and returns to                                                |
    | `unvisited` | int64 array (m,): the cities left, in ascending order                                   |
    | `distances` | float64 array (n, n), read-only: distances between all cities                           |
    | returns     | array (m,): the city with the highest number is next, the first of equal ones           |

    ## Observation Space
    `Source`: the task in words, the best program so far and the feedback on the last one: its tours, or its error.

    ## Rewards
    The score of a tour is 1 − length / length of a very good tour; the reward is the mean over all sets of cities. The
    very good tours come from an iterated local search, less than 1 % above the shortest in the tests, so that
    a reward may exceed 0 by a hair. −1 counts as useless, a program that fails gets −2.

    ## Starting State
    `reset(seed=s)` draws `count` sets of `cities`. The same seed gives the same cities under the same
    `ATLAS_GYM_SECRET`; the held-out ones follow the same law and share none.

    ## Arguments

    | Keyword       | Default     | Meaning                                                         |
    |---------------|-------------|-----------------------------------------------------------------|
    | `preset`      | `"default"` | `default`, `cities_20`, `cities_50`, `cities_100`               |
    | `cities`      | 60          | in a set                                                        |
    | `count`       | 20          | sets per evaluation; five were few enough to be learnt by heart |
    | `limits`      | `Limits()`  | wall-clock and CPU time, memory, source and error length        |
    | `start`       | `"named"`   | program shown first; or `inlined`, `scratch`                    |
    """

    function = "next_city"
    start = {"named": near_first, "inlined": near_first_inlined, "scratch": nearest}
    templates = (
        template_of(near_first, function, Parameter("w_spread", 0.0025, 1), Parameter("w_back", 0.0004, 1)),
    )
    experts = {"look_ahead": look_ahead, **load_experts("atlas_gym.tasks.experts", "plan", "guided")}
    floor = -1.0
    call_hints = ("unvisited: array (m,), m >= 1; distances: array (n, n); returns an array (m,)",)
    metrics = ("length",)
    presets = {
        "default": {},
        "cities_20": {"cities": 20},
        "cities_50": {"cities": 50},
        "cities_100": {"cities": 100, "count": 10},
    }

    cities: int = 60
    """In an instance, 5 to 2,000."""
    count: int = 20
    """Instances per evaluation, 1 to 1,000."""

    def __post_init__(self) -> None:
        if not (5 <= self.cities <= 2000 and 1 <= self.count <= 1000):
            raise ValueError("cities must be 5 to 2,000 and count 1 to 1,000")

    def instances(self, rng: np.random.Generator) -> Iterable[Cities]:
        """`count` sets of cities, uniform in the unit square, each with the length of a very good tour."""
        points = rng.random((self.count, self.cities, 2))
        seeds = rng.integers(2**31, size=self.count).tolist()
        found = []
        for own, seed in zip(points, seeds, strict=True):
            distances = distance_matrix(own)
            tour = short_tour(distances, _KICKS_PER_CITY * len(own), seed)
            found.append(Cities(own, distances, tour_length(distances, tour)))
        return found

    def _judgement(self, cities: Cities, tour: Sequence[int]) -> Judgement:
        length = tour_length(cities.distances, tour)
        steps = cities.distances[np.asarray(tour), np.roll(tour, -1)]
        diagnosis = (
            f"Its tour has length {length:.3f}, a very good one {cities.good:.3f}. Its five longest edges make up "
            f"{np.sort(steps)[-5:].sum() / length:.0%} of it; the last one, home, is {steps[-1]:.3f} long."
        )
        traces = {"points": cities.points, "tour": np.asarray(tour)}
        return Judgement(1.0 - length / cities.good, {"length": length}, diagnosis, traces)

    def score_all(self, calls: Calls, instances: Sequence[Cities]) -> Sequence[Judgement]:
        """All tours in lockstep: one exchange for each step."""
        runs = [calls.start() for _ in instances]
        kept = [calls.keep(cities.distances) for cities in instances]
        tours = [[0] for _ in instances]
        left = [np.arange(1, self.cities) for _ in instances]
        for _ in range(1, self.cities):
            questions = [
                (run, (tour[-1], 0, unvisited, distances))
                for run, tour, unvisited, distances in zip(runs, tours, left, kept, strict=True)
            ]
            # All visible, as sets of cities tell nothing of each other.
            for k, answer in enumerate(calls.ask_all(questions, all_visible=True)):
                best = int(answer.ranking(len(left[k])).argmax())
                tours[k].append(int(left[k][best]))
                left[k] = np.delete(left[k], best)
        return [self._judgement(cities, tour) for cities, tour in zip(instances, tours, strict=True)]

    def describe(self) -> str:
        return _NEXT_CITY.format(cities=self.cities, count=self.count)

    def draw(self, axes: Any, traces: Mapping[str, np.ndarray]) -> None:
        order = [*traces["tour"], traces["tour"][0]]
        axes.plot(*traces["points"][order].T, "o-", markersize=3)
        axes.set(xlim=(0, 1), ylim=(0, 1), aspect="equal")


_NEXT_CITY = """\
Build a short round trip through {cities} points in the unit square, city by city.

    current, start: the city that the tour has come to, and the one that it began in and returns to.
    unvisited: int64 array of the cities that are left.
    distances: float64 array ({cities}, {cities}), distances between all cities.
    Returns an array as long as unvisited: the city with the highest number is next.

The score is minus the excess over a very good tour, on average over {count} sets of cities: higher is better, 0 is as
short as that. Going to the nearest city leaves far ones behind that cost long edges at the end."""
