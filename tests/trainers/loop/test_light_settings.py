"""Settings are read, checked and listed by people who wait: nothing heavy is imported for them."""

import subprocess
import sys

HEAVY = ("torch", "transformers", "peft", "trl", "wandb", "pydantic", "httpx2")

CODE = f"""
import sys
from atlas_gym.trainers.loop.config import RunConfig
RunConfig()
print(*[name for name in {HEAVY} if name in sys.modules])
"""


def test_making_a_configuration_imports_nothing_heavy():
    done = subprocess.run([sys.executable, "-c", CODE], capture_output=True, text=True, check=True)
    assert done.stdout.split() == []


def test_a_control_is_found_without_torch():
    """Reports look for it, and people wait for reports."""
    code = "import sys, atlas_gym.trainers.loop.control; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0
