"""The exploration supporter: critique, which goes into the agent's next prompt, and patches, which are new candidates.

Both forms, rules and language model, end in `admit_patches`: a patch parses, defines the entry function, differs from
everything tried and is a bounded edit of the agent's program. Where it *teaches*, the request names the edit site of
one of the agent's prompts; patches that keep to it are answers to that prompt. The rules read the syntax tree
(`expression_rules`, `program_rules`). The same request under the same seed gives the same advice.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence, Set
from dataclasses import dataclass, replace
from itertools import chain
from typing import Any

from pydantic import Field

from atlas_gym.agents.population.candidate import Candidate
from atlas_gym.agents.proposals.constants import constants
from atlas_gym.agents.proposals.source import Source
from atlas_gym.agents.proposals.style import EditSite
from atlas_gym.agents.supporters.consult import Supporter, SupporterRequest
from atlas_gym.agents.supporters.expression_rules import ANYWHERE, AT_A_SITE, findings
from atlas_gym.agents.supporters.messages import Reply, delimited
from atlas_gym.agents.supporters.program_rules import Case, Finding, bounded_value
from atlas_gym.program_text import program_key, syntax_error
from atlas_gym.seeding import stream
from atlas_gym.tasks.program_task import ProgramTask
from atlas_gym.text import is_plain, one_line

CRITIQUE_CHARS = 800
"""Longest critique, characters."""

FAILURES_TOLD = 3
"""Failures in a request, at most."""

LONGEST_PROGRAM = 20_000
"""Programs above this many characters are left alone by rules."""

_MOST_ITEMS = 8
"""Suggestions and patches of one reply that are looked at."""

_LINES, _SHARE, _CHARACTERS = 6, 0.5, 400
"""Bounds of a patch, since a supporter perturbs and hands in no program of its own: lines inserted, deleted or replaced
(edit distance over lines), at most and as a share of the parent's non-empty lines; total length of new lines."""

_CRITIQUE_SENTENCES = 4

_COMBINED = 0.3
"""Probability that a patch makes two of the rules' changes at once."""

_PASSES, _A_PASS = 20, 3
"""At a site: passes over the rules, at most, each with other values, and changes that are made in one pass."""


@dataclass(frozen=True)
class ExplorationRequest(SupporterRequest):
    """Request for advice on one program. Any text of the records may have been written by a candidate."""

    task: ProgramTask  # task of the programs, with the traits and hints that its author declares
    parent: Candidate  # the agent's program to be criticised and patched, evaluated
    failures: Sequence[Candidate] = ()  # recent failures of the same island or prompt, newest last
    # program keys that need not be proposed again; may be many, so only asked for membership
    tried: Set[str] = frozenset()
    max_patches: int = 3  # patches wanted at most
    # the only place that patches may change, so that each is an answer to the prompt of that site; None: any place
    site: EditSite | None = None


@dataclass(frozen=True)
class Patch:
    """A candidate program, a bounded edit of the agent's."""

    program: str  # complete program text
    kind: str  # what was changed: the rule's name, or ``edit`` or ``suggestion`` for a language model
    program_key: str = ""  # hash of its normalised syntax tree; empty before it is admitted


@dataclass(frozen=True)
class ExplorationAdvice:
    """Critique and patches; empty if neutral."""

    critique: str = ""  # a few plain sentences for the agent's next prompt
    patches: tuple[Patch, ...] = ()  # new candidate programs

    def summary(self) -> str:
        patches = "; ".join(f"{p.kind} {p.program_key[:12]}" for p in self.patches)
        return f"patches: {patches or 'none'} | critique: {self.critique}"


def _hint(longest: int, **more: Any) -> Any:
    return Field(json_schema_extra={"maxLength": longest}, **more)


class EditReply(Reply):
    """Replacement of one stretch of the program."""

    find: str = _hint(200, description="text that stands exactly once in the program")
    replace: str = _hint(300, description="text that takes its place")


class PatchReply(Reply):
    """One new candidate, as edits of the program."""

    edits: list[EditReply] = Field(json_schema_extra={"maxItems": 3})
    reason: str = _hint(160, default="")


class SuggestionReply(Reply):
    """Another value for a constant of the program."""

    name: str = _hint(40, description="variable that holds the constant")
    value: float
    reason: str = _hint(160, default="")


class ExplorationReply(Reply):
    """The exploration supporter's reply."""

    critique: str = _hint(400)
    suggestions: list[SuggestionReply] = Field(default_factory=list, json_schema_extra={"maxItems": 3})
    patches: list[PatchReply] = Field(default_factory=list, json_schema_extra={"maxItems": 3})


class ExplorationSupporter(Supporter[ExplorationRequest, ExplorationAdvice, ExplorationReply]):
    """Advises on one program."""

    role = "exploration"
    reply = ExplorationReply

    def advise(self, request: ExplorationRequest) -> tuple[ExplorationAdvice, str]:
        parent, task, site = request.parent, request.task, request.site
        code = Source.parse(parent.program, task.function) if len(parent.program) <= LONGEST_PROGRAM else None
        if code is None:
            return ExplorationAdvice(), "the program does not parse, lacks the entry function or is too long"
        rng = stream(self.seed, "supporter", "exploration", *request.key)
        case = Case(code, task.traits, parent.metrics, request.failures, rng, self.settings.wider_rules)
        if site is not None:
            passes = (_patches(case, findings(case, AT_A_SITE), site) for _ in range(_PASSES))
            return ExplorationAdvice(patches=admit_patches(request, chain.from_iterable(passes))), ""
        found = findings(case, ANYWHERE)
        patches = admit_patches(request, _patches(case, found))
        ranked = sorted(found, key=lambda finding: -finding.priority)
        sentences = list(dict.fromkeys(finding.message for finding in ranked))[:_CRITIQUE_SENTENCES]
        if request.failures:
            counts = Counter(failure.status for failure in request.failures).most_common()
            listed = ", ".join(f"{count} {status}" for status, count in counts)
            sentences.insert(0, f"Recent failures: {listed}.")
        return ExplorationAdvice(one_line(" ".join(sentences), CRITIQUE_CHARS), patches), ""

    def values(self, request: ExplorationRequest) -> dict[str, str]:
        task, parent = request.task, request.parent
        failures = "\n".join(
            f"- {failed.status}: {one_line(failed.detail, 300)} {one_line(failed.completion.strip(), 200)}".rstrip()
            for failed in request.failures
        )
        metrics = "\n".join(f"- {name}: {value:.6g}" for name, value in list(parent.metrics.items())[:20])
        return {
            "function": task.function,
            "description": delimited(task.description, 3_000),
            "hints": "".join(f"- {hint}\n" for hint in task.hints) or "(its author says nothing of it)\n",
            "program": delimited(parent.program, 12_000),
            "score": "none: it failed" if parent.score is None else f"{parent.score:.6g}",
            "diagnosis": delimited(parent.diagnosis, 1_000),
            "metrics": delimited(metrics, 1_500),
            "failures": delimited(failures, 2_500),
            "site": _told_site(request.site, parent.program),
            "max_patches": str(request.max_patches),
            "max_lines": str(allowed_lines(parent.program)),
        }

    def bounded(self, request: ExplorationRequest, reply: ExplorationReply) -> ExplorationAdvice:
        """Items that cannot be used (an edit whose text is not found, a constant that does not exist) are left out.

        Several usable suggestions make a patch together, then each by itself.
        """
        parent = request.parent.program
        programs = []
        for patch in reply.patches[:_MOST_ITEMS]:
            edited = parent
            for edit in patch.edits[:_MOST_ITEMS]:
                if not edit.find.strip() or edited.count(edit.find) != 1:
                    break
                edited = edited.replace(edit.find, edit.replace)
            else:
                programs.append(Patch(edited, "edit"))
        code = Source.parse(parent, request.task.function)
        if code is not None:
            named = {constant.name: constant for constant in constants(code) if constant.named}
            splices = []
            for suggestion in reply.suggestions[:_MOST_ITEMS]:
                constant = named.get(suggestion.name)
                value = bounded_value(constant.value, suggestion.value) if constant else None
                if constant is not None and value is not None:
                    splices.append(code.replace(constant.node, repr(value)))
            together = [tuple(splices)] if len(splices) > 1 else []
            made = (code.apply(fix) for fix in (*together, *((splice,) for splice in splices)))
            programs += [Patch(program, "suggestion") for program in made if program is not None]
        return ExplorationAdvice(one_line(reply.critique, CRITIQUE_CHARS), admit_patches(request, programs))

    def neutral(self, request: ExplorationRequest) -> ExplorationAdvice:
        return ExplorationAdvice()


def _told_site(site: EditSite | None, program: str) -> str:
    if site is None:
        return "Any line of the program may be changed."
    # A rewritten function's rest begins at a line's end, that is with the next line.
    first = program.count("\n", 0, site.start) + 1 + program.startswith("\n", site.start)
    last = max(first, program.count("\n", 0, site.end) + 1)
    where = f"line {first}" if first == last else f"lines {first} to {last}"
    stays = (
        " What stands left of the change stays, and so does the number of lines."
        if site.stop == "line"
        else ""
    )
    return (
        f"You teach the agent: it was asked to rewrite {where} of the program and to change nothing else. Patches "
        f"that change anything else are discarded.{stays}"
    )


def _patches(case: Case, found: Sequence[Finding], site: EditSite | None = None) -> Iterator[Patch]:
    """Patches from the fixes of findings, likely ones first; at a site a few of those that change nothing else."""
    options = [
        (finding, fix)
        for finding in found
        for fix in finding.fixes
        if site is None or all(site.start <= splice.start and splice.end <= site.end for splice in fix)
    ]
    # Drawn by priority without replacement (Efraimidis and Spirakis, 2006).
    keys = [case.rng.exponential() * len(finding.fixes) / finding.priority for finding, _ in options]
    order = [option for _, option in sorted(zip(keys, options, strict=True), key=lambda pair: pair[0])]
    order = order if site is None else order[:_A_PASS]
    for index, (finding, fix) in enumerate(order):
        tried = [(finding.kind, fix)]
        if index + 1 < len(order) and case.rng.random() < _COMBINED:
            other, further = order[index + 1]
            tried.insert(0, (f"{finding.kind}+{other.kind}", (*fix, *further)))
        for kind, edits in tried:
            program = case.code.apply(edits)
            if program is not None:
                yield Patch(program, kind)


def admit_patches(request: ExplorationRequest, proposed: Iterable[Patch]) -> tuple[Patch, ...]:
    """The patches that are new, runnable and bounded edits of the agent's program, as many as asked for, in order."""
    parent, site = request.parent.program, request.site
    seen = {program_key(parent)}
    admitted: list[Patch] = []
    for patch in proposed:
        if len(admitted) >= request.max_patches:
            break
        program = patch.program
        if (
            (site is not None and not site.holds(parent, program))
            or not (is_plain(program) and is_near(parent, program))
            or syntax_error(program, request.task.function) is not None
        ):
            continue
        key = program_key(program)
        if key is not None and key not in seen and key not in request.tried:
            seen.add(key)
            admitted.append(replace(patch, program_key=key))
    return tuple(admitted)


def allowed_lines(parent: str) -> int:
    """Lines of a program that a patch may change."""
    return max(1, min(_LINES, int(_SHARE * sum(bool(line.strip()) for line in parent.splitlines()))))


def is_near(parent: str, child: str) -> bool:
    """True if ``child`` is within the bounds of a patch of ``parent``."""
    limit = allowed_lines(parent)
    extra = Counter(child.splitlines()) - Counter(parent.splitlines())
    new_characters = sum(len(line) * count for line, count in extra.items())
    return new_characters <= _CHARACTERS and line_distance(parent, child, limit) <= limit


def line_distance(parent: str, child: str, limit: int) -> int:
    """Edit distance over lines, at most ``limit + 1``, in O(lines × limit) (Ukkonen, Algorithms for approximate string
    matching, 1985), so that long hostile texts are cheap."""
    old, new = parent.splitlines(), child.splitlines()
    # By surplus, lines of `new` beyond those of `old` that are dealt with: the most lines of `old` that can be.
    reached = {0: 0}
    for distance in range(limit + 1):
        following: dict[int, int] = {}
        for surplus, line in reached.items():
            while line < len(old) and line + surplus < len(new) and old[line] == new[line + surplus]:
                line += 1
            if line == len(old) and line + surplus == len(new):
                return distance
            # The next line is replaced, deleted, or inserted.
            for other, after in ((surplus, line + 1), (surplus - 1, line + 1), (surplus + 1, line)):
                if after <= len(old) and after + other <= len(new):
                    following[other] = max(after, following.get(other, 0))
        reached = following
    return limit + 1
