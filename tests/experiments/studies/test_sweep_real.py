"""A sweep of six real runs, weights and confined workers included: killed in the middle, resumed, judged."""

import csv
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest
import yaml

from atlas_gym.experiments.studies.search import Search
from atlas_gym.experiments.studies.sweep import results
from atlas_gym.experiments.studies.sweep_file import load_sweep
from atlas_gym.trainers.store.store import RunStore

ROUNDS, RUNS = 4, 6
TINY = {
    "rounds": ROUNDS, "phase_every": 2, "exploration.samples": 4, "pairs.count": 4, "gate": {"samples": 1},
    "held_out_seeds": 2, "env_args.replicas": 1, "env_args.horizon": 200, "torch_threads": 1,
}  # fmt: skip


def shrunk(path: Path) -> Path:
    """The committed file for small machines, with runs that take seconds."""
    values = yaml.safe_load(
        (Path(__file__).parents[3] / "experiments" / "sweeps" / "small.yaml").read_text(encoding="utf-8")
    )
    values["parameters"] |= {name: {"value": value} for name, value in TINY.items()}
    path.write_text(yaml.safe_dump(values, sort_keys=False), encoding="utf-8")
    return path


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.usefixtures("embedded_weights")
def test_six_runs_killed_in_the_middle_and_resumed(tmp_path):
    file, folder = shrunk(tmp_path / "small.yaml"), tmp_path / "sweep"
    command = [
        sys.executable,
        "-m",
        "atlas_gym.experiments.studies.sweep",
        str(file),
        "--folder",
        str(folder),
    ]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    middle = folder / "small-002" / "run.sqlite"
    while not middle.exists():
        assert process.poll() is None
        time.sleep(0.1)
    children = psutil.Process(process.pid).children(recursive=True)
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    _, alive = psutil.wait_procs(children, timeout=120)
    assert alive == [], "a killed sweep leaves no run behind"
    before = {run["run"]: run for run in runs_in(folder, file)}
    assert [run["state"] for run in before.values()][-1] == "running"

    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    after = runs_in(folder, file)
    assert len(after) == RUNS
    assert {run["state"] for run in after} <= {"finished", "stopped"}
    assert all(after[n] == run for n, run in before.items() if run["state"] != "running")
    for run in after:
        name = f"small-{run['run']:03d}"
        with RunStore.open_readonly(folder / name) as store:
            units = [(unit["round"], unit["group"]) for unit in store.unit_summaries()]
            assert units == sorted(set(units)), "no round twice"
            assert run["state"] == "stopped" or units[-1][0] == ROUNDS
        assert list(folder.glob(f"{name}/wandb/offline-run-*")), "tracked without a server"

    best = max((run for run in after if run["state"] == "finished"), key=lambda run: run["held_out_score"])
    found = yaml.safe_load((folder / "best.yaml").read_text())
    assert (found["run"], found["held_out_score"]) == (best["run"], best["held_out_score"])
    assert f"Best: run {best['run']:03d}" in done.stdout
    with (folder / "results.csv").open() as table:
        assert [row["state"] for row in csv.DictReader(table)] == [run["state"] for run in after]


def runs_in(folder, file):
    search = Search(load_sweep(file), folder, 0)
    try:
        return [{"run": number, **row} for number, row in results(search).to_dict("index").items()]
    finally:
        search.close()
