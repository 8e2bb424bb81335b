"""Synthetic runs, made once for all tests of the report."""

from pathlib import Path

import pytest

from tests.experiments.report.synthetic import Layout, make_run


@pytest.fixture(scope="session")
def run_folder(tmp_path_factory) -> Path:
    """A finished run of three phases and three islands, one candidate of which attacks the page."""
    return make_run(tmp_path_factory.mktemp("runs") / "atlas-s0", Layout(rounds=14, planned_rounds=14))


@pytest.fixture(scope="session")
def several_runs(tmp_path_factory, run_folder) -> list[Path]:
    """Two methods with three seeds each."""
    folder = tmp_path_factory.mktemp("several")
    layouts = [Layout(method=m, seed=s, rounds=6) for m in ("atlas", "evotune") for s in (1, 2, 3)]
    return [make_run(folder / f"{layout.method}-{layout.seed}", layout) for layout in layouts]
