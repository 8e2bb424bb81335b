"""Which layers hold, what is missing, and that less than the minimum is an error.

A kernel without a layer is simulated by a seccomp filter of our own around the whole evaluator: the system
calls in question fail, in it and in every process below it, as they do where they do not exist.
"""

import errno
import subprocess
import sys
import textwrap
from pathlib import Path

import gymnasium
import numpy as np
import pytest

from atlas_gym import hidden_streams
from atlas_gym.evaluation import ConfinedEvaluator, ConfinementError, roots
from atlas_gym.sandbox.confinement import ALL_LAYERS
from tests.atlas_gym.evaluation.toy import HONEST, ToyTask


def run_without(*system_calls: str, code: str) -> "subprocess.CompletedProcess[str]":
    """Run `code` in a process for which these system calls do not exist."""
    prelude = f"""
    from seccompy import Filter
    missing = Filter()
    for name in {system_calls!r}:
        missing.errno(name, {errno.ENOSYS})
    missing.load()
    from atlas_gym.evaluation import ConfinedEvaluator, ConfinementError
    from tests.atlas_gym.evaluation.toy import HONEST, ToyTask
    """
    program = textwrap.dedent(prelude) + textwrap.dedent(code)
    return subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)


def test_every_layer_holds_here():
    with ConfinedEvaluator(minimum_layers=ALL_LAYERS) as evaluator:
        assert set(evaluator.evaluate(HONEST, ToyTask()).layers) == set(ALL_LAYERS)


WITHOUT = {
    "landlock": ("landlock_create_ruleset",),
    "seccomp": ("seccomp",),
    "capabilities": ("capset",),
}


@pytest.mark.parametrize("layer", ["landlock", "seccomp"])
def test_a_required_layer_that_is_missing_is_an_error_with_a_remedy(layer):
    code = """
    try:
        ConfinedEvaluator().evaluate(HONEST, ToyTask())
    except ConfinementError as error:
        print(error)
    """
    done = run_without(*WITHOUT[layer], code=code)
    assert f"does not give the required confinement layers {layer}:" in done.stdout, done.stderr
    assert "To fix: use Linux" in done.stdout
    assert "doctor" in done.stdout
    assert "UnconfinedEvaluator" in done.stdout


def test_no_layer_that_is_claimed_but_not_held_passes(monkeypatch):
    evaluator = ConfinedEvaluator()
    evaluator._layers = ("rlimits", "seccomp")
    with pytest.raises(ConfinementError, match="landlock: it was put on, but does not hold"):
        evaluator.evaluate(HONEST, ToyTask())


def test_the_secret_may_not_lie_where_programs_can_read(monkeypatch):
    monkeypatch.setattr(roots, "secret_path", lambda: Path(np.__file__).parent / "secret")
    with pytest.raises(RuntimeError, match=r"the secret, .*, lies below"):
        roots.read_roots()


def test_this_package_may_not_lie_where_programs_can_read(monkeypatch):
    monkeypatch.setattr(roots, "_THIS_PACKAGE", Path(np.__file__).parent / "atlas_gym")
    with pytest.raises(RuntimeError, match=r"this package, .*, lies below"):
        roots.read_roots()


def test_no_folder_of_packages_is_readable_as_a_whole():
    packages = {Path(np.__file__).resolve().parents[1], Path(gymnasium.__file__).resolve().parent}
    assert not [root for root in roots.read_roots() for folder in packages if folder.is_relative_to(root)]


def test_neither_home_nor_project_nor_temporary_files_are_readable():
    exposed = [root for root in roots.read_roots() if hidden_streams.secret_path().is_relative_to(root)]
    assert exposed == []
    assert not {"/", "/root", "/home", "/tmp", "/etc", "/proc", "/sys"} & set(roots.read_roots())
