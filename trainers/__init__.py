"""Learning: preference pairs, EvoDPO with a gated reference, the ATLAS loop and its run store."""

import sys

if sys.flags.optimize > 1:
    raise ImportError(
        "python -OO takes docstrings away, and with them the tasks' words and the settings' meanings: run without -OO, "
        "and unset PYTHONOPTIMIZE or set it to 1"
    )
