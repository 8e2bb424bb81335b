"""The main job on a Ray cluster of two workers, one killed in the middle: the same candidates, each once."""

import os
import re
import signal
import subprocess
import time
from importlib.util import find_spec
from pathlib import Path

import pytest

from tests.atlas_gym.evaluation.processes import descendants
from tests.experiments.cli.small_run import contents, finish, start, stored_rounds


def kill_a_busy_actor(process: subprocess.Popen, folder: Path) -> None:
    """Once the first round is stored, at the next moment in which an actor evaluates."""
    while process.poll() is None:
        if stored_rounds(folder) >= 1 and (busy := busy_actors(process.pid)):
            os.kill(busy[0], signal.SIGKILL)
            return
        time.sleep(0.002)
    pytest.fail(f"no actor was seen at work:\n{folder.with_suffix('.log').read_text()}")


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


@pytest.mark.slow
@pytest.mark.timeout(1300)
@pytest.mark.usefixtures("embedded_weights")
@pytest.mark.skipif(find_spec("ray") is None, reason="needs the extra `ray`")
def test_a_worker_killed_in_the_middle_changes_nothing(tmp_path):
    finish(start(tmp_path / "pool"), tmp_path / "pool")
    process = start(tmp_path / "ray", "--evaluator=ray")
    try:
        kill_a_busy_actor(process, tmp_path / "ray")
        log = finish(process, tmp_path / "ray")
    finally:
        process.kill()
    assert re.search(r"evaluator\s+\d+\s+was\s+lost", log)
    found = contents(tmp_path / "ray")
    ids = [candidate.id for candidate in found[0]]
    assert (
        len(ids) == len(set(ids)) > 3 + 3 * 6
    )  # more than a round brings; no round has to bring as many as it may
    assert found == contents(tmp_path / "pool")
