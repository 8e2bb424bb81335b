"""How a learner's configuration differs from its project's own, computed from the two configurations."""

import inspect
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Any

from atlas_gym.trainers.store.plain import flatten, merge


@dataclass(frozen=True)
class Change:
    """A setting that differs from its project's default."""

    value: object
    """What it is here."""
    default: object
    """What it is there."""
    why: str
    """The reason, in a few words."""


def changes_between(
    here: Mapping[str, Any],
    there: Mapping[str, Any],
    why: Mapping[str, str],
    otherwise: str = "",
    given: Collection[str] = (),
) -> dict[str, Change]:
    """Every setting that has another value here, by its dotted name.

    Args:
        here: the learner's whole configuration.
        there: its project's.
        why: reasons by dotted name.
        otherwise: the reason of all others.
        given: names of what every learner is given, such as the task and the seed; left out.
    """
    mine, usual = flatten(here), flatten(there)
    return {
        name: Change(mine.get(name), usual.get(name), why.get(name, otherwise))
        for name in {**usual, **mine}
        if mine.get(name) != usual.get(name) and name not in given
    }


def changes_from_defaults(
    function: Callable[..., Any], here: Mapping[str, tuple[Any, str]]
) -> dict[str, Change]:
    """Every argument that is not the function's own default.

    Args:
        function: of somebody's library.
        here: argument → what it is here, and why.
    """
    usual = {name: inspect.signature(function).parameters[name].default for name in here}
    return {
        name: Change(value, usual[name], why) for name, (value, why) in here.items() if value != usual[name]
    }


def nest(flat: Mapping[str, Any]) -> dict[str, Any]:
    """Settings by dotted names as a configuration file nests them: `a.b` is `b` in `a`."""
    found: dict[str, Any] = {}
    for name, value in flat.items():
        for part in reversed(name.split(".")):
            value = {part: value}
        found = merge(found, value)
    return found
