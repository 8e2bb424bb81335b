"""A task's constants: what of a class they are, what values they take, and how they are given on a command line."""

import ast
import inspect
import math
import re
from collections.abc import Collection, Hashable, Mapping, Sequence
from dataclasses import MISSING, Field, FrozenInstanceError, dataclass, fields
from enum import Enum
from numbers import Integral, Real
from typing import Any, Literal, get_args, get_origin

from atlas_gym.evaluation.result import limits_from

_OF_A_TASK = ("seed", "split")
"""Fields of every task that say which one of a family it is, and are no constants of the family."""
_OF_ENVIRONMENTS = {
    *("task", "preset", "turns", "task_seed", "confinement", "render_mode", "num_envs", "workers"),
    *("max_episode_steps", "disable_env_checker", "vectorization_mode", "vector_kwargs", "wrappers"),
}
"""Keywords that `gym.make` and the environments take themselves: a constant of such a name could never be given."""
_SEVERAL = re.compile(r"\||\b(Optional|Union)\[")
"""In an annotation with several types."""
_KINDS: dict[str, tuple[Any, str]] = {
    "bool": (bool, "True or False"),
    "int": (Integral, "a whole number (int)"),
    "float": (Real, "a number"),
    "str": (str, "a text"),
}
"""By the type of a constant, its annotation or else its default, what may take its place, and how that is called."""


def make_constants(cls: Any) -> None:
    """Make the annotated attributes of a task's class its constants.

    Raises ValueError for one that could be changed, or whose name is taken, and for a constructor of the class's own,
    TypeError for limits that are none.
    """
    if "__init__" in vars(cls):
        raise ValueError("a task has no __init__; its constants are annotated attributes: `count: int = 5`")
    if "limits" in vars(cls):
        cls.limits = limits_from(cls.limits, super(cls, cls).limits)
    _annotate_overrides(cls)
    _check_defaults(cls)
    words = cls.__doc__
    dataclass(frozen=True, kw_only=True)(cls)
    cls.__doc__ = words  # without any, `dataclass` makes the constructor's signature the docstring
    # The base's serve as well, and a `@dataclass(frozen=True)` of the author's would refuse to overwrite these.
    del cls.__setattr__, cls.__delattr__
    _check_names(cls)


def refuse_change(task: object, name: str, value: object) -> None:
    """In the place of dataclass's own, which does not say what to do instead."""
    raise FrozenInstanceError(
        f"cannot assign to self.{name}: a task stays as it is, for all programs; yield from `instances` what `score` "
        "needs, and keep the rest in local variables"
    )


def _annotate_overrides(cls: type) -> None:
    """Let constants of a base that a class sets without an annotation be its constants all the same, and read the
    annotations that `from __future__ import annotations` has left as texts."""
    try:
        own = dict(inspect.get_annotations(cls, eval_str=True))
    except (NameError, AttributeError, SyntaxError, TypeError):  # of what is there for type checkers only
        own = dict(inspect.get_annotations(cls))
    for base in cls.__mro__[1:]:
        for name, constant in getattr(base, "__dataclass_fields__", {}).items():
            if name in vars(cls) and name not in own:
                own[name] = constant.type
    cls.__annotations__ = own


def _check_names(cls: Any) -> None:
    """Raise ValueError for a constant that has the name of an environment's own keyword or of a task's own field."""
    if taken := _OF_ENVIRONMENTS & {f.name for f in fields(cls)}:
        raise ValueError(
            f"environments have a keyword {', '.join(sorted(taken))} of their own; call the constant otherwise"
        )
    if taken := set(_OF_A_TASK) & inspect.get_annotations(cls).keys():
        raise ValueError(f"every task has a {', '.join(sorted(taken))}; call the constant otherwise")


def _check_defaults(cls: type) -> None:
    """Raise ValueError for a constant whose default can be changed; `dataclass` would advise a factory of such."""
    for name, kind in inspect.get_annotations(cls).items():
        if "ClassVar" in str(kind):
            continue
        default = vars(cls).get(name)
        if isinstance(default, Field) and callable(default.default_factory):
            default = default.default_factory()
        if not isinstance(default, Hashable | Field):
            raise ValueError(
                f"the constant {name} is a {type(default).__name__}, which can be changed; give a number, a text "
                "or a tuple of these, or leave out the annotation if it is no constant"
            )


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


def check_defaults_given(cls: Any) -> None:
    """Raise ValueError for a constant that has none; only tasks need them, not their bases."""
    for constant in fields(cls):
        if constant.default is MISSING and constant.default_factory is MISSING:
            kind = _annotation(constant)
            raise ValueError(
                f"the constant {constant.name} has no default; write `{constant.name}: {kind} = …`"
            )


def check_presets(cls: Any) -> None:
    """Raise ValueError or TypeError for presets that are none, or of which one could not be chosen."""
    if not isinstance(cls.presets, Mapping) or not cls.presets:
        raise ValueError(f"presets is {cls.presets!r}; give a mapping, its first entry the default")
    for name, preset in cls.presets.items():
        try:
            values_of(cls, preset, {})
        except (ValueError, TypeError) as error:
            raise type(error)(f"the preset {name!r}: {error}") from None


def values_of(cls: Any, preset: Mapping[str, Any], given: Mapping[str, Any]) -> dict[str, Any]:
    """The constants of a preset with those laid over them that were given.

    Raises:
        TypeError: If there is no such constant.
        ValueError: If one is of another type than its default, of one that can be changed, or none of those that its
            Enum or Literal names.
    """
    known = {f.name: f for f in fields(cls) if f.name not in _OF_A_TASK}
    values = {**preset, **given}
    if unknown := values.keys() - known.keys():
        there_are = sorted(known, key=lambda name: name == "limits")  # which every task has
        raise TypeError(f"no constant {', '.join(sorted(unknown))}; there are {', '.join(there_are)}")
    if "limits" in values:
        values["limits"] = limits_from(values["limits"], cls.limits)
    for name, value in values.items():
        _check(known[name], value)
        values[name] = _unchanging(value)
        if not isinstance(values[name], Hashable):
            raise ValueError(
                f"{name} is a {type(value).__name__}; it must be a number, a text or a list of these"
            )
        values[name] = _one_of_few(known[name], values[name])
    return values


def _unchanging(value: Any) -> Any:
    """Lists as tuples: tasks are told apart by their constants, so these must not change."""
    return tuple(map(_unchanging, value)) if isinstance(value, list | tuple) else value


def constants_from(settings: Sequence[str]) -> dict[str, Any]:
    """Turn NAME=VALUE into keywords; a value that is no Python literal is a text."""
    constants: dict[str, Any] = {}
    for setting in settings:
        name, equals, value = setting.partition("=")
        if not equals:
            raise ValueError(f"{setting!r} is not NAME=VALUE")
        if name in _OF_A_TASK:
            raise ValueError(
                f"{name} says which draw of a task it is, and is no constant: --help has the options for that"
            )
        try:
            constants[name] = ast.literal_eval(value)
        except (ValueError, TypeError, SyntaxError, MemoryError, RecursionError):
            constants[name] = value
    return constants


def _check(constant: "Field[Any]", value: Any) -> None:
    if constant.default is MISSING or value is constant.default or _is_several(constant):
        return
    kinds = map(_KINDS.get, (_annotation(constant), type(constant.default).__name__))
    takes, called = next(filter(None, kinds), (type(value), ""))
    if not isinstance(value, takes) or (type(value) is bool and called and takes is not bool):
        raise ValueError(f"{constant.name} is {value!r}; it must be {called}")


def _one_of_few(constant: "Field[Any]", value: Any) -> Any:
    """Of an Enum the member of this value or name; ValueError for what is none, of a Literal as well."""
    kind = type(constant.default)
    few: dict[Any, tuple[Any, ...]] = {}
    if issubclass(kind, Enum) and _annotation(constant) not in _KINDS:
        few = {member: (member, member.value, member.name) for member in kind}
    elif get_origin(constant.type) is Literal:
        few = {choice: (choice,) for choice in get_args(constant.type)}
    for member, names in few.items():
        if value in names:
            return member
    if few and not _is_several(constant):
        known = ", ".join(repr(getattr(member, "value", member)) for member in few)
        raise ValueError(f"{constant.name} is {value!r}; it must be one of {known}")
    return value


def _annotation(constant: "Field[Any]") -> str:
    return constant.type if isinstance(constant.type, str) else getattr(constant.type, "__name__", "")


def _is_several(constant: "Field[Any]") -> bool:
    """Whether the annotation has several types, of which the default's is only one."""
    return _SEVERAL.search(str(constant.type)) is not None
