"""What all tests share.

Hidden streams hang on a secret. The suite fixes its own, for itself and for every process it starts, so that drawn
scores are the same wherever it runs; set ATLAS_GYM_SECRET to test under another. What must hold under any secret
takes the fixture `any_secret`.

Hypothesis measures no time: a busy machine may pause anywhere, and pytest's own timeout guards against hanging. It
tries few examples in the quick suite, and many where slow tests are run too.
"""

import gc
import os
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest
from hypothesis import settings

SECRET = os.environ.setdefault("ATLAS_GYM_SECRET", "the suite's own")

settings.register_profile("quick", deadline=None, max_examples=25)
settings.register_profile("whole", deadline=None, max_examples=200)


def pytest_configure(config: pytest.Config) -> None:
    settings.load_profile("quick" if config.getoption("markexpr") == "not slow" else "whole")


def pytest_collection_finish() -> None:
    """What the collected files have imported stays: let no garbage collection go through it, of which Accelerate asks
    one at every training."""
    gc.freeze()


@pytest.fixture(scope="session")
def embedded_weights() -> Path:
    """Folder of the embedded model's real weights; skips where nobody has fetched them."""
    model = pytest.importorskip(
        "atlas_gym.agents.models.loading", reason="needs the extra `learn`", exc_type=ImportError
    )
    try:
        return model.resolve_model("embedded")
    except model.ModelMissing as missing:
        pytest.skip(str(missing))


@pytest.fixture(scope="session")
def distribution(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder with wheel and sdist, built without network."""
    folder = tmp_path_factory.mktemp("distribution")
    ignored = shutil.ignore_patterns(".*", "build", "*.egg-info", "__pycache__", "runs", "wandb", "*.so")
    shutil.copytree(Path(__file__).parents[1], folder / "source", ignore=ignored)
    code = (
        "import sys; from setuptools import build_meta as backend; folder = sys.argv[1]; "
        "backend.build_sdist(folder); backend.build_wheel(folder)"
    )
    build = [sys.executable, "-c", code, str(folder)]
    subprocess.run(build, cwd=folder / "source", capture_output=True, text=True, check=True)
    return folder


@pytest.fixture(scope="session")
def installed_python(distribution: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The interpreter of a fresh virtual environment that holds the wheel; the rest it borrows from here."""
    folder = tmp_path_factory.mktemp("environment")
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(folder)], check=True)
    python = folder / "bin" / "python"
    (wheel,) = distribution.glob("*.whl")
    install = [sys.executable, "-m", "pip", "--python", str(python), "install", "--quiet", "--no-deps"]
    subprocess.run([*install, str(wheel)], check=True)
    packages = sysconfig.get_path("purelib", vars={"base": str(folder)})
    here = [path for path in sys.path if Path(path).name == "site-packages"]
    (Path(packages) / "borrowed.pth").write_text("\n".join(here))
    return python
