"""What the proposal styles have in common.

A style finds the *edit sites* of a parent program, the places where it can be rewritten, and turns a parent and a
site into a *proposal*: a prompt for a language model, and the two pieces of program text between which the
completion goes. A proposal is plain data, so it can be stored, compared and assembled anywhere.

Prompts are program text that a base model would continue: a worse program ``f_v0``, the parent ``f_v1``, and
the beginning of ``f_v2``. They never end in a newline, which would break the tokens that usually span it.
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from atlas_gym.agents.engines.engine import Stop
from atlas_gym.agents.population.candidate import Candidate, Proposal
from atlas_gym.agents.proposals.source import Source
from atlas_gym.text import one_line

_LONGEST_NOTE = 160
"""Characters of a comment line in a prompt."""


@dataclass(frozen=True)
class EditSite:
    """A place in a program that a style can rewrite."""

    label: str  # name of the place, equal in all programs that have the same text before it (``window =``)
    start: int  # first character of the program that is rewritten
    end: int  # character behind the last one
    stop: Stop = "line"  # where a completion ends
    avoid: str | None = None  # what a completion must differ from: see :class:`agents.engines.engine.Request`

    def holds(self, parent: str, child: str) -> bool:
        """Whether `child` is `parent` with another text at this place, which on one line has no line break."""
        before, after = parent[: self.start], parent[self.end :]
        if len(child) < len(before) + len(after) or not (child.startswith(before) and child.endswith(after)):
            return False
        return self.stop != "line" or "\n" not in child[self.start : len(child) - len(after)]


@dataclass(frozen=True)
class Showing:
    """What a prompt shows besides the parent."""

    worse: Candidate | None = None  # a program with a lower score, shown before the parent
    notes: Sequence[str] = ()  # facts about the task and its arguments, a line each
    failures: Sequence[Candidate] = ()  # programs of the island that failed lately, the last one last
    critique: str = ""  # what the exploration supporter says of the parent
    score: float | None = None  # the parent's score, if prompts are to give scores
    variants: Sequence[tuple[float, str]] = ()
    """Scores and texts of this line in other programs, shown above it, worst first."""


class Style(ABC):
    """A way of asking for a new program."""

    name: str  # the style's name in settings and records

    @abstractmethod
    def sites(self, program: str) -> list[EditSite]:
        """Places of ``program`` that can be rewritten; none for text the style cannot handle."""

    @abstractmethod
    def propose(self, parent: Candidate, site: EditSite, showing: Showing) -> Proposal:
        """Ask for a new text at ``site``, one of ``sites(parent.program)``."""

    def write(self, proposal: Proposal, n: int, rng: np.random.Generator) -> tuple[str, ...] | None:
        """``n`` completions, if the style needs no model for them, else None."""
        return None

    def asked(
        self, parent: Candidate, site: EditSite, prompt: str, prefix: str = "", suffix: str = ""
    ) -> Proposal:
        """The proposal of this style for a parent's site; the other arguments are the proposal's fields."""
        return Proposal(
            prompt=prompt, stop=site.stop, avoid=site.avoid, prefix=prefix, suffix=suffix, style=self.name,
            site=site.label, parent_id=parent.id, parent_score=parent.score, parent_key=parent.program_key,
        )  # fmt: skip


@dataclass(frozen=True)
class PartStyle(Style):
    """A style that rewrites a part of the entry function."""

    function: str  # name of the entry function

    changes: ClassVar[str] = ""
    """What is asked for, as a prompt says it: what the new version does to the old one."""

    def sites(self, program: str) -> list[EditSite]:
        """Places of ``program``, in the order of the lines; none in one that does not define its function plainly."""
        source = Source.by_lines(program, self.function)
        return [] if source is None else self.places(source)

    @abstractmethod
    def places(self, source: Source) -> list[EditSite]:
        """The same for a parsed program."""

    def propose(self, parent: Candidate, site: EditSite, showing: Showing) -> Proposal:
        """Prompt: the versions so far, then ``f_v2`` up to the site."""
        source = Source.of(parent.program, self.function)
        prefix, suffix = source.program[: site.start], source.program[site.end :]
        return self.asked(parent, site, self.prompt(source, site, showing), prefix, suffix)

    def prompt(self, source: Source, site: EditSite, showing: Showing) -> str:
        """What the model continues at the site."""
        name = self.function
        *above, last = source.function_text(f"{name}_v2", site.start).split("\n")
        indent = last[: len(last) - len(last.lstrip())]
        variants = [f"{indent}# score {score:.3f}: {text.strip()}" for score, text in showing.variants]
        asked = f"# {name}_v2 {self.changes} {name}_v1\n" if self.changes else ""
        return versions(source, showing) + asked + "\n".join([*above, *variants, last])


def versions(source: Source, showing: Showing) -> str:
    """The prompt's common beginning: imports, notes, the worse program as ``f_v0``, the parent as
    ``f_v1``."""
    name = source.function.name
    parts = [source.before] if source.before else []
    told = [*showing.notes, *map(failure, showing.failures[-1:])]
    if told:
        parts.append("\n".join(f"# {one_line(note, _LONGEST_NOTE)}" for note in told))
    worse = None if showing.worse is None else Source.by_lines(showing.worse.program, name)
    if worse is not None and showing.worse is not None:
        parts.append(_scored(showing, showing.worse.score) + worse.function_text(f"{name}_v0"))
    parts.append(_scored(showing, showing.score) + source.function_text(f"{name}_v1"))
    return "".join(f"{part}\n\n\n" for part in parts)


def failure(record: Candidate) -> str:
    """A failed program's text at its edit site, if that is one line, and how it ended."""
    text = record.completion.strip()
    tried = f"{record.site} {text}" if text and "\n" not in text else record.style
    return f"failed: {tried}: {record.detail.strip().rpartition(chr(10))[2] or record.status}"


def _scored(showing: Showing, score: float | None) -> str:
    return "" if showing.score is None or score is None else f"# score {score:.4f}\n"
