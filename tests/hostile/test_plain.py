"""The suite can fail: against a plain `exec` in the evaluator's process every attack succeeds that can."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.hostile.catalogue import ATTACKS
from tests.hostile.catalogue.unconfined import NOTHING_GAINED, ROOT_ONLY
from tests.hostile.seats import SEATS


def achieved(env_id: str, home: Path) -> dict[str, list[str]]:
    """What each attack achieved on a machine that has a secret in a file, as all have that were not given another."""
    secret = home / ".local" / "state" / "atlas-gym" / "secret"
    secret.parent.mkdir(parents=True)
    secret.write_text("a machine's own")
    command = [sys.executable, "-m", "tests.hostile.plain", env_id]
    environment = {**os.environ, "HOME": str(home)}
    done = subprocess.run(command, capture_output=True, text=True, check=True, env=environment)
    return json.loads(done.stdout)


@pytest.mark.parametrize("env_id", ["toy", pytest.param("ATLAS-Bandit-v0", marks=pytest.mark.slow)])
def test_every_attack_succeeds_without_confinement_that_can(env_id, tmp_path):
    found = achieved(env_id, tmp_path)
    print(f"{env_id}: {sum(map(bool, found.values()))} of {len(found)} attacks succeed against a plain exec")
    excused = {*NOTHING_GAINED, *SEATS[env_id]().spared, *(ROOT_ONLY if os.getuid() != 0 else ())}
    assert [name for name, harm in found.items() if not harm and name not in excused] == []
    assert "forged a score" in found["walk the callers' frames"]
    assert "wrote a file" in found["write a file"]
    assert "reached the network" in found["connect by TCP"]
    assert "stopped or killed a process" in found["kill another process"]
    assert "took the evaluator down" in found["os._exit with success"]
    assert "hung the evaluator" in found["an endless loop"]


def test_only_attacks_of_the_catalogue_are_excused():
    excused = {*NOTHING_GAINED, *ROOT_ONLY, *SEATS["toy"]().spared, *SEATS["ATLAS-Bandit-v0"]().spared}
    assert excused <= {attack.name for attack in ATTACKS}
