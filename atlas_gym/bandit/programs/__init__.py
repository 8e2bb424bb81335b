"""Bandit programs written by hand, one file each; every file is a candidate as it stands.

The first line of a file's docstring is its title in the gallery. Constants are tuned, where it says so, for
the default preset (σ 0.2, V 400).
"""

import ast
from functools import cache
from importlib.resources import files
from types import MappingProxyType

from atlas_gym.problem import Expert

NAMES = (
    "from_scratch",
    "uniform",
    "linucb",
    "lin_ts",
    "sw_linucb",
    "sw_linucb_inlined",
    "restart_linucb",
    "dlinucb",
    "tuned_sw_linucb",
    "d_linucb",
    "weighted_linucb",
    "kalman",
)
"""In the order of the gallery."""


@cache
def source(name: str) -> str:
    """The text of a program's file."""
    return files(__package__).joinpath(f"{name}.py").read_text(encoding="utf-8")


@cache
def without_docstring(name: str) -> str:
    """The program from its import line on: prompts should not tell where the program comes from."""
    text = source(name)
    docstring = ast.parse(text).body[0]
    return "\n".join(text.split("\n")[docstring.end_lineno :]).lstrip("\n")


@cache
def experts() -> MappingProxyType[str, Expert]:
    """All programs by name."""
    return MappingProxyType({name: Expert(name, _title(name), source(name)) for name in NAMES})


def _title(name: str) -> str:
    docstring = ast.get_docstring(ast.parse(source(name))) or name
    return docstring.splitlines()[0].rstrip(".")
