"""A task's constants, the annotated attributes of its class: made, checked and read from a command line."""

import ast
import difflib
import inspect
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import Field, FrozenInstanceError, dataclass, fields
from enum import Enum
from numbers import Integral, Real
from typing import Any, Literal, get_args, get_origin

from atlas_gym.evaluation.result import limits_from

_OF_A_TASK = {"seed", "split"}
"""Fields of every task that say which one of a family it is, and are no constants of the family."""
_OF_ENVIRONMENTS = {
    *("task", "preset", "turns", "task_seed", "confinement", "render_mode", "num_envs", "workers"),
    *("max_episode_steps", "disable_env_checker", "vectorization_mode", "vector_kwargs", "wrappers"),
}
"""Keywords that `gym.make` and the environments take themselves: a constant of such a name could never be given."""
_KINDS: dict[str, tuple[Any, str]] = {
    "bool": (bool, "True or False"),
    "int": (Integral, "a whole number (int)"),
    "float": (Real, "a number"),
    "str": (str, "a text"),
}
"""Accepted type and its name in messages, by annotation; others are not checked."""


def make_constants(cls: Any) -> None:
    """Make the annotated attributes of a task's class fields of a frozen dataclass.

    Raises ValueError for a name that is taken, a default that can be changed and a constructor of the class's own;
    TypeError for limits that are none.
    """
    if "__init__" in vars(cls):
        raise ValueError("a task has no __init__; its constants are annotated attributes: `count: int = 5`")
    if "limits" in vars(cls):
        cls.limits = limits_from(cls.limits, super(cls, cls).limits)
    try:
        own = dict(inspect.get_annotations(cls, eval_str=True))  # which may be texts
    except (NameError, AttributeError, SyntaxError, TypeError):  # of what is there for type checkers only
        own = dict(inspect.get_annotations(cls))
    if taken := (_OF_ENVIRONMENTS | _OF_A_TASK) & own.keys():
        raise ValueError(
            f"environments have a keyword {', '.join(sorted(taken))}; call the constant otherwise"
        )
    for base in cls.__mro__[1:]:  # a base's constants that are set without an annotation
        for name, constant in getattr(base, "__dataclass_fields__", {}).items():
            if name in vars(cls) and name not in own:
                own[name] = constant.type
    cls.__annotations__ = own
    words = cls.__doc__
    dataclass(frozen=True, kw_only=True)(cls)
    cls.__doc__ = words  # without any, `dataclass` makes the constructor's signature the docstring
    # The base's serve as well, and a `@dataclass(frozen=True)` of the author's would refuse to overwrite these.
    del cls.__setattr__, cls.__delattr__


def refuse_change(task: object, name: str, value: object) -> None:
    """A task's `__setattr__`."""
    raise FrozenInstanceError(
        f"cannot assign to self.{name}: a task stays as it is, for all programs; yield from `instances` what `score` "
        "needs, and keep the rest in local variables"
    )


def values_of(cls: Any, preset: Mapping[str, Any], given: Mapping[str, Any]) -> dict[str, Any]:
    """The constants of a preset with those laid over them that were given.

    Raises:
        TypeError: If there is no such constant.
        ValueError: If one is of another type than annotated, or of one that can be changed.
    """
    known = {f.name: f for f in fields(cls) if f.name not in _OF_A_TASK}
    values = {**preset, **given}
    if unknown := values.keys() - known.keys():
        there_are = sorted(known, key=lambda name: name == "limits")  # which every task has
        close = difflib.get_close_matches(min(unknown), [*known, *_OF_ENVIRONMENTS, *_OF_A_TASK], n=1)
        raise TypeError(
            f"no constant {', '.join(sorted(unknown))}; {f'did you mean {close[0]}? ' if close else ''}there are "
            f"{', '.join(there_are)}, and beside a task's constants its preset and split, and an environment's turns"
        )
    if "limits" in values:
        values["limits"] = limits_from(values["limits"], cls.limits)
    return {name: _value(known[name], value) for name, value in values.items()}


def _value(constant: "Field[Any]", value: Any) -> Any:
    """A value as the constant takes it: lists as tuples, an Enum's values as its members."""
    if isinstance(value, list | tuple):
        value = _as_tuple(value)
    if not isinstance(value, Hashable):
        raise ValueError(
            f"{constant.name} is a {type(value).__name__}; it must be a number, a text or a list of these"
        )
    if isinstance(constant.default, Enum) and isinstance(value, str | int | float):
        return type(constant.default)(value)
    choices = get_args(constant.type) if get_origin(constant.type) is Literal else (value,)
    if value not in choices:
        known = ", ".join(map(repr, choices))
        raise ValueError(f"{constant.name} is {value!r}; it must be one of {known}")
    kind = constant.type if isinstance(constant.type, str) else getattr(constant.type, "__name__", "")
    takes, called = _KINDS.get(kind, (object, ""))
    if not isinstance(value, takes) or (type(value) is bool and called and takes is not bool):
        raise ValueError(f"{constant.name} is {value!r}; it must be {called}")
    return value


def _as_tuple(value: Any) -> Any:
    return tuple(map(_as_tuple, value)) if isinstance(value, list | tuple) else value


def constants_from(settings: Sequence[str]) -> dict[str, Any]:
    """Turn NAME=VALUE into keywords; a value that is no Python literal is a text."""
    constants: dict[str, Any] = {}
    for setting in settings:
        name, equals, value = setting.partition("=")
        if not equals:
            raise ValueError(f"{setting!r} is not NAME=VALUE")
        if name in _OF_A_TASK:
            raise ValueError(f"{name} is no constant of a task: --help has the options for it")
        try:
            constants[name] = ast.literal_eval(value)
        except (ValueError, TypeError, SyntaxError, MemoryError, RecursionError):
            constants[name] = value
    return constants


def require_own_best_known(task: Any, *sizes: str) -> None:
    """Refuse the best known value of other sizes, beside which anything may look like a record.

    Raises:
        ValueError: `best_known` is that of a preset whose sizes are not the task's.
    """
    usual = {field.name: field.default for field in fields(task)}
    of_presets = [{**usual, **preset} for preset in task.presets.values()]
    same = [known for known in of_presets if known["best_known"] == task.best_known]
    if same and not any(all(getattr(task, size) == known[size] for size in sizes) for known in same):
        told = ", ".join(f"{size}={getattr(task, size)!r}" for size in sizes)
        raise ValueError(
            f"best_known={task.best_known!r} belongs to another size: give the one of {told} as well"
        )
