"""YAML as this project reads and writes it: settings, plans, stored configurations, OpenEvolve's `config.yaml`.

A file may come from a stranger, so a text is of bounded size and depth, holds no aliases (by which a few lines stand
for gigabytes) and no key twice. `1e-4` is a number; `off`, `12:30` and dates are texts, as in YAML 1.2.
"""

import re
from pathlib import Path
from typing import Any

import yaml

MAX_BYTES = 2**18
"""Size of a file."""
MAX_DEPTH = 50
"""Mappings and lists within one another."""
_EXPONENT = "[eE][-+]?[0-9]+"
_FORMS = {
    "null": r"(~|null|Null|NULL)?$",
    "bool": r"(true|false|True|False)$",
    "int": r"[-+]?(0x[0-9a-fA-F]+|0|[1-9][0-9_]*)$",
    "float": rf"[-+]?([0-9][0-9_]*\.[0-9_]*({_EXPONENT})?|\.[0-9]+({_EXPONENT})?|[0-9]+{_EXPONENT}|\.inf)$|\.nan$",
}
"""What a scalar without quotes looks like that is no text, as in YAML 1.2."""


class _Loader(yaml.SafeLoader):
    """Refuses what is nested too deeply, aliases and repeated keys."""

    _depth = 0

    def compose_node(self, parent: Any, index: Any) -> Any:
        if isinstance(event := self.peek_event(), yaml.AliasEvent):
            self._refuse(event, f"aliases (*{event.anchor}) are not taken: write the value out")
        if self._depth > MAX_DEPTH:
            self._refuse(event, f"nested more than {MAX_DEPTH} deep")
        self._depth += 1
        node = super().compose_node(parent, index)
        self._depth -= 1
        return node

    def compose_mapping_node(self, anchor: Any) -> Any:
        node = super().compose_mapping_node(anchor)
        lines: dict[str, int] = {}
        for key, _ in node.value:
            if isinstance(key, yaml.ScalarNode):
                line = key.start_mark.line + 1
                if key.value in lines:
                    self._refuse(node, f"{key.value} stands in lines {lines[key.value]} and {line}; keep one")
                lines[key.value] = line
        return node

    def _refuse(self, where: Any, problem: str) -> None:
        raise yaml.MarkedYAMLError(problem=problem, problem_mark=where.start_mark)


class _Dumper(yaml.SafeDumper):
    """Quotes every text that YAML's readers, `_Loader` among them, take for something else."""


_Loader.yaml_implicit_resolvers = {}
for _kind, _form in _FORMS.items():
    for _own in (_Loader, _Dumper):
        _own.add_implicit_resolver(f"tag:yaml.org,2002:{_kind}", re.compile(_form), None)


def dump(value: Any) -> str:
    """A value as YAML that `load` reads back."""
    return yaml.dump(value, Dumper=_Dumper, sort_keys=False, allow_unicode=True)


def load(text: str) -> Any:
    """The value that a text stands for.

    Raises:
        ValueError: it is no YAML, or none that is taken; one line.
    """
    try:
        return yaml.load(text, _Loader)
    except yaml.MarkedYAMLError as error:
        where = f"line {error.problem_mark.line + 1}:" if error.problem_mark else ""
        raise ValueError(" ".join(filter(None, [where, error.context, error.problem]))) from None
    except (yaml.YAMLError, ValueError, TypeError, ArithmeticError, RecursionError) as error:
        raise ValueError(" ".join(str(error).split())) from None


def read(path: Path) -> Any:
    """The value in a file.

    Raises:
        OSError: it cannot be read.
        ValueError: it is larger than `MAX_BYTES`, or as for `load`.
    """
    with path.open("rb") as file:
        content = file.read(MAX_BYTES + 1)
    if len(content) > MAX_BYTES:
        raise ValueError(f"it is larger than {MAX_BYTES >> 10} KiB")
    return load(content.decode("utf-8-sig"))
