"""The suite once more, as an ordinary user: confinement needs no privileges, and an attack gains none."""

import os
import shutil
import subprocess
import sys

import pytest

from tests.hostile.ordinary_user import run_as_nobody
from tests.hostile.seats import registered_ids

pytestmark = pytest.mark.skipif(os.getuid() != 0, reason="the whole suite is run by an ordinary user already")


def require_namespaces():
    tools = shutil.which("unshare") and shutil.which("setpriv")
    if not tools or subprocess.run(["unshare", "--mount", "true"]).returncode != 0:
        pytest.skip("needs unshare, setpriv and the right to make a mount namespace")


def pytest_as_nobody(*arguments):
    require_namespaces()
    return run_as_nobody([sys.executable, "-m", "pytest", "-p", "no:cacheprovider", *arguments])


def test_statuses_as_ordinary_user():
    done = pytest_as_nobody("tests/atlas_gym/evaluation/test_statuses.py")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "passed" in done.stdout


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize("env_id", registered_ids())
def test_hostile_suite_as_ordinary_user(env_id):
    done = pytest_as_nobody("tests/hostile/test_confined.py", "-m", "slow or not slow", "-k", env_id)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "passed" in done.stdout
