"""A task's constants: what of a class they are, what values they take, and how they are given on a command line."""

import ast
import inspect
from collections.abc import Mapping, Sequence
from dataclasses import MISSING, Field, fields
from numbers import Integral, Real
from typing import Any

from atlas_gym.evaluation.result import limits_from

_OF_A_TASK = ("seed", "split", "share")
"""Fields of every task that say which one of a family it is, and are no constants of the family."""
_KINDS: tuple[tuple[type, Any, str], ...] = (
    (bool, bool, "True or False"),
    (int, Integral, "a whole number (int)"),
    (float, Real, "a number"),
    (str, str, "a text"),
)
"""Type of a default, what may take its place, and how that is called."""


def annotate_overrides(cls: type) -> None:
    """Let constants of a base that a class sets without an annotation be its constants all the same."""
    own = dict(inspect.get_annotations(cls))
    for base in cls.__mro__[1:]:
        for name, constant in getattr(base, "__dataclass_fields__", {}).items():
            if name in vars(cls) and name not in own:
                own[name] = constant.type
    cls.__annotations__ = own


def values_of(cls: Any, preset: Mapping[str, Any], given: Mapping[str, Any]) -> dict[str, Any]:
    """The constants of a preset with those laid over them that were given.

    Raises:
        TypeError: If there is no such constant.
        ValueError: If one is of another type than its default.
    """
    known = {f.name: f for f in fields(cls) if f.name not in _OF_A_TASK}
    if unknown := given.keys() - known.keys():
        there_are = sorted(known, key=lambda name: name == "limits")  # which every task has
        raise TypeError(f"no constant {', '.join(sorted(unknown))}; there are {', '.join(there_are)}")
    values = {**preset, **given}
    for name, value in values.items():
        _check(known[name], value)
        # Tasks are told apart by their constants, so these must not change.
        values[name] = tuple(value) if isinstance(value, list) else value
    if "limits" in given:
        values["limits"] = limits_from(given["limits"], cls.limits)
    return values


def constants_from(settings: Sequence[str]) -> dict[str, Any]:
    """Turn NAME=VALUE into keywords; a value that is no Python literal is a text."""
    constants: dict[str, Any] = {}
    for setting in settings:
        name, equals, value = setting.partition("=")
        if not equals:
            raise ValueError(f"{setting!r} is not NAME=VALUE")
        try:
            constants[name] = ast.literal_eval(value)
        except (ValueError, SyntaxError):
            constants[name] = value
    return constants


def _check(constant: "Field[Any]", value: Any) -> None:
    if constant.default is MISSING:
        return
    for kind, takes, called in _KINDS:
        if type(constant.default) is kind:
            if not isinstance(value, takes) or (isinstance(value, bool) and kind is not bool):
                raise ValueError(f"{constant.name} is {value!r}; it must be {called}")
            return
