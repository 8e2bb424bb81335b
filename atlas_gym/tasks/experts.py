"""Programs written by hand live one to a file, each a candidate as it stands; this reads them."""

import ast
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from types import MappingProxyType


@dataclass(frozen=True)
class Expert:
    """A program written by hand, itself a candidate."""

    name: str
    """What it is called in tables; of one in a file, the file's name without its ending."""
    title: str
    """First line of its docstring."""
    program: str
    """The whole text."""


@cache
def source(package: str, name: str) -> str:
    """The text of the program `name` in a package."""
    return files(package).joinpath(f"{name}.py").read_text(encoding="utf-8")


@cache
def without_docstring(package: str, name: str) -> str:
    """The program from its import line on: a prompt should not tell where the program comes from."""
    text = source(package, name)
    docstring = ast.parse(text).body[0]
    return "\n".join(text.split("\n")[docstring.end_lineno :]).lstrip("\n")


def load_experts(package: str, names: Sequence[str]) -> Mapping[str, Expert]:
    """The programs by name, in this order; the first line of each docstring is the title."""
    found = {}
    for name in names:
        docstring = ast.get_docstring(ast.parse(source(package, name))) or name
        found[name] = Expert(name, docstring.splitlines()[0].rstrip("."), source(package, name))
    return MappingProxyType(found)
