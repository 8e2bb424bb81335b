"""What lies in the working directory, or that it is gone: no process that is started here minds."""

import os
import subprocess
import sys
from importlib.util import find_spec

import pytest

import atlas_gym
from atlas_gym.evaluation.safe_start import standard_library_first


@pytest.fixture(scope="module")
def shadows(tmp_path_factory):
    """A folder full of modules named as the standard library's, none of which may be imported."""
    folder = tmp_path_factory.mktemp("shadows")
    for name in filter(find_spec, sys.stdlib_module_names - {"__main__"}):  # those that this system has
        (folder / f"{name}.py").write_text(f"raise RuntimeError('{name} was shadowed')\n")
    return folder


POOL = """
import sys
from atlas_gym.evaluation import EvaluatorPool
from tests.atlas_gym.evaluation.toy import HONEST, ToyTask
with EvaluatorPool(1) as pool:
    pool.evaluate(HONEST, ToyTask())  # whatever this process needs is imported
sys.path.insert(0, "")  # as in `python -m` and at the prompt
with EvaluatorPool(1) as pool:
    print(pool.evaluate(HONEST, ToyTask()).status)
"""
GRANDCHILD = (
    "import subprocess, sys; subprocess.run([sys.executable, '-c', 'import hmac, random'], check=True)"
)


def run_among(shadows, *command):
    root = str(atlas_gym.__path__[0]).removesuffix("/atlas_gym")
    begin = f"import sys; sys.path.append({root!r}); "
    return subprocess.run(
        [sys.executable, "-P", "-c", begin + "exec(sys.argv[1])", *command],
        cwd=shadows, capture_output=True, text=True, check=False, timeout=120,
    )  # fmt: skip


def test_evaluators_fork_servers_and_workers_are_shadowed_by_nothing(shadows):
    done = run_among(shadows, POOL)
    assert (done.stdout, done.stderr) == ("ok\n", "")


def test_started_modules_and_what_they_start_are_shadowed_by_nothing(shadows, tmp_path):
    (tmp_path / "started.py").write_text(f"{GRANDCHILD}\nimport sys\nprint(sys.argv[1:])\n")
    code = f"""
import subprocess, sys
from atlas_gym.evaluation.safe_start import safe_command, safe_environment
sys.path += [{str(tmp_path)!r}, ""]
subprocess.run(safe_command("started", "a", "b"), env=safe_environment(), check=True)
"""
    done = run_among(shadows, code)
    assert (done.stdout, done.stderr) == ("['a', 'b']\n", "")


def test_the_standard_library_goes_first_and_the_rest_keeps_its_order():
    own = [p for p in sys.path if p]
    ordered = standard_library_first(["/shadow", *own, "/shadow", "/other"])
    assert ordered.count("/shadow") == 1
    assert ordered.index(os.path.dirname(os.__file__)) < ordered.index("/shadow") < ordered.index("/other")
