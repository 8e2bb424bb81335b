"""Controls that cost no model: the hand-written programs, the supporter's rules, and a program's numbers left open."""

import ast
import random

from agents.supporters.exploration import ExplorationRequest
from agents.supporters.exploration_rules import RuleExplorationSupporter
from atlas_gym.program_text import program_key
from atlas_gym.tasks.parameter import Parameter
from atlas_gym.tasks.template import Template
from experiments.learners.ledger import Ledger

_FACTOR = 10.0
"""A number of the start is searched from a tenth of it to ten times it."""
_PARENTS = 4
"""The rules vary one of so many best programs."""
_PATCHES = 4
"""Variants that the rules are asked for at a time."""


def learn_start(ledger: Ledger, seed: int) -> None:
    """Nothing: the start was scored when the ledger was opened."""


def learn_expert(ledger: Ledger, seed: int) -> None:
    """Every hand-written program once; the budget may end first."""
    for expert in ledger.task.programs.values():
        if not ledger.spent:
            ledger.propose(expert.program)


def learn_rules(ledger: Ledger, seed: int) -> None:
    """The exploration supporter's rules on one of the best programs, over and over, without any agent.

    Ends before the budget is spent if the rules have nothing left to say about these programs.
    """
    supporter, rng, task = RuleExplorationSupporter(seed), random.Random(seed), ledger.task
    scores = {ledger.start: ledger.best[1]}
    silent = 0
    while not ledger.spent and silent < 10 * _PARENTS:
        parent = rng.choice(sorted(scores, key=scores.__getitem__)[-_PARENTS:])
        request = ExplorationRequest(
            key=("candidate", ledger.candidates, "silent", silent), function=task.function, program=parent,
            score=scores[parent], traits=task.traits, tried={str(program_key(program)) for program in scores},
            max_patches=min(_PATCHES, ledger.budget - ledger.candidates),
        )  # fmt: skip
        patches = supporter.consult(request).advice.patches
        silent = 0 if patches else silent + 1
        scores |= {patch.program: ledger.propose(patch.program) for patch in patches}


def open_numbers(program: str, function: str) -> Template:
    """The program with every number that has a line of its own (`window = 50`) left open.

    Raises:
        ValueError: it has none.
    """
    lines, parameters = program.replace("$", "$$").split("\n"), []
    for node in ast.walk(ast.parse(program)):
        if not (isinstance(node, ast.Assign) and isinstance(node.value, ast.Constant)):
            continue
        target, value = node.targets[0], node.value.value
        if not isinstance(value, int | float) or isinstance(value, bool):
            continue
        if isinstance(target, ast.Name) and value > 0:
            whole = isinstance(value, int)
            low = max(1, round(value / _FACTOR)) if whole else value / _FACTOR
            parameters.append(Parameter(target.id, low, value * _FACTOR, integer=whole))
            line = lines[node.lineno - 1]
            lines[node.lineno - 1] = (
                f"{line[: node.value.col_offset]}${{{target.id}}}{line[node.value.end_col_offset :]}"
            )
    if not parameters:
        raise ValueError(f"{function} has no number on a line of its own")
    return Template(f"numbers of {function}", "\n".join(lines), tuple(parameters))
