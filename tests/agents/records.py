"""Candidate records for tests of whatever folds them."""

import itertools

from atlas_gym.agents.population.candidate import Candidate
from atlas_gym.program_text import program_key
from tests.agents.proposals.programs import ORDINARY

_ids = itertools.count(1)


def record(program=ORDINARY, score=-0.5, *, round=0, island=0, origin="agent", **changes):
    """A candidate that passed, or failed if `score` is None."""
    values = {
        "id": next(_ids),
        "round": round,
        "island": island,
        "origin": origin,
        "style": "edit_line",
        "site": "window =",
        "parent_id": None,
        "prompt": "",
        "completion": "",
        "program": program,
        "program_key": program_key(program),
        "status": "ok" if score is not None else "error",
        "score": score,
    }
    return Candidate(**values | changes)


def windowed(window, score, **changes):
    """The ordinary program with another window."""
    return record(ORDINARY.replace("50", str(window)), score, **changes)
