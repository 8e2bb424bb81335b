"""Entry point of `python -m atlas_gym`."""

import sys

from atlas_gym.cli.main import main

sys.exit(main())
