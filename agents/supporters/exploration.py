"""The exploration supporter: reads one of the agent's programs and says what to try next.

Its advice has two parts: a critique (text that goes into the agent's next prompt), and patches (new candidate
programs). Both forms, rules and language model, end in the same gate, :func:`admit_patches`: a patch parses,
defines the entry function, differs from everything tried and is a bounded edit of the agent's program. Where a
patch is another value for a constant, that is bounded to a factor of the value that stands in the program.

Where it *teaches*, the request names the place that one of the agent's prompts leaves open; patches that keep to it are
answers to that prompt.
"""

import math
from collections.abc import Iterable, Iterator, Sequence, Set
from dataclasses import dataclass, replace

from atlas_gym.agents.population.candidate import CandidateRecord
from atlas_gym.agents.proposals.completing import Opening
from atlas_gym.agents.proposals.constants import constants
from atlas_gym.agents.proposals.source import Source
from atlas_gym.agents.supporters.call import Question, Supporter
from atlas_gym.agents.supporters.conversation import LLMSupporter
from atlas_gym.agents.supporters.edits import EditBound
from atlas_gym.agents.supporters.prompts import Data
from atlas_gym.agents.supporters.replies import ExplorationReply, PatchReply, SuggestionReply, parse_reply
from atlas_gym.program_text import program_key, syntax_error
from atlas_gym.tasks.program_task import ProgramTask
from atlas_gym.text import is_plain, one_line

CRITIQUE_CHARS = 800
"""Longest critique, characters."""

FAILURES_TOLD = 3
"""Failures that the supporter is told, at most."""

SUGGESTION_FACTOR = 10.0
"""A suggested value lies within this factor of the current one, either way."""

_MOST_ITEMS = 8
"""Suggestions and patches of one reply that are looked at."""


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


class LLMExplorationSupporter(LLMSupporter[ExplorationRequest, ExplorationAdvice]):
    """A model that reads a program and replies with critique, suggestions and patches."""

    role = "exploration"
    reply = ExplorationReply

    def values(self, request: ExplorationRequest) -> dict[str, str | Data]:
        task, parent = request.task, request.parent
        failures = "\n".join(
            f"- {failed.status}: {one_line(failed.detail, 300)} {one_line(failed.completion.strip(), 200)}".rstrip()
            for failed in request.failures
        )
        metrics = "\n".join(f"- {name}: {value:.6g}" for name, value in list(parent.metrics.items())[:20])
        return {
            "function": task.function,
            "description": Data(task.description, 3_000),
            "hints": "".join(f"- {hint}\n" for hint in task.hints) or "(its author says nothing of it)\n",
            "program": Data(parent.program, 12_000),
            "score": "none: it failed" if parent.score is None else f"{parent.score:.6g}",
            "diagnosis": Data(parent.diagnosis, 1_000),
            "metrics": Data(metrics, 1_500),
            "failures": Data(failures, 2_500),
            "opening": _opening(request),
            "max_patches": str(request.max_patches),
            "max_lines": str(self.settings.patch_bound.allowed_lines(parent.program)),
        }

    def interpret(self, request: ExplorationRequest, text: str) -> ExplorationAdvice:
        """The advice that a reply amounts to; raises ReplyError if it is no reply at all.

        Single items that cannot be used (an edit whose text is not found, a constant that does not exist) are
        left out.
        """
        reply = parse_reply(text, ExplorationReply)
        code = Source.parse(request.parent.program, request.task.function)
        patches = list(_edited(request.parent.program, reply.patches[:_MOST_ITEMS]))
        if code is not None:
            patches += _suggested(code, reply.suggestions[:_MOST_ITEMS])
        return ExplorationAdvice(
            one_line(reply.critique, CRITIQUE_CHARS),
            admit_patches(request, patches, self.settings.patch_bound),
        )

    def neutral(self, request: ExplorationRequest) -> ExplorationAdvice:
        return ExplorationAdvice()


def _opening(request: ExplorationRequest) -> str:
    opening, program = request.opening, request.parent.program
    if opening is None:
        return "Any line of the program may be changed."
    first = program.count("\n", 0, opening.start) + 1
    # A rewritten function's rest begins at a line's end, that is with the next line.
    first += program.startswith("\n", opening.start)
    last = max(first, program.count("\n", 0, opening.end) + 1)
    where = f"line {first}" if first == last else f"lines {first} to {last}"
    stays = (
        " What stands left of the change stays, and so does the number of lines." if opening.one_line else ""
    )
    return (
        f"You teach the agent: it was asked to rewrite {where} of the program and to change nothing else. Patches "
        f"that change anything else are discarded.{stays}"
    )


def _edited(program: str, patches: list[PatchReply]) -> Iterator[Patch]:
    for patch in patches:
        edited = program
        for edit in patch.edits[:_MOST_ITEMS]:
            if not edit.find.strip() or edited.count(edit.find) != 1:
                break
            edited = edited.replace(edit.find, edit.replace)
        else:
            yield Patch(edited, "edit")


def _suggested(code: Source, replies: list[SuggestionReply]) -> Iterator[Patch]:
    """The program with all of the suggested values, bounded, if there are several, and with each."""
    named = {constant.name: constant for constant in constants(code) if constant.named}
    splices = []
    for reply in replies:
        constant = named.get(reply.name)
        value = bounded_value(constant.value, reply.value) if constant else None
        if constant is not None and value is not None:
            splices.append(code.replace(constant.node, repr(value)))
    together = [tuple(splices)] if len(splices) > 1 else []
    for edits in (*together, *((splice,) for splice in splices)):
        program = code.apply(edits)
        if program is not None:
            yield Patch(program, "suggestion")
