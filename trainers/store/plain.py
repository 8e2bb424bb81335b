"""Nested frozen dataclasses from and to plain mappings (YAML), strictly.

An option that does nothing is worse than an error: an unknown key is refused with the nearest known one, and a
value of the wrong kind is refused with the kind that was expected.
"""

import dataclasses
import difflib
import math
import re
import types
import typing
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, TypeVar

import yaml

T = TypeVar("T")


_LARGEST_FILE = 200_000
"""Bytes; a complete configuration has five thousand."""


class SettingsError(ValueError):
    """A configuration that cannot be used; the message names the key and the fix."""


_FLOAT = "tag:yaml.org,2002:float"


class _PlainLoader(yaml.SafeLoader):
    """YAML in which every value is written where it stands, once; 1e-4 is a number in it, and a date a text."""

    def compose_node(self, parent: Any, index: Any) -> Any:
        if self.check_event(yaml.AliasEvent):
            raise yaml.YAMLError(f"write out the value of *{self.peek_event().anchor}: aliases are not read")
        return super().compose_node(parent, index)

    def construct_mapping(self, node: Any, deep: bool = False) -> Any:
        keys = [key for key, _ in node.value if isinstance(key, yaml.ScalarNode)]
        for name in keys:
            if name.tag == _FLOAT:  # that looks like a number, 1e3 or 0.10
                name.tag = "tag:yaml.org,2002:str"
        for key, count in Counter((key.tag, key.value) for key in keys).items():
            if count > 1:
                lines = [str(k.start_mark.line + 1) for k in keys if (k.tag, k.value) == key]
                raise yaml.YAMLError(f"{key[1]} stands in lines {' and '.join(lines)}; keep one")
        return super().construct_mapping(node, deep=deep)


class _PlainDumper(yaml.SafeDumper):
    """Puts quotation marks around a text that the loader would take for a number."""


_PlainLoader.yaml_implicit_resolvers = {
    first: [(tag, form) for tag, form in resolvers if not tag.endswith(":timestamp")]
    for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
}
for _own in (_PlainLoader, _PlainDumper):
    _own.add_implicit_resolver(
        _FLOAT, re.compile(r"[-+]?(\d+\.?\d*|\.\d+)[eE][-+]?\d+$"), list("-+.0123456789")
    )


def as_text(value: Any) -> str:
    """A value as YAML that `read_mapping` reads back."""
    return yaml.dump(value, Dumper=_PlainDumper, sort_keys=False, allow_unicode=True)


def read_value(text: str) -> Any:
    """A value on a command line, as a file would have it; what is no YAML is a text."""
    try:
        return yaml.load(text, _PlainLoader)
    except (yaml.YAMLError, ValueError, RecursionError):
        return text


def build(cls: type[T], values: Mapping[str, Any], where: str = "") -> T:
    """Make a (nested) dataclass from a mapping.

    Raises:
        SettingsError: an unknown key, a value of the wrong kind, or one the dataclass itself refuses.
    """
    if not isinstance(values, Mapping):
        raise SettingsError(f"{where.rstrip('.') or 'the configuration'} must be a mapping, not {values!r}")
    hints = typing.get_type_hints(cls)
    known = {field.name for field in dataclasses.fields(cls) if field.init}  # type: ignore[arg-type]
    for key in values:
        if key not in known:
            raise SettingsError(f"unknown setting {where}{key}{nearest(str(key), known)}")
    for field in dataclasses.fields(cls):  # type: ignore[arg-type]
        if field.default is field.default_factory is dataclasses.MISSING and field.name not in values:
            raise SettingsError(f"{where}{field.name} is needed")
    made = {key: _convert(hints[key], value, f"{where}{key}") for key, value in values.items()}
    try:
        return cls(**made)
    except (TypeError, ValueError) as error:
        raise SettingsError(f"{where.rstrip('.') or 'configuration'}: {error}") from error


_BOUNDS: Mapping[str, Callable[[float], bool]] = {
    "positive": lambda number: number > 0,
    "at least 0": lambda number: number >= 0,
    "at least 1": lambda number: number >= 1,
    "in [0, 1]": lambda number: 0 <= number <= 1,
    "in [0, 1)": lambda number: 0 <= number < 1,
    "in (0, 1]": lambda number: 0 < number <= 1,
    "in (0, 1)": lambda number: 0 < number < 1,
}


def require(settings: Any, bounds: Mapping[str, str]) -> None:
    """Raise ValueError for a choice that is none and for a number out of bounds.

    `settings`: a dataclass. `bounds`: for a bound in words, the names of the fields that keep it, apart by spaces.
    """
    for name, hint in typing.get_type_hints(type(settings)).items():
        choices, value = typing.get_args(hint), getattr(settings, name)
        if typing.get_origin(hint) is typing.Literal and value not in choices:
            raise ValueError(f"{name} must be one of {', '.join(choices)}, not {value!r}")
    for bound, names in bounds.items():
        for name in names.split():
            if not _BOUNDS[bound](value := getattr(settings, name)):
                raise ValueError(f"{name} must be {bound}, got {value}")


def read_mapping(path: Path, what: str) -> dict[str, Any]:
    """The settings in a YAML file; none if it is empty.

    The file may be a stranger's: its size is bounded, and aliases, by which a few lines stand for gigabytes, are
    refused.

    Raises:
        SettingsError: it cannot be read, is not such YAML, or holds something else. `what`: the file, in words.
    """
    try:
        with path.open("rb") as file:
            text = file.read(_LARGEST_FILE + 1)
    except (OSError, ValueError) as error:  # a path with a null character is no OSError
        reason = error.strerror if isinstance(error, OSError) else error
        raise SettingsError(f"{what} {path} cannot be read: {reason}") from error
    if len(text) > _LARGEST_FILE:
        raise SettingsError(f"{path} is larger than {_LARGEST_FILE} bytes: it holds no settings")
    try:
        values = yaml.load(text.decode("utf-8-sig"), _PlainLoader)
    except (yaml.YAMLError, ValueError) as error:
        raise SettingsError(f"{path} is not YAML: {error}") from error
    except RecursionError as error:
        raise SettingsError(f"{path} is nested too deeply") from error
    if not isinstance(values, dict | None):
        raise SettingsError(f"{path} must hold settings, key: value, not {str(values)[:40]!r}")
    return values or {}


def read_layers(path: Path, what: str, above: tuple[Path, ...] = ()) -> dict[str, Any]:
    """The settings in a YAML file; if it begins with `based_on: other.yaml`, laid on those of that file, whose path
    counts from its own folder.

    Raises:
        SettingsError: one of the files cannot be read, or is based on itself. `what`: they, in words.
    """
    values = read_mapping(path, what)
    base = values.pop("based_on", None)
    if base is None:
        return values
    if path.resolve() in above:
        raise SettingsError(f"{path} is based on itself")
    return merge(read_layers(path.parent / str(base), what, (*above, path.resolve())), values)


def plain(settings: Any) -> dict[str, Any]:
    """A dataclass as a mapping of plain values, ready for YAML or JSON."""

    def simple(value: Any) -> Any:
        if isinstance(value, Mapping):
            return {key: simple(item) for key, item in value.items()}
        if isinstance(value, list | tuple):
            return [simple(item) for item in value]
        return value

    return simple(dataclasses.asdict(settings))


def differences(mine: Any, other: Any, most: int = 4) -> str:
    """In words, in which settings two dataclasses of one kind differ (`most` of them); empty if in none."""
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
    flat: dict[str, Any] = {}
    for key, value in values.items():
        flat |= flatten(value, f"{where}{key}.") if isinstance(value, Mapping) else {f"{where}{key}": value}
    return flat


def nearest(key: str, known: Iterable[str], otherwise: str = "") -> str:
    """The end of a complaint about `key`: the known one that is nearest; `otherwise`, or all, if none is near."""
    close = difflib.get_close_matches(key, list(known), n=1)
    return (
        f"; did you mean {close[0]}?" if close else f"; {otherwise or 'known: ' + ', '.join(sorted(known))}"
    )


def _convert(hint: Any, value: Any, where: str) -> Any:
    origin, args = typing.get_origin(hint), typing.get_args(hint)
    if origin in (types.UnionType, typing.Union):
        return _convert_union(args, value, where)
    if dataclasses.is_dataclass(hint):
        return value if isinstance(value, hint) else build(hint, value, f"{where}.")  # type: ignore[arg-type]
    if origin is typing.Literal:
        if value is False and "off" in args:  # YAML reads a bare `off` as false
            return "off"
        return _check(value in args, value, where, f"one of {', '.join(map(str, args))}")
    if origin is tuple:
        _check(isinstance(value, list | tuple), value, where, "a list")
        return tuple(_convert(args[0], item, f"{where}[{i}]") for i, item in enumerate(value))
    if origin is Mapping:
        _check(isinstance(value, Mapping), value, where, "a mapping")
        return {key: _convert(args[1], item, f"{where}.{key}") for key, item in value.items()}
    if origin is not None or hint is Any:  # passed on as they are
        return value
    if hint is float:
        _check(isinstance(value, int | float) and not isinstance(value, bool), value, where, "a number")
        return _number(value, where)
    if hint is int:
        return _check(isinstance(value, int) and not isinstance(value, bool), value, where, "a whole number")
    kinds = {bool: "true or false", str: "a text"}
    return _check(isinstance(value, hint), value, where, kinds.get(hint, hint.__name__))


def _convert_union(options: tuple, value: Any, where: str) -> Any:
    if value is None and type(None) in options:
        return None
    errors = []
    for option in options:
        if option is type(None):
            continue
        try:
            return _convert(option, value, where)
        except SettingsError as error:
            errors.append(str(error))
    raise SettingsError(" / ".join(errors))


def _number(value: int | float, where: str) -> float:
    try:
        number = float(value)
    except OverflowError:  # an integer of 309 digits and more
        number = math.inf
    _check(math.isfinite(number), number, where, "a finite number")
    return number


def _check(fits: bool, value: Any, where: str, expected: str) -> Any:
    if not fits:
        raise SettingsError(f"{where} must be {expected}, not {value!r}")
    return value
