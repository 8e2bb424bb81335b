"""Settings: nested frozen dataclasses from and to YAML, through pydantic.

An option that does nothing is worse than an error: an unknown key is refused with the nearest known one, a value of
the wrong kind with the kind that is expected, each in one line. What reads YAML is imported when it is needed: the
settings can be listed without it.
"""

import dataclasses
import difflib
import functools
import json
import typing
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from pydantic import TypeAdapter

T = TypeVar("T")


class SettingsError(ValueError):
    """A configuration that cannot be used; the message names the key and the fix."""


def read_value(text: str) -> Any:
    """A value on a command line, as a file would have it; what is no YAML is a text."""
    from atlas_gym import yaml_text

    try:
        return yaml_text.load(text)
    except ValueError:
        return text


def read_mapping(path: Path, what: str) -> dict[str, Any]:
    """The settings in a YAML file, none if it is empty; `what` names it in a `SettingsError`."""
    from atlas_gym import yaml_text

    try:
        values = yaml_text.read(path)
    except OSError as error:
        raise SettingsError(f"{what} {path} cannot be read: {error.strerror}") from error
    except ValueError as error:
        raise SettingsError(f"{path} is not YAML: {error}") from error
    if not isinstance(values, dict | None):
        raise SettingsError(f"{path} must hold settings, key: value, not {str(values)[:40]!r}")
    return values or {}


def read_layers(path: Path, what: str, above: tuple[Path, ...] = ()) -> dict[str, Any]:
    """As `read_mapping`; a file with `based_on: other.yaml` is laid on that one, a path from its own folder."""
    values = read_mapping(path, what)
    base = values.pop("based_on", None)
    if base is None:
        return values
    if path.resolve() in above:
        raise SettingsError(f"{path} is based on itself")
    return merge(read_layers(path.parent / str(base), what, (*above, path.resolve())), values)


@functools.cache
def adapter_of(cls: type[T]) -> "TypeAdapter[list[T]]":
    """pydantic's reader of a list of such dataclasses: strict, all the way down."""
    from pydantic import ConfigDict, TypeAdapter

    strict = ConfigDict(extra="forbid", strict=True, allow_inf_nan=False, use_attribute_docstrings=True)
    return TypeAdapter(list[cls], config=strict)  # type: ignore[valid-type]


def build(cls: type[T], values: Mapping[str, Any], where: str = "") -> T:
    """A (nested) dataclass from a mapping. Raises `SettingsError`, whose message begins with `where`, for an unknown
    key and a value of the wrong kind or that the dataclass itself refuses."""
    from pydantic import ValidationError

    try:
        return adapter_of(cls).validate_json(json.dumps([values], default=str))[0]  # type: ignore[arg-type]
    except ValidationError as errors:
        error, refusal = errors.errors()[0], errors
    key = ".".join(map(str, error["loc"][1:]))
    said = error["msg"].removeprefix("Value error, ").replace("Input should be", "must be")
    match error["type"]:
        case "unexpected_keyword_argument":
            known = keys_of(cls)
            said = f"unknown setting {key}{nearest(key, known + [name.partition('.')[0] for name in known])}"
        case "missing":
            said = f"{key} is needed"
        case "value_error":
            said = f"{key}: {said}" if key else said
        case _:
            said = f"{key} {said.replace('an object', 'a mapping')}, not {error['input']!r}"
    raise SettingsError(where + said) from refusal


def keys_of(cls: type) -> list[str]:
    """The dotted keys of a dataclass and of those nested in it."""
    keys, hints = [], typing.get_type_hints(cls)
    for name in (field.name for field in dataclasses.fields(cls)):
        hint = hints[name]
        parts = [part for part in (hint, *typing.get_args(hint)) if dataclasses.is_dataclass(part)]
        inner = [f"{name}.{key}" for key in keys_of(parts[0])] if parts else []  # type: ignore[arg-type]
        keys += inner if parts and typing.get_origin(hint) is not tuple else [name]
    return keys


_BOUNDS: Mapping[str, Callable[[float], bool]] = {
    "positive": lambda number: number > 0,
    "at least 0": lambda number: number >= 0,
    "at least 1": lambda number: number >= 1,
    "in [0, 1]": lambda number: 0 <= number <= 1,
    "in (0, 1)": lambda number: 0 < number < 1,
}


def require(settings: Any, bounds: Mapping[str, str]) -> None:
    """Raise ValueError for a value that is none of its `Literal`, or out of bounds.

    `bounds`: key of `_BOUNDS` → the fields that keep it, separated by spaces.
    """
    for name, hint in typing.get_type_hints(type(settings)).items():
        choices, value = typing.get_args(hint), getattr(settings, name)
        if typing.get_origin(hint) is typing.Literal and value not in choices:
            raise ValueError(f"{name} must be one of {', '.join(choices)}, not {value!r}")
    for bound, names in bounds.items():
        for name in names.split():
            if not _BOUNDS[bound](value := getattr(settings, name)):
                raise ValueError(f"{name} must be {bound}, got {value}")


def plain(settings: Any) -> dict[str, Any]:
    """A dataclass as a mapping of plain values, ready for YAML or JSON."""
    return json.loads(json.dumps(dataclasses.asdict(settings)))


def differences(mine: Any, other: Any, most: int = 4) -> str:
    """The settings in which two dataclasses of one kind differ, `most` of them in words."""
    here, there = flatten(plain(mine)), flatten(plain(other))
    changed = [key for key in here | there if here.get(key) != there.get(key)]
    said = [f"{key}: {here.get(key)!r} against {there.get(key)!r}" for key in changed[:most]]
    return ", ".join(said) + (f" and {len(changed) - most} more" if len(changed) > most else "")


def merge(base: Mapping[str, Any], over: Mapping[str, Any]) -> dict[str, Any]:
    """`over` laid on `base`, mappings merged key by key."""
    result = dict(base)
    for key, value in over.items():
        old = result.get(key)
        result[key] = merge(old, value) if isinstance(old, Mapping) and isinstance(value, Mapping) else value
    return result


def flatten(values: Mapping[str, Any], where: str = "") -> dict[str, Any]:
    """A nested mapping as a flat one with dotted keys."""
    flat: dict[str, Any] = {}
    for key, value in values.items():
        flat |= flatten(value, f"{where}{key}.") if isinstance(value, Mapping) else {f"{where}{key}": value}
    return flat


def nearest(key: str, known: Iterable[str], otherwise: str = "") -> str:
    """The end of a complaint about `key`: those known that end in the same word (`beta`: `phase.beta`), or the nearest
    one; `otherwise`, or all, if none is near."""
    names = sorted(known)
    word = key.lstrip("-").rpartition(".")[2]
    same = [name for name in names if name.lstrip("-").rpartition(".")[2] == word]
    close = difflib.get_close_matches(key, same, n=3, cutoff=0.0) or difflib.get_close_matches(
        key, names, n=1
    )
    return (
        f"; did you mean {' or '.join(close)}?" if close else f"; {otherwise or 'known: ' + ', '.join(names)}"
    )
