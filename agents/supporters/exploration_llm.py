"""The exploration supporter as a language model behind an OpenAI-compatible endpoint."""

from collections.abc import Iterator

from agents.proposals.constants import constants
from agents.proposals.source import Source
from agents.supporters.conversation import LLMSupporter
from agents.supporters.exploration import (
    CRITIQUE_CHARS,
    ExplorationAdvice,
    ExplorationRequest,
    Patch,
    admit_patches,
    bounded_value,
)
from agents.supporters.prompts import Data
from agents.supporters.replies import ExplorationReply, PatchReply, SuggestionReply, parse_reply
from atlas_gym.text import one_line

_MOST_ITEMS = 8
"""Suggestions and patches of one reply that are looked at."""


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
    # Where it begins at a line's end, it begins with the next line.
    first += program.startswith("\n", opening.start)
    last = max(first, program.count("\n", 0, opening.end) + 1)
    where = f"line {first}" if first == last else f"lines {first} to {last}"
    asked = f"add a new line {first} to" if opening.begins else f"rewrite {where} of"
    begins_a_line = opening.breaks is None or opening.begins
    stays = "" if begins_a_line else " What stands left of the change stays, and so does the number of lines."
    return (
        f"You teach the agent: it was asked to {asked} the program and to change nothing else. Patches that change "
        f"anything else are discarded.{stays}"
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
