"""ATLAS-CirclePacking-v0: a program places circles in the unit square, the sum of their radii as large as can be.

Whether circles overlap is decided by rational arithmetic on the very floats that the program returned. A tolerance,
however small, would be a gift that adds up over all pairs, and that programs learn to take.
"""

import math
from collections.abc import Iterable, Mapping
from fractions import Fraction
from typing import Any

import numpy as np

from atlas_gym.evaluation.result import Judgement, Limits
from atlas_gym.tasks.calls import Program
from atlas_gym.tasks.constants import require_own_best_known
from atlas_gym.tasks.given_programs import load_experts, template_of
from atlas_gym.tasks.program_task import ProgramTask
from atlas_gym.tasks.template import Parameter


def rings(n):
    """One circle in the middle, a ring around it and the others along the walls"""
    inner = 0.3
    outer = 0.7
    members = 8
    first = 2 * np.pi * np.arange(members) / members
    second = 2 * np.pi * np.arange(n - 1 - members) / max(1, n - 1 - members)
    ring = 0.5 + inner * np.column_stack([np.cos(first), np.sin(first)])
    walls = 0.5 + outer * np.column_stack([np.cos(second), np.sin(second)])
    centers = np.clip(np.concatenate([[[0.5, 0.5]], ring, walls])[:n], 0.01, 0.99)
    gaps = np.sqrt(((centers[:, None] - centers) ** 2).sum(-1)) + 9 * np.eye(n)
    radii = np.minimum(np.minimum(centers, 1 - centers).min(axis=1), gaps.min(axis=1) / 2)
    return centers, radii * (1 - 1e-12)


def rings_inlined(n):
    """One circle in the middle, a ring around it and the others along the walls, constants in the formulas"""
    first = 2 * np.pi * np.arange(8) / 8
    second = 2 * np.pi * np.arange(n - 9) / max(1, n - 9)
    ring = 0.5 + 0.3 * np.column_stack([np.cos(first), np.sin(first)])
    walls = 0.5 + 0.7 * np.column_stack([np.cos(second), np.sin(second)])
    centers = np.clip(np.concatenate([[[0.5, 0.5]], ring, walls])[:n], 0.01, 0.99)
    gaps = np.sqrt(((centers[:, None] - centers) ** 2).sum(-1)) + 9 * np.eye(n)
    radii = np.minimum(np.minimum(centers, 1 - centers).min(axis=1), gaps.min(axis=1) / 2)
    return centers, radii * (1 - 1e-12)


def row(n):
    """All circles in one row"""
    x = (np.arange(n) + 0.5) / n
    centers = np.column_stack([x, np.full(n, 0.5)])
    radii = np.full(n, 0.5 / n)
    return centers, radii * (1 - 1e-12)


def grid(n):
    """A square grid, and small circles in holes of it"""
    side = math.isqrt(n)
    radius = 0.5 / side
    places = radius * (2 * np.arange(side) + 1)
    centers = np.array([(x, y) for x in places for y in places])
    holes = np.array([(x + radius, y + radius) for x in places for y in places if max(x, y) < 1 - 2 * radius])
    left = n - len(centers)
    if left > len(holes):  # a finer grid, not full
        side += 1
        radius, places = 0.5 / side, (2 * np.arange(side) + 1) * 0.5 / side
        centers = np.array([(x, y) for x in places for y in places])[:n]
        return centers, np.full(n, radius * (1 - 1e-12))
    radii = np.concatenate([np.full(len(centers), radius), np.full(left, radius * (np.sqrt(2) - 1))])
    return np.concatenate([centers, holes[:left].reshape(-1, 2)]), radii * (1 - 1e-12)


class CirclePacking(ProgramTask, id="ATLAS-CirclePacking-v0"):
    """
    ## Description
    A program places n circles in the unit square, none reaching into another or beyond the edge, with as large a sum
    of radii as it can. This is problem B.12 of AlphaEvolve (Novikov et al. 2025) and an example of OpenEvolve and
    ShinkaEvolve; there is one problem for all seeds.

    >>> import gymnasium as gym
    >>> import atlas_gym
    >>> env = gym.make("ATLAS-CirclePacking-v0", n=2, best_known=0.5858)
    >>> observation, info = env.reset(seed=0)
    >>> program = "def pack(n):\\n    return [[0.25, 0.25], [0.75, 0.75]], [0.25, 0.25]\\n"
    >>> observation, reward, terminated, truncated, info = env.step(program)
    >>> info["status"], terminated, round(reward, 4)
    ('ok', True, -0.0858)
    >>> env.close()

    ## Action Space
    `Source(65536)`: the text of a Python module that defines `pack(n)`.

    | Argument | Content                                                    |
    |----------|------------------------------------------------------------|
    | `n`      | number of circles                                          |
    | returns  | centres, an array (n, 2), and radii, an array (n,), floats |

    ## Observation Space
    `Source`: the task in words, the best program so far (or one to start from) and, after a step, the feedback on the
    last program: the sum of its radii, how many circles touch nothing, or which two overlap and by how much.

    ## Rewards
    The sum of the radii minus the best known, `best_known`, so that a reward above 0 would be a discovery. For 26
    circles 2.6358628 (AlphaEvolve, May 2025), 2.6359828 (ShinkaEvolve, Lange et al., September 2025), 2.63598308
    (ThetaEvolve, November 2025; 2.635983084919 in Packomania's table, September 2026); AutoEvolver's 2.6359884 (March
    2026) holds up to 1e-6 only. A packing is feasible or not, exactly: the numbers returned are taken as the rational
    numbers that they are, so r = 1 − x may be too large by a rounding. Subtract 1e-12. −2.6359 counts as useless; a
    program that fails, or whose circles overlap, gets −3.6359.

    ## Starting State
    Nothing is drawn: seeds and splits differ in nothing but the seed of the program's own random generators.

    ## Arguments

    | Keyword       | Default            | Meaning                                                  |
    |---------------|--------------------|----------------------------------------------------------|
    | `preset`      | `"default"`        | `default`, `circles_32` (best known 2.93957, Packomania) |
    | `n`           | 26                 | number of circles                                        |
    | `best_known`  | 2.635983084919     | sum of radii that is worth 0; to be given with another n |
    | `limits`      | 30 s, else as ever | programs that optimise need seconds                      |
    | `start`       | `"named"`          | program shown first; or `inlined`, `scratch`             |

    All tasks have the keywords of `atlas_gym.envs.program_env.ProgramEnv` as well.
    """

    function = "pack"
    start = {"named": rings, "inlined": rings_inlined, "scratch": row}
    templates = (
        template_of(
            rings,
            function,
            Parameter("inner", 0.15, 0.6),
            Parameter("outer", 0.35, 1.4),
            Parameter("members", 4, 16, integer=True),
        ),
    )
    experts = {"grid": grid, **load_experts("atlas_gym.tasks.experts", "slsqp")}
    imports = ("scipy.optimize",)
    floor = -2.6359
    call_hints = ("returns centers, an array (n, 2), and radii, an array (n,)",)
    metrics = ("sum_of_radii",)
    presets = {"default": {}, "circles_32": {"n": 32, "best_known": 2.939572771205}}

    n: int = 26
    """Circles, 1 to 10,000."""
    best_known: float = 2.635983084919
    """Sum of radii that scores are measured against, above 0."""
    limits: Limits = Limits(wall_s=30.0, cpu_s=30.0)

    def __post_init__(self) -> None:
        if not (1 <= self.n <= 10_000 and 0 < self.best_known < math.inf):
            raise ValueError("n must be 1 to 10,000, and best_known positive and finite")
        require_own_best_known(self, "n")

    def instances(self, rng: np.random.Generator) -> Iterable[int]:
        return [self.n]

    def score(self, program: Program, instance: int) -> Judgement:
        """One call; the circles are looked at exactly."""
        answer = program(instance)
        centers, radii = answer.parts(2)
        circles = np.column_stack([centers.array((instance, 2)), radii.array(instance)])
        if found := infeasibility(circles):
            answer.refuse(found, "circles that stay inside and apart, e.g. with radii smaller by 1e-12")
        total = math.fsum(circles[:, 2])
        return Judgement(
            total - self.best_known, {"sum_of_radii": total}, _account(circles), {"circles": circles}
        )

    def describe(self) -> str:
        return _WORDS.format(n=self.n, best=self.best_known)

    def draw(self, axes: Any, traces: Mapping[str, np.ndarray]) -> None:
        from matplotlib.patches import Circle

        for x, y, r in traces["circles"]:
            axes.add_patch(Circle((x, y), r, alpha=0.4))
        axes.set(xlim=(0, 1), ylim=(0, 1), aspect="equal")


_WORDS = """\
Place {n} circles in the unit square, none overlapping another, with as large a sum of radii as possible.

    n: number of circles, {n}.
    Returns two values: the centres, an array (n, 2) with coordinates from 0 to 1, and the radii, an array (n,).

The score is the sum of the radii minus {best:.9g}, the best known: higher is better. Overlaps and edges are checked
exactly, without any tolerance, so make radii smaller by 1e-12. Circles of different sizes do better than equal ones;
the radii can be optimised together with the centres, e.g. with scipy.optimize.minimize(method="SLSQP")."""

_TOUCHING = 1e-6
"""Gap below which circles count as touching, in what is said of them."""
_ROUNDING = 1e-9
"""No float arithmetic on two circles errs by as large a part of the sum of their radii."""

_FARTHEST = Fraction(10**300)
"""Greatest distance beyond the square that is told: two of the largest floats add up to what none holds."""


def infeasibility(circles: np.ndarray) -> str:
    """What is wrong with a packing, exactly; empty if nothing is.

    Args:
        circles: Finite x, y, r of each, (n, 3).
    """
    exact = [tuple(map(Fraction, circle)) for circle in circles.tolist()]
    for k, (x, y, r) in enumerate(exact):
        if r < 0:
            return f"circle {k} with a radius below 0"
        beyond = max(r - x, r - y, x + r - 1, y + r - 1)
        if beyond > 0:
            return f"circle {k} beyond the square's edge by {float(min(beyond, _FARTHEST)):.2g}"
    # Pairs that may overlap: the others are farther apart than floats can err, measured by their radii, so that few
    # pairs of circles that do not overlap are looked at exactly, however small they are.
    x, y, r = circles.T
    sums = r[:, None] + r
    close = (np.hypot(x[:, None] - x, y[:, None] - y) - sums <= _ROUNDING * sums) & (sums > 0)
    for k, other in np.argwhere(np.triu(close, 1)).tolist():
        (x, y, r), (u, v, s) = exact[k], exact[other]
        if (x - u) ** 2 + (y - v) ** 2 < (r + s) ** 2:
            overlap = float(r + s) - math.hypot(float(x - u), float(y - v))
            return f"circles {k} and {other} overlapping by {f'{overlap:.2g}' if overlap > 0 else 'less than 1e-16'}"
    return ""


def _account(circles: np.ndarray) -> str:
    x, y, r = circles.T
    gaps = np.hypot(x[:, None] - x, y[:, None] - y) - r[:, None] - r + 9 * np.eye(len(r))
    walls = np.minimum.reduce([x - r, y - r, 1 - x - r, 1 - y - r])
    loose = np.flatnonzero(np.minimum(gaps.min(axis=1), walls) > _TOUCHING)
    return (
        f"The sum of the radii is {math.fsum(r):.6f}; the smallest is {r.min():.3f}, the largest {r.max():.3f}. "
        f"{len(loose)} circles touch nothing and could grow. {np.pi * (r**2).sum():.0%} of the square are covered."
    )
