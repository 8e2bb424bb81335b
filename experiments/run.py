"""Door of `python -m atlas_gym.experiments.run`: the command lives in `experiments.cli.run`."""

import sys

from atlas_gym.experiments.cli.run import main

if __name__ == "__main__":
    sys.exit(main())
