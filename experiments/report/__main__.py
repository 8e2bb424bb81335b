"""Write the report of one or several runs: `atlas report RUN [RUN…]`.

The page opens from disk and needs no network.
"""

import sys
from pathlib import Path

from atlas_gym.arguments import Parser
from atlas_gym.text import clean


def main(arguments: list[str] | None = None) -> int:
    """Write the page; returns the exit code (0 done, 1 failed)."""
    parser = Parser(prog="atlas report", description=__doc__)
    parser.add_argument("runs", nargs="+", type=Path, metavar="RUN", help="run folder")
    parser.add_argument(
        "--output",
        type=Path,
        help="the page; default: RUN/report.html, or report/report.html beside several runs",
    )
    options = parser.parse_args(arguments)
    from atlas_gym.experiments.report.page import write_report
    from atlas_gym.trainers.store.store import StoreError

    try:
        page = write_report(options.runs, options.output)
    except StoreError as error:
        print(f"Error: {clean(str(error), 5000)}", file=sys.stderr)
        return 1
    print(f"{page} ({page.stat().st_size / 2**20:.1f} MiB)")
    return 0


if __name__ == "__main__":
    sys.exit(main())
