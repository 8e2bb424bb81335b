"""Building the kernel: into the cache, once, and what happens where it cannot be built."""

import numpy as np
import pytest

from atlas_gym.tasks.burgers import steps
from atlas_gym.tasks.burgers.build import BuildError, find_or_build, library_name
from atlas_gym.tasks.burgers.network import draw_points
from atlas_gym.tasks.burgers.params import BurgersParams
from atlas_gym.tasks.burgers.steps import CompiledStep, kernel_available, stacks

needs_compiler = pytest.mark.skipif(not kernel_available(), reason="no C++ compiler on this machine")


@pytest.fixture
def empty_cache(tmp_path, monkeypatch):
    """A user whose cache is empty and a package without a kernel; what this process has loaded is
    forgotten."""
    monkeypatch.setenv("ATLAS_GYM_CACHE", str(tmp_path / "cache"))
    forget = (steps.load_kernel, steps.kernel_available)
    for function in forget:
        function.cache_clear()
    yield tmp_path / "cache"
    for function in forget:
        function.cache_clear()


@needs_compiler
def test_it_is_built_once_into_the_cache(empty_cache):
    library = find_or_build(8)
    assert library == empty_cache / library_name(8)
    assert kernel_available(8)
    written = library.stat().st_mtime_ns
    assert find_or_build(8) == library
    assert library.stat().st_mtime_ns == written
    assert [entry.name for entry in empty_cache.iterdir()] == [library.name]


@pytest.mark.parametrize(
    ("compiler", "reason"), [("/nonexistent/c++", "could not be run"), ("false", "the compiler failed")]
)
def test_a_compiler_that_does_not_work_is_named(empty_cache, monkeypatch, compiler, reason):
    monkeypatch.setenv("CXX", compiler)
    with pytest.raises(BuildError, match=reason):
        find_or_build(32)
    assert not list(empty_cache.iterdir())


def test_no_compiler_is_an_error_for_compiled_and_torch_for_auto(empty_cache, monkeypatch, caplog):
    monkeypatch.delenv("CXX", raising=False)
    monkeypatch.setenv("PATH", "/nonexistent")
    params = BurgersParams(n_residual=5, n_initial=2, n_boundary=2)
    points = draw_points(params, np.random.default_rng(0))
    assert stacks(params)
    assert "no C++ compiler" in caplog.text
    with pytest.raises(BuildError, match="no C\\+\\+ compiler"):
        CompiledStep(params, [points])
