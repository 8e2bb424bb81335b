"""Door of `python -m experiments.run`: the command lives in `experiments.cli.run`."""

import sys

from experiments.cli.run import main

if __name__ == "__main__":
    sys.exit(main())
