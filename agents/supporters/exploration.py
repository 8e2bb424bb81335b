"""The exploration supporter: reads one of the agent's programs and says what to try next.

Its advice has two parts: a critique (text that goes into the agent's next prompt), and patches (new candidate
programs). Both forms, rules and language model, end in :func:`admit_patches`: a patch parses, defines the entry
function, differs from everything tried and is a bounded edit of the agent's program. Where a patch is another value for
a constant, that is bounded to a factor of the value that stands in the program.

Where it *teaches*, the request names the edit site of one of the agent's prompts; patches that keep to it are answers
to that prompt.

The rules are a list over the syntax tree (`expression_rules`, `program_rules`); recent failures and the environment's
measurements raise the priority of those that answer them. The same request under the same seed gives the same advice.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence, Set
from dataclasses import dataclass, replace

from pydantic import Field

from atlas_gym.agents.population.candidate import Candidate
from atlas_gym.agents.proposals.constants import constants
from atlas_gym.agents.proposals.source import Source
from atlas_gym.agents.proposals.style import EditSite
from atlas_gym.agents.supporters.consult import Supporter, SupporterRequest
from atlas_gym.agents.supporters.expression_rules import ANYWHERE, AT_A_SITE, findings
from atlas_gym.agents.supporters.messages import Data, Reply
from atlas_gym.agents.supporters.program_rules import Case, Finding, Fix, bounded_value
from atlas_gym.program_text import program_key, syntax_error
from atlas_gym.seeding import stream
from atlas_gym.tasks.program_task import ProgramTask
from atlas_gym.text import is_plain, one_line

CRITIQUE_CHARS = 800
"""Longest critique, characters."""

FAILURES_TOLD = 3
"""Failures that the supporter is told, at most."""

LONGEST_PROGRAM = 20_000
"""Programs above this many characters are left alone by rules."""

_MOST_ITEMS = 8
"""Suggestions and patches of one reply that are looked at."""

_LINES, _SHARE, _CHARACTERS = 6, 0.5, 400
"""How far a patch may lie from the program it patches, since a supporter perturbs what the agent wrote and hands in no
program of its own: lines inserted, deleted or replaced (edit distance over lines), at most and as a share of the
parent's non-empty lines, and the total length of the lines that the parent does not have."""

_CRITIQUE_SENTENCES = 4

_COMBINED = 0.3
"""Probability that a patch makes two of the rules' changes at once."""

_PASSES = 20
"""How often the rules are asked about a site before there are enough patches: each time they draw other values."""

_A_PASS = 3
"""Changes that are made in one pass, so that several values of a likely one can be drawn."""


@dataclass(frozen=True)
class ExplorationRequest(SupporterRequest):
    """What the exploration supporter is told. All of the programs' records may be text that a candidate wrote."""

    task: ProgramTask
    """What programs are for: in words, with the traits and hints that its author declares."""
    parent: Candidate
    """The agent's program that is to be criticised and patched, and what came of it."""
    failures: Sequence[Candidate] = ()
    """Recent failures of the same island or prompt, newest last."""
    tried: Set[str] = frozenset()
    """Program keys that need not be proposed again; may be many, so only asked whether it has one."""
    max_patches: int = 3
    """Patches wanted at most."""
    site: EditSite | None = None
    """The only place that patches may change: the edit site of one of the agent's prompts, so that each patch is an
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


class EditReply(Reply):
    """Replacement of one stretch of the program."""

    find: str = Field(
        description="text that stands exactly once in the program", json_schema_extra={"maxLength": 200}
    )
    replace: str = Field(description="text that takes its place", json_schema_extra={"maxLength": 300})


class PatchReply(Reply):
    """One new candidate, as edits of the program."""

    edits: list[EditReply] = Field(json_schema_extra={"maxItems": 3})
    reason: str = Field("", json_schema_extra={"maxLength": 160})


class SuggestionReply(Reply):
    """Another value for a constant of the program."""

    name: str = Field(description="variable that holds the constant", json_schema_extra={"maxLength": 40})
    value: float
    reason: str = Field("", json_schema_extra={"maxLength": 160})


class ExplorationReply(Reply):
    """The exploration supporter's reply."""

    critique: str = Field(json_schema_extra={"maxLength": 400})
    suggestions: list[SuggestionReply] = Field(default_factory=list, json_schema_extra={"maxItems": 3})
    patches: list[PatchReply] = Field(default_factory=list, json_schema_extra={"maxItems": 3})


class ExplorationSupporter(Supporter[ExplorationRequest, ExplorationAdvice, ExplorationReply]):
    """Advises on one program."""

    role = "exploration"
    reply = ExplorationReply

    def advise(self, request: ExplorationRequest) -> tuple[ExplorationAdvice, str]:
        parent = request.parent
        code = None
        if len(parent.program) <= LONGEST_PROGRAM:
            code = Source.parse(parent.program, request.task.function)
        if code is None:
            return ExplorationAdvice(), "the program does not parse, lacks the entry function or is too long"
        rng = stream(self.seed, "supporter", "exploration", *request.key)
        case = Case(
            code, request.task.traits, parent.metrics, request.failures, rng, self.settings.wider_rules
        )
        if request.site is not None:
            return ExplorationAdvice(patches=admit_patches(request, _at_site(case, request.site))), ""
        found = findings(case, ANYWHERE)
        order = _draw_order(case, [(finding, fix) for finding in found for fix in finding.fixes])
        patches = admit_patches(request, _patches(case, order))
        ranked = sorted(found, key=lambda finding: -finding.priority)
        sentences = list(dict.fromkeys(finding.message for finding in ranked))[:_CRITIQUE_SENTENCES]
        if request.failures:
            counts = Counter(failure.status for failure in request.failures).most_common()
            listed = ", ".join(f"{count} {status}" for status, count in counts)
            sentences.insert(0, f"Recent failures: {listed}.")
        return ExplorationAdvice(one_line(" ".join(sentences), CRITIQUE_CHARS), patches), ""

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
            "site": _told_site(request),
            "max_patches": str(request.max_patches),
            "max_lines": str(allowed_lines(parent.program)),
        }

    def bounded(self, request: ExplorationRequest, reply: ExplorationReply) -> ExplorationAdvice:
        """Items that cannot be used (an edit whose text is not found, a constant that does not exist) are left out."""
        code = Source.parse(request.parent.program, request.task.function)
        patches = list(_edited(request.parent.program, reply.patches[:_MOST_ITEMS]))
        if code is not None:
            patches += _suggested(code, reply.suggestions[:_MOST_ITEMS])
        return ExplorationAdvice(
            one_line(reply.critique, CRITIQUE_CHARS),
            admit_patches(request, patches),
        )

    def neutral(self, request: ExplorationRequest) -> ExplorationAdvice:
        return ExplorationAdvice()


def _told_site(request: ExplorationRequest) -> str:
    site, program = request.site, request.parent.program
    if site is None:
        return "Any line of the program may be changed."
    first = program.count("\n", 0, site.start) + 1
    # A rewritten function's rest begins at a line's end, that is with the next line.
    first += program.startswith("\n", site.start)
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


def _at_site(case: Case, site: EditSite) -> Iterator[Patch]:
    """The rules' changes of nothing but the site, pass after pass with other values."""
    for _ in range(_PASSES):
        options = [
            (finding, fix)
            for finding in findings(case, AT_A_SITE)
            for fix in finding.fixes
            if all(site.start <= splice.start and splice.end <= site.end for splice in fix)
        ]
        yield from _patches(case, _draw_order(case, options)[:_A_PASS])


def _draw_order(case: Case, options: list[tuple[Finding, Fix]]) -> list[tuple[Finding, Fix]]:
    """The options in random order, weighted by priority, without replacement (Efraimidis and Spirakis)."""
    keys = [case.rng.exponential() * len(finding.fixes) / finding.priority for finding, _ in options]
    return [option for _, option in sorted(zip(keys, options, strict=True), key=lambda pair: pair[0])]


def _patches(case: Case, order: list[tuple[Finding, Fix]]) -> Iterator[Patch]:
    for index, (finding, fix) in enumerate(order):
        if index + 1 < len(order) and case.rng.random() < _COMBINED:
            other_finding, other = order[index + 1]
            program = case.code.apply((*fix, *other))
            if program is not None:
                yield Patch(program, f"{finding.kind}+{other_finding.kind}")
        program = case.code.apply(fix)
        if program is not None:
            yield Patch(program, finding.kind)


def admit_patches(request: ExplorationRequest, proposed: Iterable[Patch]) -> tuple[Patch, ...]:
    """Those that are new, runnable and bounded edits of the agent's program, in order, at most as many
    as asked for."""
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
    """Whether ``child`` lies near enough to ``parent`` to be its patch."""
    limit = allowed_lines(parent)
    extra = Counter(child.splitlines()) - Counter(parent.splitlines())
    new_characters = sum(len(line) * count for line, count in extra.items())
    return new_characters <= _CHARACTERS and line_distance(parent, child, limit) <= limit


def line_distance(parent: str, child: str, limit: int) -> int:
    """Least number of lines to insert, delete or replace to get from one text to the other.

    Anything above ``limit`` is reported as ``limit + 1``; the cost is O(lines × limit), so long hostile texts
    are cheap (E. Ukkonen, Algorithms for approximate string matching, 1985).
    """
    old, new = parent.splitlines(), child.splitlines()
    # By how many lines of `new` are dealt with beyond those of `old`: the most lines of `old` that can be.
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
