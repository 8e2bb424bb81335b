"""Builds the kernel of ATLAS-Burgers-v0 while the package is installed, where a C++ compiler exists.

Everything else is in pyproject.toml. Without a compiler, or in an editable installation, nothing is built
here: the kernel is then built at first use, or the environment trains in plain torch. See
atlas_gym/tasks/burgers/build.py.
"""

import runpy
from pathlib import Path

from setuptools import setup
from setuptools.command.build_py import build_py

WIDTH = 32
"""Of the default network; kernels for other widths are built at first use."""


class BuildWithKernel(build_py):
    """Copies the package's files, then compiles the kernel beside them."""

    def run(self) -> None:
        super().run()
        if self.editable_mode:
            return
        builder = runpy.run_path("atlas_gym/tasks/burgers/build.py")
        try:
            builder["build"](WIDTH, Path(self.build_lib) / "atlas_gym" / "tasks" / "burgers")
        except builder["BuildError"] as error:
            self.warn(f"the Burgers kernel is not built now: {error}")


setup(cmdclass={"build_py": BuildWithKernel})
