"""Imports run downward only: experiments → trainers → agents → atlas_gym."""

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
LAYERS = ("atlas_gym", "agents", "trainers", "experiments")


def imported(path: Path) -> set[str]:
    """Top-level packages that a file imports, anywhere in it."""
    names: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            names |= {alias.name.partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            names.add(node.module.partition(".")[0])
    return names


@pytest.mark.parametrize("layer", LAYERS)
def test_no_layer_imports_one_above_it(layer):
    above = set(LAYERS[LAYERS.index(layer) + 1 :])
    files = list((ROOT / layer).rglob("*.py"))
    assert files
    assert {str(path): imported(path) & above for path in files if imported(path) & above} == {}


def test_the_environments_need_no_learner():
    heavy = {"torch", "transformers", "trl", "peft", "datasets", "wandb", "rich", "yaml", "ray"}
    for path in (ROOT / "atlas_gym").rglob("*.py"):
        allowed = {"torch"} if "burgers" in path.parts else set()
        found = imported(path) & heavy - allowed
        if path.name not in (
            "boot.py",
            "forkserver.py",
            "worker.py",
        ):  # they import torch where a task asks for it
            assert not found, f"{path} imports {found}"
