"""Write the report of one or several runs: `atlas report RUN [RUN…]`.

The page opens from disk and needs no network. With `--follow` the same page is served on this machine
only and follows runs that are still under way.
"""

import argparse
import sys
from pathlib import Path

from atlas_gym.arguments import Parser, port
from atlas_gym.experiments.report.follow import serve
from atlas_gym.experiments.report.write import default_output, write_report
from atlas_gym.tasks.registry import find_task
from atlas_gym.trainers.store.store import StoreError


def main(arguments: list[str] | None = None) -> int:
    """Write or serve; returns the exit code (0 done, 1 failed)."""
    options = _parser().parse_args(arguments)
    try:
        if options.follow:
            serve(options.runs, options.port, pictures=options.pictures)
        else:
            output = options.output or default_output(options.runs)
            page, *others = write_report(
                options.runs, output, pictures=options.pictures, figures=options.figures
            )
            print(f"{page} ({page.stat().st_size / 2**20:.1f} MiB)")
            for folder in dict.fromkeys(path.parent for path in others):
                print(f"{folder}/ ({sum(path.parent == folder for path in others)} files)")
    except StoreError as error:
        print(f"Error: {error}", file=sys.stderr)
        return 1
    return 0


def _imported(task: str) -> str:
    try:
        find_task(task)
    except (ImportError, OSError, ValueError) as error:
        raise argparse.ArgumentTypeError(str(error)) from None
    return task


def _parser() -> argparse.ArgumentParser:
    parser = Parser(prog="atlas report", description=__doc__)
    parser.add_argument("runs", nargs="+", type=Path, metavar="RUN", help="run folder")
    parser.add_argument(
        "--output",
        type=Path,
        help="the page; default: RUN/report.html, or report/report.html beside several runs",
    )
    parser.add_argument(
        "--task",
        type=_imported,
        help="the runs' task where it is in no installed package, such as ./my_task.py, to draw its picture:"
        " what a run itself names is not imported",
    )
    parser.add_argument("--figures", action="store_true", help="also write figures for papers (PDF and PNG)")
    parser.add_argument(
        "--no-pictures",
        dest="pictures",
        action="store_false",
        help="do not evaluate the first and the best program again for the environment's picture",
    )
    parser.add_argument(
        "--follow", action="store_true", help="serve the report on localhost and keep it up to date"
    )
    parser.add_argument("--port", type=port, default=8765, help="port of --follow; 0 takes a free one")
    return parser


if __name__ == "__main__":
    sys.exit(main())
