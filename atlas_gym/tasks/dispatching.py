"""ATLAS-Dispatching-v0: a program says which waiting job a machine takes next, so that little weight is late."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from atlas_gym.evaluation.result import Judgement
from atlas_gym.tasks.calls import Calls
from atlas_gym.tasks.given_programs import template_of
from atlas_gym.tasks.program_task import ProgramTask
from atlas_gym.tasks.template import Parameter


def earliest_due(processing_time, weight, due, now):
    """EDD: the earliest due date first (Jackson 1955)"""
    return -due


def as_given(processing_time, weight, due, now):
    """One after the other, as they are numbered"""
    return -np.arange(len(due))


def wspt(processing_time, weight, due, now):
    """WSPT: the most weight per time first (Smith 1956)"""
    return weight / processing_time


def covert(processing_time, weight, due, now):
    """COVERT: weight per time, less the more slack there is (Carroll 1965)"""
    look_ahead = 1.0
    slack = np.maximum(due - now - processing_time, 0.0)
    urgency = np.maximum(1.0 - slack / (look_ahead * processing_time.mean() * len(due) ** 0.5), 0.0)
    return weight / processing_time * urgency - 1e-9 * due


def apparent_tardiness(processing_time, weight, due, now):
    """ATC: weight per time, less and less the more slack there is (Vepsalainen and Morton 1987)"""
    look_ahead = 2.0
    slack = np.maximum(due - now - processing_time, 0.0)
    return np.log(weight / processing_time) - slack / (look_ahead * processing_time.mean())


@dataclass(frozen=True)
class Jobs:
    """The hidden data of one instance: all jobs wait from time 0 on; arrays (jobs,) of whole numbers as floats."""

    processing_time: np.ndarray
    weight: np.ndarray
    due: np.ndarray


class Dispatching(ProgramTask, id="ATLAS-Dispatching-v0"):
    """
    ## Description
    Jobs wait for one machine, each with a processing time, a weight and a due date. Whenever the machine is free, a
    program ranks the jobs that wait, and the first of the ranking is done, to its end. What counts is the weighted
    tardiness: each job's weight times how late it ends.

    >>> import gymnasium as gym
    >>> import atlas_gym
    >>> env = gym.make("ATLAS-Dispatching-v0", jobs=10, count=2)
    >>> observation, info = env.reset(seed=0)
    >>> program = "def priority(processing_time, weight, due, now):\\n    return weight / processing_time\\n"
    >>> observation, reward, terminated, truncated, info = env.step(program)
    >>> info["status"], terminated, -0.6 < reward <= 0
    ('ok', True, True)
    >>> env.close()

    ## Action Space
    `Source(65536)`: the text of a Python module that defines `priority(processing_time, weight, due, now)`.

    | Argument          | Content                                                                              |
    |-------------------|--------------------------------------------------------------------------------------|
    | `processing_time` | float64 array (m,) of the jobs that wait                                             |
    | `weight`          | float64 array (m,)                                                                   |
    | `due`             | float64 array (m,): when they should be done                                         |
    | `now`             | the time, a float; 0 at the first call                                               |
    | returns           | array (m,): the job with the highest number is next, the first of equal ones         |

    ## Observation Space
    `Source`: the task in words, the best program so far (or one to start from) and, after a step, the feedback on the
    last program: how many jobs were late and which cost most, or the error it raised.

    ## Rewards
    The score of an instance is minus Σ weight · tardiness over Σ weight · Σ processing time; the reward is the mean
    over the instances, at most 0: nothing is late. −0.5 counts as useless, a program that fails gets −1.5.

    ## Starting State
    `reset(seed=s)` draws `count` instances like those of the usual benchmark (Potts and Van Wassenhove 1985):
    processing times from 1 to 100, due dates around (1 − `tightness`) of the total time, spread over `spread` of it;
    weights are exponential with mean 5, rounded up. The same seed gives the same jobs under the same
    `ATLAS_GYM_SECRET`; the held-out ones follow the same law and share none.

    ## Arguments

    | Keyword     | Default     | Meaning                                                         |
    |-------------|-------------|-----------------------------------------------------------------|
    | `preset`    | `"default"` | `default`, `tight` (0.8, 0.6), `loose` (0.4, 0.4), `jobs_100`   |
    | `jobs`      | 40          | in an instance                                                  |
    | `count`     | 20          | instances per evaluation                                        |
    | `tightness` | 0.6         | share of the jobs that are late in a random order, about        |
    | `spread`    | 0.6         | of the due dates, as a share of the total time                  |
    | `limits`    | `Limits()`  | wall-clock and CPU time, memory, source and error length        |
    | `start`     | `"named"`   | program shown first; or `scratch`                               |

    All tasks have the keywords of `atlas_gym.envs.program_env.ProgramEnv` as well.
    """

    function = "priority"
    start = {"named": earliest_due, "scratch": as_given}
    templates = (template_of(apparent_tardiness, function, Parameter("look_ahead", 0.3, 10)),)
    experts = (wspt, covert, apparent_tardiness)
    floor = -0.5
    metrics = ("late",)
    presets = {
        "default": {},
        "tight": {"tightness": 0.8},
        "loose": {"tightness": 0.4, "spread": 0.4},
        "jobs_100": {"jobs": 100, "count": 10},
    }
    hints = (
        "a due date alone says nothing of weight and length: what is late anyway should be short or heavy",
    )

    jobs: int = 40
    """In an instance, 1 to 1,000."""
    count: int = 20
    """Instances per evaluation, 1 to 1,000."""
    tightness: float = 0.6
    """The mean due date is 1 minus this of the total processing time; 0 to 1."""
    spread: float = 0.6
    """Length of the interval of due dates as a share of the total processing time; 0 to 2."""

    def __post_init__(self) -> None:
        if not (1 <= self.jobs <= 1000 and 1 <= self.count <= 1000):
            raise ValueError("jobs and count must be 1 to 1,000")
        if not (0 <= self.tightness <= 1 and 0 <= self.spread <= 2):
            raise ValueError("tightness must be 0 to 1, spread 0 to 2")

    def instances(self, rng: np.random.Generator) -> Iterable[Jobs]:
        """`count` sets of jobs."""
        return [self._jobs(rng) for _ in range(self.count)]

    def _jobs(self, rng: np.random.Generator) -> Jobs:
        times = rng.integers(1, 101, self.jobs).astype(float)
        weights = np.ceil(rng.exponential(5.0, self.jobs))
        middle = 1.0 - self.tightness + self.spread * (rng.random(self.jobs) - 0.5)
        return Jobs(times, weights, np.maximum(np.round(times.sum() * middle), 0.0))

    def score_all(self, calls: Calls, instances: Sequence[Jobs]) -> Sequence[Judgement]:
        """All instances in lockstep: one exchange for each job that is started."""
        runs = [calls.start() for _ in instances]
        left = [np.arange(self.jobs) for _ in instances]
        now = [0.0 for _ in instances]
        order: list[list[int]] = [[] for _ in instances]
        for _ in range(self.jobs):
            questions = [
                (run, (jobs.processing_time[w], jobs.weight[w], jobs.due[w], time))
                for run, jobs, w, time in zip(runs, instances, left, now, strict=True)
            ]
            for k, answer in enumerate(calls.ask_all(questions)):
                best = int(answer.array(len(left[k])).argmax())
                order[k].append(int(left[k][best]))
                now[k] += float(instances[k].processing_time[left[k][best]])
                left[k] = np.delete(left[k], best)
        return [_judgement(jobs, np.array(o)) for jobs, o in zip(instances, order, strict=True)]

    def observe(self, rng: np.random.Generator) -> Sequence[str]:
        """What jobs there are, from an instance of the same law."""
        jobs = self._jobs(rng)
        low, middle, high = np.quantile(jobs.due / jobs.processing_time.sum(), (0.1, 0.5, 0.9))
        return (
            f"observed jobs: mean processing time {jobs.processing_time.mean():.1f}, mean weight "
            f"{jobs.weight.mean():.1f}; due dates, as shares of the total processing time: 10, 50 and 90 % quantiles "
            f"{low:.2f}, {middle:.2f} and {high:.2f}",
        )

    def draw(self, axes: Any, traces: Mapping[str, np.ndarray]) -> None:
        """The worst instance as it was done: each job from its start to its end, as late as its colour is dark."""
        ends, times, cost = traces["ends"], traces["times"], traces["cost"]
        shade = 0.9 - 0.9 * cost / max(1.0, cost.max())
        axes.barh(np.arange(len(ends)), times, left=ends - times, color=[(s, s, s) for s in shade])
        axes.plot(traces["due"], np.arange(len(ends)), "|", label="due")
        axes.set(xlabel="time", ylabel="job, as done")
        axes.legend()


def _judgement(jobs: Jobs, order: np.ndarray) -> Judgement:
    times, weights, due = jobs.processing_time[order], jobs.weight[order], jobs.due[order]
    ends = times.cumsum()
    cost = weights * np.maximum(ends - due, 0.0)
    score = -float(cost.sum() / (weights.sum() * times.sum()))
    worst = int(cost.argmax())
    diagnosis = (
        f"{np.mean(cost > 0):.0%} of the jobs are late. The costliest has processing time {times[worst]:g} and weight "
        f"{weights[worst]:g}, was due at {due[worst]:g} and ended at {ends[worst]:g} of {ends[-1]:g}."
    )
    traces = {"ends": ends, "times": times, "due": due, "cost": cost}
    return Judgement(score, {"late": float(np.mean(cost > 0))}, diagnosis, traces)
