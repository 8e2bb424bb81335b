"""`make bench`: what the program exists for, measured side by side with what a user would use instead."""

import subprocess
import sys

BENCHMARKS = ("evaluation", "burgers", "dpo")


def main() -> int:
    """Run every benchmark in a process of its own; returns how many failed."""
    failed = 0
    for name in BENCHMARKS:
        print(f"\n== {name}", flush=True)
        failed += (
            subprocess.run([sys.executable, "-m", f"experiments.benchmarks.{name}"], check=False).returncode
            != 0
        )
    return failed


if __name__ == "__main__":
    sys.exit(main())
