"""Controls that cost no model: the start, the hand-written programs, and the supporter's rules."""

import random

from atlas_gym.agents.supporters.exploration import ExplorationRequest, ExplorationSupporter
from atlas_gym.experiments.learners.ledger import Ledger
from atlas_gym.program_text import program_key
from atlas_gym.trainers.loop.tasks import parent_of

_PARENTS = 4
"""The rules vary one of so many best programs."""
_PATCHES = 4
"""Variants that the rules are asked for at a time."""


def learn_start(ledger: Ledger, seed: int) -> None:
    """Nothing: the start was scored when the ledger was opened."""


def learn_expert(ledger: Ledger, seed: int) -> None:
    """Every hand-written program once; the budget may end first."""
    for expert in ledger.task.programs.values():
        ledger.propose(expert.program)


def learn_rules(ledger: Ledger, seed: int) -> None:
    """The exploration supporter's rules on one of the best programs, over and over, without any agent.

    Ends before the budget is spent if the rules have nothing left to say about these programs.
    """
    supporter, rng, task = ExplorationSupporter(seed=seed), random.Random(seed), ledger.task
    scores = {ledger.start: ledger.best[1]}
    silent = 0
    while silent < 10 * _PARENTS:
        parent = rng.choice(sorted(scores, key=scores.__getitem__)[-_PARENTS:])
        request = ExplorationRequest(
            ("candidate", ledger.candidates, "silent", silent), task, parent_of(parent, scores[parent]),
            tried={str(program_key(program)) for program in scores}, max_patches=_PATCHES,
        )  # fmt: skip
        patches = supporter.consult(request).advice.patches
        silent = 0 if patches else silent + 1
        scores |= {patch.program: ledger.propose(patch.program) for patch in patches}
