"""A normal phase and a runaway on the same pairs, and what the budget says of each."""

import pandas as pd
import pytest

from experiments.studies import trust_region
from tests.tiny_model import save_tiny_model
from trainers.data.pairs import PreferencePair
from trainers.loop.config import load_config, save_config
from trainers.store.store import RunStore

PAIR = PreferencePair("a =", " 1\n", " 2\n", "improving", 0.1, 1, 2, "a =")


def a_run(folder, model, pairs):
    settings = {"model": str(model), "lora": {"rank": 4, "alpha": 8}, "torch_threads": 1}
    settings |= {"phase": {"epochs": 1}, "gate": {"max_kl": 0.05}}
    with RunStore(folder) as store:
        store.add_phase(1, 1, False, {"phase": 1, "round": 1}, pairs)
    save_config(load_config(None, settings), folder / "config.yaml")
    return str(folder)


def test_both_phases_are_shown_with_what_the_gate_says(tmp_path, capsys):
    run = a_run(tmp_path / "run", save_tiny_model(tmp_path), [PAIR])
    trust_region.main([run, "--output", str(tmp_path / "phases.csv")])
    data = pd.read_csv(tmp_path / "phases.csv").set_index("phase")
    assert list(data.epochs) == [1, trust_region.RUNAWAY["epochs"]]
    assert data.kl["runaway"] > data.kl["normal"] >= 0
    assert data.gate.to_list() == ["promoted" if kl <= 0.05 else "kept" for kl in data.kl]
    assert "runaway" in capsys.readouterr().out


def test_a_run_without_a_phase(tmp_path):
    with pytest.raises(SystemExit, match="no phase with pairs"):
        trust_region.main([a_run(tmp_path / "run", "embedded", [])])
