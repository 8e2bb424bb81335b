"""ATLAS-TSP-v0: a program builds short round trips city by city (preset `guided`: see `tsp_guided`)."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from atlas_gym.evaluation.result import Judgement
from atlas_gym.tasks.calls import Calls
from atlas_gym.tasks.given_programs import load_experts, template_of
from atlas_gym.tasks.template import Parameter
from atlas_gym.tasks.tours import Cities, Tours
from atlas_gym.tasks.tsp_guided import GuidedSalesman


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


class TravellingSalesman(Tours, id="ATLAS-TSP-v0"):
    """
    ## Description
    A program helps to find short round trips through cities in the unit square. By default it builds the tour city by
    city; under the preset `guided` it says which edges look bad, and a guided local search (Voudouris and Tsang 1999)
    punishes these to get out of its local optima, as in EvoTune (Šurina et al. 2025) and ReEvo (Ye et al. 2024).

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

    Under the preset `guided` it defines `badness(distances)`, which returns an array (n, n): how bad it is to have each
    edge in the tour.

    ## Observation Space
    `Source`: the task in words, the best program so far (or one to start from) and, after a step, the feedback on the
    last program: its tours beside good ones, or the error it raised.

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
    | `preset`      | `"default"` | `default`, `guided`, `cities_100`                               |
    | `cities`      | 60          | in a set                                                        |
    | `count`       | 20          | sets per evaluation; five were few enough to be learnt by heart |
    | `punishments` | 60          | of the guided local search; under the preset `guided` alone     |
    | `limits`      | `Limits()`  | wall-clock and CPU time, memory, source and error length        |
    | `start`       | `"named"`   | program shown first; or `inlined`, `scratch`                    |

    All tasks have the keywords of `atlas_gym.envs.program_env.ProgramEnv` as well.
    """

    function = "next_city"
    start = {"named": near_first, "inlined": near_first_inlined, "scratch": nearest}
    templates = (
        template_of(near_first, function, Parameter("w_spread", 0.0025, 1), Parameter("w_back", 0.0004, 1)),
    )
    experts = {"look_ahead": look_ahead, **load_experts("atlas_gym.tasks.experts", "plan")}

    @classmethod
    def from_keywords(cls, *, preset: str = "", **constants: Any) -> Any:
        """As for every task; the preset `guided` gives a `GuidedSalesman`, whose programs are others."""
        if preset == "guided":
            return GuidedSalesman.from_keywords(preset=preset, **constants)
        return super().from_keywords(preset=preset, **constants)

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
            for k, answer in enumerate(calls.ask_all(questions)):
                best = int(answer.array(len(left[k])).argmax())
                tours[k].append(int(left[k][best]))
                left[k] = np.delete(left[k], best)
        return [self._judgement(cities, tour) for cities, tour in zip(instances, tours, strict=True)]

    def describe(self) -> str:
        """The task in words."""
        return _NEXT_CITY.format(cities=self.cities, count=self.count)


# The same environment, and so the same cities of a seed.
GuidedSalesman.env_id = TravellingSalesman.env_id

_NEXT_CITY = """\
Build a short round trip through {cities} points in the unit square, city by city.

    current, start: the city that the tour has come to, and the one that it began in and returns to.
    unvisited: int64 array of the cities that are left.
    distances: float64 array ({cities}, {cities}), distances between all cities.
    Returns an array as long as unvisited: the city with the highest number is next.

The score is minus the excess over a very good tour, on average over {count} sets of cities: higher is better, 0 is as
short as that. Going to the nearest city leaves far ones behind that cost long edges at the end."""
