"""What is compared with, from PyPI, into a folder that is thrown away afterwards."""

import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path


def install_into(folder: Path, name: str, requirements: Sequence[str]) -> bool:
    """Install the requirements, without their dependencies; False, with the reason printed, if that fails."""
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--target", str(folder)]
    done = subprocess.run([*command, *requirements], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        print(f"{name} is left out, it could not be installed: {done.stderr.strip()[-300:]}")
    return done.returncode == 0
