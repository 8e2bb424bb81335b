"""All settings of a run and of its environments, read off the dataclasses that define them.

The help of `atlas run` and the list of `atlas settings` are made of this. A setting's meaning is the docstring under
its field, so there is one place where it is written.
"""

import ast
import dataclasses
import functools
import inspect
import itertools
import json
import sys
import textwrap
import typing
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, is_dataclass
from typing import Any, Literal


@dataclass(frozen=True)
class Setting:
    """One setting."""

    key: str
    """Its name as configurations and the command line write it, for example `phase.beta`."""
    hint: Any
    """Its type, as its dataclass says."""
    kind: str
    """Its type in words; for a choice, the choices."""
    default: str
    """Its default as JSON, which YAML reads as well; empty where there is none."""
    meaning: str
    """The docstring of its field: meaning and unit."""


@dataclass(frozen=True)
class Section:
    """The settings of one dataclass."""

    key: str
    """Where it stands in the configuration, for example `phase`; empty for the outermost."""
    about: str
    """First paragraph of its docstring."""
    settings: tuple[Setting, ...]
    """In the order in which they are defined."""


def sections(defaults: Any, key: str = "") -> Iterator[Section]:
    """The settings of a dataclass, then those of every dataclass among its fields.

    Args:
        defaults: An instance that holds the defaults; or a dataclass, which is described with its own.
        key: Where it stands in a configuration; empty for the outermost.

    Raises:
        ValueError: a field has no docstring.
    """
    cls = defaults if isinstance(defaults, type) else type(defaults)
    hints, meanings = typing.get_type_hints(cls), _field_docstrings(cls)
    own, inner = [], []
    for field in dataclasses.fields(cls):
        if not field.init:
            continue
        if field.name not in meanings:
            raise ValueError(f"{cls.__qualname__}.{field.name} has no docstring under it")
        where, hint = f"{key}.{field.name}".lstrip("."), hints[field.name]
        value = _default(field) if defaults is cls else getattr(defaults, field.name)
        part = next((part for part in typing.get_args(hint) if is_dataclass(part)), None)
        if is_dataclass(value):
            inner.append((value, where))
        elif value is None and part is not None:  # nothing unless its own settings are given
            inner.append((part, where))
        else:
            shown = "" if value is dataclasses.MISSING else json.dumps(value, ensure_ascii=False, default=str)
            own.append(Setting(where, hint, _kind(hint), shown, meanings[field.name]))
    yield Section(key, _first_paragraph(cls), tuple(own))
    for value, where in inner:
        yield from sections(value, where)


def _default(field: dataclasses.Field) -> Any:
    return field.default if field.default_factory is dataclasses.MISSING else field.default_factory()


@functools.cache
def _field_docstrings(cls: type) -> Mapping[str, str]:
    """The text that stands under each field, those of base classes included."""
    texts: dict[str, str] = {}
    for base in reversed(cls.__mro__):
        if not is_dataclass(base):
            continue
        for field, text in itertools.pairwise(_classes(base.__module__)[base.__name__].body):
            match field, text:
                case ast.AnnAssign(target=ast.Name(id=name)), ast.Expr(value=ast.Constant(value=str(said))):
                    texts[name] = " ".join(said.split())
    return texts


@functools.cache
def _classes(module: str) -> Mapping[str, ast.ClassDef]:
    """The classes of a module by name. (`inspect` would read the module once for each.)"""
    tree = ast.parse(inspect.getsource(sys.modules[module]))
    return {node.name: node for node in ast.walk(tree) if isinstance(node, ast.ClassDef)}


def _first_paragraph(cls: type) -> str:
    return " ".join((inspect.getdoc(cls) or "").partition("\n\n")[0].split())


def _kind(hint: Any) -> str:
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin is Literal:
        return ", ".join(f"`{choice}`" for choice in arguments)
    if origin is tuple:
        return f"list of {_kind(arguments[0])}"
    if isinstance(origin, type) and issubclass(origin, Mapping):
        return "mapping"
    if arguments:  # a union
        return " or ".join(_kind(argument) for argument in arguments)
    names = {int: "whole number", float: "number", bool: "true or false", str: "text", type(None): "nothing"}
    return names.get(hint, getattr(hint, "__name__", str(hint)))


def as_text(listed: Iterable[Section], word: str = "") -> str:
    """The settings for a terminal, those alone whose key or meaning holds the word."""
    lines: list[str] = []
    for section in listed:
        found = [s for s in section.settings if word.lower() in f"{s.key} {s.meaning}".lower()]
        if found:
            lines += ["", f"{section.key or 'the run'}: {section.about}"]
        for setting in found:
            kind = setting.kind.replace("`", "")
            lines.append(f"  --{setting.key} {setting.default or '(needed)'}   {kind}")
            lines += textwrap.wrap(setting.meaning, 100, initial_indent=" " * 6, subsequent_indent=" " * 6)
    return "\n".join(lines).lstrip("\n")


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the settings; returns the exit code (0 done, 2 asked wrongly)."""
    from atlas_gym.arguments import Parser  # with it comes Gymnasium, which a --help does without
    from atlas_gym.experiments.shipped import find
    from atlas_gym.trainers.loop.config import RunConfig, load_config
    from atlas_gym.trainers.store.plain import SettingsError

    parser = Parser(prog="atlas settings", description="All settings of a run: value, type, meaning.")
    parser.add_argument("word", nargs="?", default="", help="only settings whose name or meaning holds it")
    parser.add_argument("--config", help="show the values of this configuration, not the defaults")
    options = parser.parse_args(arguments)
    try:
        config = load_config(find("configs", options.config), {}) if options.config else RunConfig()
    except SettingsError as error:
        print(f"Error: {error}", file=sys.stderr)
        return 2
    text = as_text(sections(config), options.word)
    print(text or f"no setting holds {options.word!r}")
    return 0 if text else 2
