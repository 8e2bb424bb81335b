"""Imports run downward only: between the packages, between the rooms of a package, and never in a circle."""

import ast
from collections.abc import Iterator
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
LAYERS = ("atlas_gym", "agents", "trainers", "experiments")
ROOMS = {
    "atlas_gym": (
        ".",
        "sandbox",
        "evaluation",
        "tasks/experts",
        "tasks",
        "envs",
        "wrappers",
        "tasks/bandit/experts",
        "tasks/burgers/experts",
        "tasks/constructions/experts",
        "tasks/bandit",
        "tasks/burgers",
        "tasks/constructions",
        "bridges",
        "cli",
    ),
    "agents": ("models", "engines", "population", "proposals", "supporters", "."),
    "trainers": ("store", "data", "dpo", "loop", "."),
    "experiments": (".", "loggers", "report", "studies", "learners", "benchmarks", "cli"),
}
"""Folders with modules, bottom to top; `.` is the package's own folder."""
DOORS = ("atlas_gym/__init__.py", "atlas_gym/__main__.py", "experiments/run.py")
"""They stand in the lowest room and open the ones above."""


def modules(layer: str) -> dict[str, Path]:
    """All files of a package by their dotted names; candidates are no modules."""
    found = {}
    for path in sorted((ROOT / layer).rglob("*.py")):
        if path.parent.name != "experts" or path.name == "__init__.py":
            name = ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")
            found[name if layer == "atlas_gym" else f"atlas_gym.{name}"] = path
    return found


MODULES = {name: path for layer in LAYERS for name, path in modules(layer).items()}


def running(node: ast.AST) -> Iterator[ast.AST]:
    """The nodes of a file that ever run: what stands under `if TYPE_CHECKING` does not."""
    yield node
    for child in ast.iter_child_nodes(node):
        if not (isinstance(child, ast.If) and ast.unparse(child.test) == "TYPE_CHECKING"):
            yield from running(child)


def imported(path: Path) -> set[str]:
    """Dotted names of the modules that a file imports, anywhere in it."""
    names: set[str] = set()
    for node in running(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            whole = {f"{node.module}.{alias.name}" for alias in node.names}
            names |= {name if name in MODULES else node.module for name in whole}
    return names


def packages(path: Path) -> set[str]:
    """The layers and the libraries that a file imports."""
    found = set()
    for name in imported(path):
        outer, _, inner = name.partition(".")
        layer = inner.partition(".")[0]
        found.add(layer if outer == "atlas_gym" and layer in LAYERS else outer)
    return found


def room(path: Path) -> tuple[str, str]:
    """A module's package and the folder it lies in."""
    layer, *inner = path.relative_to(ROOT).parts[:-1]
    return layer, "/".join(inner) or "."


@pytest.mark.parametrize("layer", LAYERS)
def test_no_layer_imports_one_above_it(layer):
    above = set(LAYERS[LAYERS.index(layer) + 1 :])
    files = list((ROOT / layer).rglob("*.py"))
    assert files
    assert {str(path): packages(path) & above for path in files if packages(path) & above} == {}


@pytest.mark.parametrize("layer", LAYERS)
def test_no_room_imports_one_above_it(layer):
    order = ROOMS[layer]
    upward = []
    for name, path in modules(layer).items():
        assert room(path)[1] in order, f"{name} lies in a room that this test does not know"
        for other in imported(path) & MODULES.keys():
            theirs, folder = room(MODULES[other])
            higher = theirs == layer and order.index(folder) > order.index(room(path)[1])
            if higher and str(path.relative_to(ROOT)) not in DOORS:
                upward.append(f"{name} → {other}")
    assert upward == []


def test_no_file_imports_itself_round_a_corner():
    graph = {name: (imported(path) & MODULES.keys()) - {name} for name, path in MODULES.items()}
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        pytest.fail(" → ".join(error.args[1]))


def test_the_environments_need_no_learner():
    heavy = {"torch", "transformers", "trl", "peft", "datasets", "wandb", "rich", "yaml", "ray"}
    for path in (ROOT / "atlas_gym").rglob("*.py"):
        allowed = {"torch"} if "burgers" in path.parts else set()
        allowed |= {"yaml"} if path.name == "yaml_text.py" else set()  # imported where a file is read
        found = packages(path) & heavy - allowed
        if path.name not in ("forkserver.py", "worker.py"):  # they import torch where a task asks for it
            assert not found, f"{path} imports {found}"
