"""Entry of a fork server: `python boot.py CONTROL_FD`.

Run as a plain file, so that no package's `__init__` runs: `atlas_gym/__init__.py` imports gymnasium, which
no worker needs and which would cost every fork its memory.
"""

import sys
import types
from pathlib import Path


def stub_packages(module: str, file: Path) -> None:
    """Let `module` be imported from `file` without running the `__init__` of the packages around it."""
    names = module.split(".")[:-1]
    folders = list(file.parents)[: len(names)][::-1]
    for depth, folder in enumerate(folders, start=1):
        name = ".".join(names[:depth])
        if name not in sys.modules:
            package = types.ModuleType(name)
            package.__path__ = [str(folder)]
            sys.modules[name] = package


if __name__ == "__main__":
    stub_packages("atlas_gym.sandbox.forkserver", Path(__file__).resolve())
    from atlas_gym.sandbox.forkserver import main

    main(int(sys.argv[1]), stub_packages)
