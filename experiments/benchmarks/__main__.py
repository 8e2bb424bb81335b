"""`make bench`: what the program exists for, measured side by side with what a user would use instead.

`make bench ARGS="evaluation burgers"` runs only those.
"""

import subprocess
import sys

from atlas_gym.arguments import Parser

BENCHMARKS = ("evaluation", "calls", "tasks", "burgers", "dpo")


def main(arguments: list[str] | None = None) -> int:
    """Run benchmarks, each in a process of its own; returns how many failed."""
    parser = Parser(prog="python -m experiments.benchmarks", description=__doc__)
    about = "of " + ", ".join(BENCHMARKS) + "; default: all"
    parser.add_argument("names", nargs="*", metavar="NAME", choices=BENCHMARKS, help=about)
    names = parser.parse_args(arguments).names or BENCHMARKS
    failed = 0
    for name in names:
        print(f"\n== {name}", flush=True)
        command = [sys.executable, "-m", f"experiments.benchmarks.{name}"]
        failed += subprocess.run(command, check=False).returncode != 0
    return failed


if __name__ == "__main__":
    sys.exit(main())
