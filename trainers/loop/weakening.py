"""Weakened starting programs: where a task's own start leaves little to find, one with worse constants leaves more."""

from collections.abc import Callable, Iterator

import numpy as np

from agents.population.candidate import CandidateRecord
from agents.proposals import Numeric, Showing
from atlas_gym.program_text import program_key

_DRAWS = 8
"""Weakened programs that are tried before the start itself is taken."""


def starting_program(
    program: str, function: str, changes: int, rng: np.random.Generator, score: Callable[[str], float | None]
) -> str:
    """The start with `changes` constants changed: of a few draws the first that runs and scores lower; the start itself
    if none does.

    Args:
        program: the start.
        function: name of its entry function.
        changes: how many constants are changed.
        rng: draws them.
        score: a program's score, None if it fails.
    """
    own = score(program) if changes else None
    if own is None:
        return program
    for weaker in _perturbed(program, Numeric(function), changes, rng):
        found = score(weaker)
        if found is not None and found < own:
            return weaker
    return program


def _perturbed(program: str, style: Numeric, changes: int, rng: np.random.Generator) -> Iterator[str]:
    count = len(style.sites(program))
    for _ in range(_DRAWS if count else 0):
        weaker = program
        for place in rng.choice(count, min(changes, count), replace=False):
            proposal = style.propose(parent_of(weaker, None), style.sites(weaker)[place], Showing())
            weaker = proposal.assemble(style.write(proposal, 1, rng)[0])
        yield weaker


def parent_of(program: str, score: float | None) -> CandidateRecord:
    """A program that is no candidate of a run, as the parent of a proposal."""
    return CandidateRecord(
        id=-1, round=-1, island=-1, origin="seed", style="", hole="", parent_id=None, prompt="", completion="",
        program=program, program_key=program_key(program), status="ok", score=score,
    )  # fmt: skip
