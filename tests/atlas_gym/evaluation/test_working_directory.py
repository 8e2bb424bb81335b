"""What lies in the working directory, or that it is gone: no process that is started here minds."""

import subprocess
import sys
from importlib.util import find_spec

import pytest

import atlas_gym


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
