"""Clusters of programs: what counts as the same idea.

Two programs are compared by their *shape* (paths of node types in the syntax tree; names of called functions
count, other names and the values of constants do not) and by their *behaviour* (score and metrics, compared
relative to their size). The first program that is far from all earlier leaders becomes the leader of a new
cluster; later ones join the nearest leader. Leaders never move, so assigning is a fold over the records in
their order.

Why this: the distances need no scale of the task and no training, a cluster is explained by showing its
leader, and the result is easily tested. A program that differs in a constant only joins its cluster unless it
behaves quite differently.
"""

import ast
import math
import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache

from atlas_gym.program_text import parse_program

RADIUS = 0.12
"""Distance from a leader, in [0, 1], beyond which a program starts a cluster of its own."""
_BEHAVIOUR = 0.5
"""Weight of behaviour against shape in the distance, in [0, 1]."""
_DEPTH = 3
"""Length of the paths that a shape is made of, nodes."""
LIMIT = 256
"""Clusters at most; once there are as many, a program joins the nearest however far it is. Keeps the cost of a program
independent of the length of a run."""

_DIGITS = r"\d+(?:_\d+)*"
_NUMBER = re.compile(rf"(?<![\w.]){_DIGITS}(\.{_DIGITS}|\.(?![\w.]))?([eE][-+]?{_DIGITS})?")


@dataclass(frozen=True, eq=False)
class Shape:
    """What a program looks like. Equal by identity: programs that differ in numbers share theirs."""

    paths: Mapping[tuple[str, ...], int]  # how often each path of node types occurs


@dataclass(frozen=True)
class Signature:
    """What two programs are compared by."""

    shape: Shape  # its syntax tree without names and values
    behaviour: Mapping[str, float]  # score and metrics


def signature(program: str, score: float, metrics: Mapping[str, float]) -> Signature:
    """Signature of a program that parses."""
    finite = {name: value for name, value in metrics.items() if math.isfinite(value)}
    try:  # most candidates are a known program with other numbers; a shape does not see those
        shape = _shape(_NUMBER.sub("0", program))
    except SyntaxError:  # a number that the text needs, as in "7.5.real" or the name of a character
        shape = _shape(program)
    return Signature(shape, finite | {"score": score})


@lru_cache(maxsize=4096)
def _shape(program: str) -> Shape:
    paths: Counter[tuple[str, ...]] = Counter()
    pending: list[tuple[ast.AST, tuple[str, ...]]] = [(parse_program(program), ())]
    while pending:  # not recursive: a long sum is a deep tree
        node, above = pending.pop()
        kind = f".{node.attr}" if isinstance(node, ast.Attribute) else type(node).__name__
        path = (*above, kind)[-_DEPTH:]
        paths[path] += 1
        pending += [
            (child, path) for child in ast.iter_child_nodes(node) if not isinstance(child, ast.expr_context)
        ]
    return Shape(paths)


def distance(one: Signature, other: Signature) -> float:
    """In [0, 1]; 0 for programs of equal shape and behaviour: the mean relative difference (Canberra) over the
    measurements that both have, mixed with the shapes'."""
    a, b = one.behaviour, other.behaviour
    names = sorted(a.keys() & b.keys())
    terms = [abs(a[name] - b[name]) / (abs(a[name]) + abs(b[name])) for name in names if a[name] != b[name]]
    behaviour = sum(terms) / max(len(names), 1)
    return _BEHAVIOUR * behaviour + (1 - _BEHAVIOUR) * _shape_distance(one.shape, other.shape)


@lru_cache(maxsize=65536)
def _shape_distance(one: Shape, other: Shape) -> float:
    """One minus the weighted Jaccard similarity."""
    a, b = one.paths, other.paths
    paths = a.keys() | b.keys()
    shared = sum(min(a.get(path, 0), b.get(path, 0)) for path in paths)
    return 1 - shared / max(sum(max(a.get(path, 0), b.get(path, 0)) for path in paths), 1)


@dataclass
class Clusters:
    """Clusters of the programs added so far."""

    radius: float = RADIUS  # distance from a leader beyond which a program starts a cluster of its own
    leaders: list[Signature] = field(default_factory=list)  # first program of each cluster
    sizes: list[int] = field(default_factory=list)  # programs in each cluster

    def add(self, program: Signature) -> int:
        """Assign one program to the nearest leader, the earliest of equals; returns its cluster's index."""
        gaps = [distance(leader, program) for leader in self.leaders]
        nearest = min(range(len(gaps)), key=lambda index: gaps[index], default=0)
        far = not gaps or gaps[nearest] > self.radius
        if far and len(self.leaders) < LIMIT:
            self.leaders.append(program)
            self.sizes.append(0)
            nearest = len(self.leaders) - 1
        self.sizes[nearest] += 1
        return nearest

    @property
    def effective(self) -> float:
        """Effective number of clusters: exp of the entropy of their sizes. Near 1, one mode has taken
        over."""
        total = sum(self.sizes)
        return math.exp(-sum(size / total * math.log(size / total) for size in self.sizes)) if total else 0.0
