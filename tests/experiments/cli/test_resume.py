"""`kill -9` of the real main job, real weights and confined workers included: nothing lost, nothing doubled."""

import random
import signal
import subprocess
import time
from pathlib import Path

import psutil
import pytest

import atlas_gym
from tests.experiments.cli.small_run import command, contents

KILLS = 10
SANDBOX = Path(atlas_gym.__file__).parent / "sandbox"
"""Where fork servers are started from, in this checkout and not in a neighbour's."""


def start(folder: Path) -> subprocess.Popen:
    # A session of its own: whatever the run starts can be told from everything else. Interrupts count even where
    # the tests are a shell's background job, which ignores them and hands that down.
    return subprocess.Popen(
        command(folder, "--rounds=5"), start_new_session=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )  # fmt: skip


def finish(folder: Path) -> None:
    process = start(folder)
    output, _ = process.communicate(timeout=1500)
    assert process.returncode == 0, output.decode()


def wait_until_at_work(process: subprocess.Popen) -> None:
    assert any(b"exploring" in line for line in process.stdout)


def kill_at_random(process: subprocess.Popen) -> bool:
    """Kill a run some moments after it has got to work; False if it came to its end first."""
    wait_until_at_work(process)
    time.sleep(random.uniform(0, 4))  # the random moment that the test is about
    process.kill()
    process.communicate()
    return process.returncode == -signal.SIGKILL


@pytest.mark.slow
@pytest.mark.timeout(4000)
@pytest.mark.usefixtures("embedded_weights")
def test_killed_at_random_moments_and_resumed(tmp_path):
    finish(tmp_path / "whole")
    before = set(psutil.pids())
    killed = sum(kill_at_random(start(tmp_path / "killed")) for _ in range(KILLS))
    assert killed > KILLS // 2, "the run ended before it was killed often enough to show anything"
    finish(tmp_path / "killed")
    assert contents(tmp_path / "killed") == contents(tmp_path / "whole")
    assert_nothing_left_behind(before)


def assert_nothing_left_behind(before: set[int]) -> None:
    deadline = time.monotonic() + 10
    while left := [
        process for process in psutil.process_iter(["pid", "cmdline"])
        if process.pid not in before and str(SANDBOX) in " ".join(process.info["cmdline"] or ())
    ]:  # fmt: skip
        assert time.monotonic() < deadline, left
        time.sleep(0.1)


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.usefixtures("embedded_weights")
def test_interrupted_by_the_person_it_says_how_to_go_on(tmp_path):
    before = set(psutil.pids())
    process = start(tmp_path / "run")
    wait_until_at_work(process)
    process.send_signal(signal.SIGINT)
    output, _ = process.communicate(timeout=60)
    assert process.returncode == 130
    assert f"--resume --folder {tmp_path / 'run'}" in output.decode().replace("\n", "")
    assert_nothing_left_behind(before)
