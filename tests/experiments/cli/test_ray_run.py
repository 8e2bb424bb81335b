"""The main job on a Ray cluster of two workers, one killed in the middle: the same candidates, each once."""

import os
import re
import signal
import subprocess
import sys
import time
from importlib.util import find_spec
from pathlib import Path

import pytest

from atlas_gym.trainers.store.store import RunStore, StoreError
from tests.atlas_gym.evaluation.processes import descendants

SETTINGS = [
    "--rounds=3", "--phase_every=2", "--exploration.islands=3", "--exploration.samples=6", "--pairs.count=8",
    "--gate.samples=2", "--held_out_seeds=2", "--env_args.replicas=2", "--env_args.horizon=300",
    "--tracking=off", "--torch_threads=1",
]  # fmt: skip


def start(folder: Path, *options: str) -> subprocess.Popen:
    command = [
        sys.executable,
        "-m",
        "atlas_gym.experiments.run",
        "--folder",
        str(folder),
        *options,
        *SETTINGS,
    ]
    # To a file: a pipe that nobody reads would stop the run once it is full.
    with open(folder.with_suffix(".log"), "wb") as log:
        return subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT)


def finish(process: subprocess.Popen, folder: Path) -> str:
    code = process.wait(timeout=600)
    text = folder.with_suffix(".log").read_text()
    assert code == 0, text
    return text


def kill_a_busy_actor(process: subprocess.Popen, folder: Path) -> None:
    """Once the first round is stored, at the next moment in which an actor evaluates."""
    while process.poll() is None:
        if stored_rounds(folder) >= 1 and (busy := busy_actors(process.pid)):
            os.kill(busy[0], signal.SIGKILL)
            return
        time.sleep(0.002)
    pytest.fail(f"no actor was seen at work:\n{folder.with_suffix('.log').read_text()}")


def stored_rounds(folder: Path) -> int:
    try:
        with RunStore.open_readonly(folder) as store:
            return max((unit["round"] for unit in store.round_summaries()), default=0)
    except StoreError:
        return 0  # not yet made


def busy_actors(pid: int) -> list[int]:
    found = []
    for child in descendants(pid):
        try:
            title = Path(f"/proc/{child}/cmdline").read_bytes()
        except OSError:
            continue
        if title.startswith(b"ray::NodeEvaluator.evaluate"):  # Ray titles a process by what it is doing
            found.append(child)
    return found


def contents(folder: Path) -> tuple:
    with RunStore.open_readonly(folder) as store:
        return (
            list(store.candidates()),
            [tuple(row) for row in store.pairs()],
            store.phases()[0].get("decision"),
        )


@pytest.mark.slow
@pytest.mark.timeout(1300)
@pytest.mark.usefixtures("embedded_weights")
@pytest.mark.skipif(find_spec("ray") is None, reason="needs the extra `ray`")
def test_a_worker_killed_in_the_middle_changes_nothing(tmp_path):
    finish(start(tmp_path / "pool"), tmp_path / "pool")
    process = start(tmp_path / "ray", "--evaluator", "ray")
    try:
        kill_a_busy_actor(process, tmp_path / "ray")
        log = finish(process, tmp_path / "ray")
    finally:
        process.kill()
    assert re.search(r"evaluator\s+\d+\s+was\s+lost", log)
    candidates, pairs, decision = contents(tmp_path / "ray")
    ids = [candidate.id for candidate in candidates]
    assert len(ids) == len(set(ids)) >= 3 + 3 * 3 * 6
    assert (candidates, pairs, decision) == contents(tmp_path / "pool")
