"""Learning: preference pairs, EvoDPO with a gated reference, the ATLAS loop and its run store."""

import sys

import agents

if sys.flags.optimize > 1:
    raise ImportError(
        "python -OO takes docstrings away, and with them the tasks' words and the settings' meanings: run without -OO, "
        "and unset PYTHONOPTIMIZE or set it to 1"
    )
# `openai-agents` installs an import package of the same name; found first, it would fail in confusing ways.
if not (agents.__doc__ or "").startswith("The research agent: prompts become programs"):
    raise ImportError(
        f"The package `agents` found at {agents.__path__[0]} is not ATLAS Gym's (openai-agents installs one of the "
        "same name). Use an environment of its own: python -m venv .venv && .venv/bin/pip install 'atlas-gym[learn]'"
    )
