"""Judged candidates in a line, and pairs of them."""

import numpy as np

from atlas_gym.agents.population.candidate import Candidate
from atlas_gym.trainers.data.pairs import build_pairs


def completion(i, text, score, prompt="window =", parent=-0.16, site="window", **changes):
    """A judged candidate; its round says which task scored it."""
    values = {
        "id": i, "round": 0, "island": 0, "origin": "agent", "style": "edit_line", "site": site, "parent_id": None,
        "prompt": prompt, "completion": text, "program": "", "program_key": None,
        "status": "ok" if score is not None else "error", "score": score, "parent_score": parent,
    }  # fmt: skip
    return Candidate(**values | changes)


def rng():
    return np.random.default_rng(0)


def parent_text(record):
    return " 50" if record.parent_id is not None and record.id % 2 else None


def built(buffer, pair_settings, generator, **further):
    known = {"scale": lambda record: record.round, "parent_text": parent_text}
    return build_pairs(buffer, pair_settings, generator, **known, **further)
