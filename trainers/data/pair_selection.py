"""Choosing among many pairs: the strongest first, what has been used often later, and nothing over its cap.

Every taken pair wears out what it is made of (its site, its texts): the strength of what is left is divided by one more
than the uses of its parts so far. As strengths only fall, the top of a heap is taken if its strength is still what it
was (lazy greedy).
"""

import heapq
import math
from collections import Counter
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field
from typing import Generic, TypeVar

import numpy as np

T = TypeVar("T")


@dataclass
class Cap(Generic[T]):
    """How often the same thing may be used in a selection, and has been."""

    part: Callable[[T], Hashable | None]  # the thing in question, None if there is none
    limit: int  # uses of each at most
    wear: float = 1.0  # weight of a use in dividing the strength, at least 0
    different: float = math.inf  # different things at most
    uses: Counter[Hashable] = field(init=False, default_factory=Counter)

    def allows(self, member: T) -> bool:
        """True if the member may be taken."""
        part = self.part(member)
        uses = self.uses[part]
        return part is None or (uses < self.limit and (uses > 0 or len(self.uses) < self.different))


class Selection(Generic[T]):
    """A selection under way, which takes no member of one pool again from another; `strength` is at least 0."""

    def __init__(self, caps: Sequence[Cap[T]], strength: Callable[[T], float]):
        self._caps, self._strength = caps, strength
        self._taken: set[T] = set()

    def take(self, pool: Sequence[T], count: int, rng: np.random.Generator) -> list[T]:
        """Up to `count` members of the pool, the strongest of each moment; ties by lot."""
        pool = [member for member in pool if member not in self._taken]
        lots = rng.permutation(len(pool)).tolist()
        heap = [(-self._worn(member), lot, member) for member, lot in zip(pool, lots, strict=True)]
        heapq.heapify(heap)
        taken: list[T] = []
        while heap and len(taken) < count:
            strength, lot, member = heapq.heappop(heap)
            if not all(cap.allows(member) for cap in self._caps):
                continue  # what is over a cap stays over it
            if -strength > (now := self._worn(member)):
                heapq.heappush(heap, (-now, lot, member))
                continue
            for cap in self._caps:
                if (part := cap.part(member)) is not None:
                    cap.uses[part] += 1
            taken.append(member)
        self._taken.update(taken)
        return taken

    def _worn(self, member: T) -> float:
        uses = sum(cap.wear * cap.uses[cap.part(member)] for cap in self._caps)
        return self._strength(member) / (1.0 + uses)
