"""The suite can fail: against a plain `exec` in the evaluator's process most attacks succeed."""

import json
import platform
import subprocess
import sys

import pytest

from tests.hostile.catalogue import marks


def achieved(env_id: str) -> dict[str, list[str]]:
    command = [sys.executable, "-m", "tests.hostile.plain", env_id]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return json.loads(done.stdout)


@pytest.mark.parametrize("env_id", ["toy", pytest.param("ATLAS-Bandit-v0", marks=pytest.mark.slow)])
def test_most_attacks_succeed_without_confinement(env_id):
    found = achieved(env_id)
    successes = [name for name, harm in found.items() if harm]
    print(f"{env_id}: {len(successes)} of {len(found)} attacks succeed against a plain exec")
    assert len(successes) > len(found) / 2
    assert "forged a score" in found["walk the callers' frames"]
    assert "wrote a file" in found["write a file"]
    assert "reached the network" in found["connect by TCP"]
    assert "stopped or killed a process" in found["kill another process"]
    assert "took the evaluator down" in found["os._exit with success"]
    assert "hung the evaluator" in found["an endless loop"]
    if platform.machine() == "x86_64":
        assert [attack.name for attack in marks.ATTACKS if not found[attack.name]] == []
