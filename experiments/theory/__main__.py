"""Command line of the theory study: `python -m atlas_gym.experiments.theory --quick`."""

import os
import sys
from pathlib import Path

# The arrays are small: a second BLAS thread per process only gets in the way. Read when numpy is first imported.
for variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(variable, "1")


def main(arguments: list[str] | None = None) -> int:
    """Run the study, write its tables and figures, print the headline."""
    from atlas_gym.arguments import Parser
    from atlas_gym.experiments.theory.figures import write_figures
    from atlas_gym.experiments.theory.runner import run_plan
    from atlas_gym.experiments.theory.settings import make_plan
    from atlas_gym.experiments.theory.tables import headline, write_tables

    parser = Parser(
        prog="python -m atlas_gym.experiments.theory",
        description="Dynamic regret of EvoDPO and of DPO under drift, and the lemmas of appendix A.",
    )
    size = parser.add_mutually_exclusive_group()
    size.add_argument("--quick", action="store_true", help="10 seeds, 1,000 lemma instances (default)")
    size.add_argument("--full", action="store_true", help="40 seeds, longer horizons, 4,000 lemma instances")
    parser.add_argument(
        "--jobs", type=int, default=os.cpu_count() or 1, help="processes (default: one per core)"
    )
    parser.add_argument("--out", type=Path, default=Path("runs/regret"), help="folder for tables and figures")
    options = parser.parse_args(arguments)
    plan = make_plan("full" if options.full else "quick")
    results = run_plan(plan, max(1, options.jobs))
    command = f"python -m atlas_gym.experiments.theory --{plan.name}"
    write_tables(results, options.out, command)
    write_figures(results, options.out, command)
    print(headline(results))
    print(f"\nTables and figures are in {options.out}.")
    return 0


if __name__ == "__main__":
    sys.exit(main())
