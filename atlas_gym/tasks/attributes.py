"""What a task's author has set on its class, as far as a class statement can tell whether it will do."""

import math
from collections.abc import Collection
from numbers import Real
from typing import Any

from atlas_gym.tasks.constants import check_defaults_given, check_presets


def check_attributes(cls: Any, traits: Collection[str]) -> None:
    """Raise ValueError for class attributes that no task can have; `traits` are those that there are."""
    for name in ("metrics", "gallery_metrics", "errors", "hints", "imports", "traits"):
        given: Any = getattr(cls, name)
        if isinstance(given, str):
            raise ValueError(f"{name} is {given!r}; give a tuple of texts, ({given!r},)")
        if not isinstance(given, Collection) or not all(isinstance(text, str) for text in given):
            raise ValueError(f"{name} is {given!r}; give a tuple of texts")
        # Evaluators tell tasks apart by their imports.
        setattr(cls, name, frozenset(given) if name == "traits" else tuple(given))
    if unknown := cls.traits - set(traits):
        raise ValueError(f"no trait {', '.join(sorted(unknown))}; there are {', '.join(traits)}")
    check_floor(cls.floor)
    check_defaults_given(cls)
    check_presets(cls)


def check_floor(floor: Any) -> None:
    """Raise ValueError for a floor that is none."""
    if not isinstance(floor, Real) or not -math.inf < float(floor) < 0:
        raise ValueError(f"floor is {floor!r}; it must be below 0, the perfect score, and finite")
