"""What is exported loads again as it was stored."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from atlas_gym.experiments.cli.export import export, main
from atlas_gym.trainers.data.pairs import PreferencePair
from atlas_gym.trainers.store.store import RunStore, StoreError
from tests.trainers.samples import PROPOSAL, RECORD

FAILED = replace(RECORD, id=8, status="error", score=None, program_key=None, metrics={})
PAIR = PreferencePair(
    prompt="prompt",
    chosen=" 10\n",
    rejected=" 5\n",
    kind="failed",
    margin=0.5,
    chosen_id=7,
    rejected_id=8,
    hole="h",
)


@pytest.fixture
def run(tmp_path):
    with RunStore(tmp_path / "run") as store:
        store.add_unit(1, 0, [RECORD, FAILED], {}, [PROPOSAL])
        store.add_phase(1, 1, True, {}, [PAIR])
        yield tmp_path / "run"  # still open: a run under way


def test_candidates_and_pairs_load_as_they_were_stored(run, tmp_path):
    datasets = pytest.importorskip("datasets", reason="needs the extra `learn`")
    assert export(run, tmp_path / "out") == {"candidates": 2, "pairs": 1}
    cache = str(tmp_path / "cache")
    pairs = datasets.load_dataset(str(tmp_path / "out"), "pairs", split="train", cache_dir=cache)
    assert pairs[0] == {**vars(PAIR), "phase": 1, "index": 0}
    candidates = datasets.load_dataset(str(tmp_path / "out"), "candidates", split="train", cache_dir=cache)
    for row, record in zip(candidates, (RECORD, FAILED), strict=True):
        assert {**row, "metrics": json.loads(row["metrics"])} == vars(record)


def test_a_run_without_pairs_has_no_such_part(tmp_path):
    with RunStore(tmp_path / "run") as store:
        store.add_unit(1, 0, [RECORD], {}, [PROPOSAL])
    assert export(tmp_path / "run", tmp_path / "out")["pairs"] == 0
    assert not (tmp_path / "out" / "pairs").exists()
    assert "config_name: pairs" not in (tmp_path / "out" / "README.md").read_text()


def test_nothing_is_overwritten_and_a_missing_run_is_named(run, tmp_path):
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "mine").touch()
    with pytest.raises(FileExistsError, match="not empty"):
        export(run, tmp_path / "out")
    with pytest.raises(StoreError, match="no run"):
        export(tmp_path / "nowhere", tmp_path / "new")
    with pytest.raises(SystemExit, match="mine"):  # a word, no traceback
        main([str(run), str(tmp_path / "out" / "mine")])


def test_a_full_disk_leaves_nothing_half_written(run, tmp_path, monkeypatch):
    def fill(path, *_, **__):
        path.touch()
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(Path, "write_text", fill)
        with pytest.raises(OSError, match=r"No space left on device: .*out"):
            export(run, tmp_path / "out")
    assert not (tmp_path / "out").exists()
    assert export(run, tmp_path / "out")["pairs"] == 1
