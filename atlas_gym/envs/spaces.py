"""The space of program texts, beside Gymnasium's `Text`: any Unicode, samples from a pool of valid programs."""

from collections.abc import Iterable
from typing import Any, NoReturn

import numpy as np
from gymnasium.error import CustomSpaceError
from gymnasium.spaces import Text
from gymnasium.vector.utils import create_shared_memory

_CHARSET = frozenset(map(chr, range(32, 127))) | {"\n", "\t"}
"""For masked sampling only."""


class _NoShape:
    """Says what to do to whoever takes a text for an array."""

    def __iter__(self) -> NoReturn:
        raise TypeError(
            "programs are texts, not arrays: a learner whose actions are numbers, such as those of Stable-Baselines3, "
            "takes atlas_gym.wrappers.TemplateAction(env)"
        )


class Source(Text):
    """Texts of at most `max_length` characters.

    Args:
        max_length: The greatest number of characters, inclusive.
        pool: Texts that `sample` draws from; without any it draws printable gibberish, as `Text` does.
        seed: Seed of the sampling.

    Example:
        >>> space = Source(100, pool=["def policy(context, history, t):\\n    return 0\\n"], seed=1)
        >>> space
        Source(max_length=100)
        >>> space.sample() in space, "θ = 1" in space, "x" * 101 in space
        (True, True, False)
    """

    def __init__(
        self, max_length: int, *, pool: Iterable[str] = (), seed: int | np.random.Generator | None = None
    ):
        super().__init__(max_length, min_length=0, charset=_CHARSET, seed=seed)
        self.pool = tuple(pool)

    @property
    def shape(self) -> Any:
        """None in effect; learners that make arrays of actions and observations ask for it."""
        return _NoShape()

    def contains(self, x: Any) -> bool:
        return isinstance(x, str) and len(x) <= self.max_length

    def sample(self, mask: Any = None, probability: Any = None) -> str:
        """Draw a text of the pool; a mask or probability asks for `Text.sample`, which draws characters."""
        if mask is None and probability is None and self.pool:
            return self.pool[self.np_random.integers(len(self.pool))]
        return super().sample(mask, probability)

    def __repr__(self) -> str:
        return f"Source(max_length={self.max_length})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Source) and (self.max_length, self.pool) == (other.max_length, other.pool)

    def __hash__(self) -> int:
        return hash((Source, self.max_length, self.pool))


@create_shared_memory.register(Source)
def _refuse_shared_memory(space: Source, n: int = 1, ctx: Any = None) -> NoReturn:
    """Gymnasium 1.x returns stale texts from shared memory, silently: refuse, and say what to do instead."""
    raise CustomSpaceError(
        "AsyncVectorEnv returns stale program texts from shared memory: pass shared_memory=False "
        "(gym.make_vec(..., vectorization_mode='async', vector_kwargs={'shared_memory': False})), "
        "or leave vectorization_mode out to evaluate the batch on a pool of workers"
    )
