"""The exploration supporter: reads one of the agent's programs and says what to try next.

Its advice has two parts: a critique (text that goes into the agent's next prompt), and patches (new candidate
programs). Both forms, rules and language model, end in the same gate, :func:`admit_patches`: a patch parses,
defines the entry function, differs from everything tried and is a bounded edit of the agent's program. Where a
patch is another value for a constant, that is bounded to a factor of the value that stands in the program.

Where it *teaches*, the request names the place that one of the agent's prompts leaves open; patches that keep to it are
answers to that prompt.
"""

import math
from collections.abc import Iterable, Sequence, Set
from dataclasses import dataclass, replace

from agents.population.candidate import CandidateRecord
from agents.proposals.completing import Opening
from agents.supporters.call import Question, Supporter
from agents.supporters.edits import EditBound
from atlas_gym.program_text import program_key, syntax_error
from atlas_gym.tasks.program_task import ProgramTask
from atlas_gym.text import is_plain

CRITIQUE_CHARS = 800
"""Longest critique, characters."""

FAILURES_TOLD = 3
"""Failures that the supporter is told, at most."""

SUGGESTION_FACTOR = 10.0
"""A suggested value lies within this factor of the current one, either way."""


@dataclass(frozen=True)
class ExplorationRequest(Question):
    """What the exploration supporter is told. All of the programs' records may be text that a candidate wrote."""

    task: ProgramTask
    """What programs are for: in words, with the traits and hints that its author declares."""
    parent: CandidateRecord
    """The agent's program that is to be criticised and patched, and what came of it."""
    failures: Sequence[CandidateRecord] = ()
    """Recent failures of the same island or prompt, newest last."""
    tried: Set[str] = frozenset()
    """Program keys that need not be proposed again; may be many, so only asked whether it has one."""
    max_patches: int = 3
    """Patches wanted at most."""
    opening: Opening | None = None
    """The only place that patches may change: what one of the agent's prompts leaves open, so that each patch is an
    answer to that prompt. None: any place."""


@dataclass(frozen=True)
class Patch:
    """A new candidate program, a bounded edit of the agent's."""

    program: str
    """Complete program text."""
    kind: str
    """What was changed: the rule's name, or ``edit`` or ``suggestion`` for a language model."""
    program_key: str = ""
    """Hash of its normalised syntax tree; empty before it is admitted."""


@dataclass(frozen=True)
class ExplorationAdvice:
    """What the exploration supporter says. The empty advice is neutral."""

    critique: str = ""
    """A few plain sentences for the agent's next prompt."""
    patches: tuple[Patch, ...] = ()
    """New candidate programs."""

    def summary(self) -> str:
        patches = "; ".join(f"{p.kind} {p.program_key[:12]}" for p in self.patches)
        return f"patches: {patches or 'none'} | critique: {self.critique}"


ExplorationSupporter = Supporter[ExplorationRequest, ExplorationAdvice]
"""Advises on one program."""


def admit_patches(
    request: ExplorationRequest, proposed: Iterable[Patch], bound: EditBound
) -> tuple[Patch, ...]:
    """Those that are new, runnable and bounded edits of the agent's program, in order, at most as many
    as asked for."""
    seen = {program_key(request.parent.program)}
    admitted: list[Patch] = []
    for patch in proposed:
        if len(admitted) >= request.max_patches:
            break
        key = program_key(patch.program) if _is_admissible(request, patch.program, bound) else None
        if key is not None and key not in seen and key not in request.tried:
            seen.add(key)
            admitted.append(replace(patch, program_key=key))
    return tuple(admitted)


def bounded_value(current: float, proposed: float) -> float | None:
    """``proposed`` moved within :data:`SUGGESTION_FACTOR` of ``current``, sign and integer type kept; None if
    that leaves no other value."""
    if not math.isfinite(proposed) or proposed * current <= 0:
        return None
    low, high = abs(current) / SUGGESTION_FACTOR, abs(current) * SUGGESTION_FACTOR
    size: float = min(max(abs(proposed), low), high)
    if isinstance(current, int):
        size = min(max(round(size), math.ceil(low)), math.floor(high))
    value = size if current > 0 else -size
    return None if value == current else value


def _is_admissible(request: ExplorationRequest, program: str, bound: EditBound) -> bool:
    parent, opening = request.parent.program, request.opening
    fits = opening is None or opening.holds(parent, program)
    fits = fits and is_plain(program) and bound.allows(parent, program)
    return fits and syntax_error(program, request.task.function) is None
