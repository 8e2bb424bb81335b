"""The notebooks: stored as they were executed, and executed again by the slow tests."""

import os
import sys
from pathlib import Path

import nbformat
import pytest

from tests.docs.pages import ROOT

BOOKS = sorted((ROOT / "docs" / "notebooks").glob("*.ipynb"))


def code_cells(book):
    return [cell for cell in book.cells if cell.cell_type == "code"]


def outputs(book):
    return [output for cell in code_cells(book) for output in cell.outputs]


@pytest.mark.parametrize("path", BOOKS, ids=lambda path: path.stem)
def test_a_notebook_is_stored_as_it_was_executed(path):
    book = nbformat.read(path, as_version=4)
    assert [cell.execution_count for cell in code_cells(book)] == [*range(1, len(code_cells(book)) + 1)]
    found = outputs(book)
    assert found
    assert not any(output.output_type == "error" for output in found)
    assert not any(output.get("name") == "stderr" for output in found), (
        "a warning, which names files of a machine"
    )


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.usefixtures("embedded_weights")
@pytest.mark.parametrize("path", BOOKS, ids=lambda path: path.stem)
def test_a_notebook_runs(path, tmp_path, monkeypatch):
    nbclient = pytest.importorskip("nbclient", reason="needs the extra `slow`")
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    monkeypatch.setenv("PATH", f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}")
    book = nbformat.read(path, as_version=4)
    nbclient.NotebookClient(book, timeout=1500, resources={"metadata": {"path": str(tmp_path)}}).execute()
    printed = "".join(output.get("text", "") for output in outputs(book))
    if path.stem == "own_task":
        start, best = (float(line.split()[-1]) for line in printed.splitlines() if "held-out seeds" in line)
        assert best > start
