"""From a program back to the completion: what the agent would have had to write to make it.

A supporter changes whole programs, the agent answers prompts. Where a supporter's program differs from the parent only
at the place that a prompt leaves open, it *is* an answer to that prompt, and can teach the agent.
"""

from __future__ import annotations

from dataclasses import dataclass

from agents.population.candidate import Proposal
from atlas_gym.program_text import program_key


@dataclass(frozen=True)
class Opening:
    """The stretch of a program that a prompt leaves open."""

    start: int
    """First character that may change."""
    end: int
    """Character behind the last one."""
    one_line: bool
    """Whether what stands there must stay one line."""

    def holds(self, parent: str, child: str) -> bool:
        """Whether `child` is `parent` with another text at this place."""
        before, after = parent[: self.start], parent[self.end :]
        if len(child) < len(before) + len(after) or not (child.startswith(before) and child.endswith(after)):
            return False
        return not self.one_line or "\n" not in child[self.start : len(child) - len(after)]


def opening_of(proposal: Proposal, program: str) -> Opening | None:
    """What a prompt leaves open in a program that has the rest of its text.

    None if the program has not, or if the prompt asks for neither a line nor a function.
    """
    if proposal.stop not in ("line", "function") or not proposal.prompt:
        return None
    end = len(program) - len(proposal.tail)
    start = len(proposal.head)
    if not program.startswith(proposal.head):  # a rewritten function's head has blank lines of its own
        signature = proposal.head.rpartition("\n")[2]
        start = program.rfind(signature) + len(signature) if proposal.style == "rewrite" else -1
    if not 0 <= start <= end or not program.endswith(proposal.tail):
        return None
    return Opening(start, end, one_line=proposal.stop == "line")


def completion_of(proposal: Proposal, program: str) -> str | None:
    """The completion of the proposal's prompt that makes this program up to comments and layout; None if none does."""
    opening, key = opening_of(proposal, program), program_key(program)
    if opening is None or key is None:
        return None
    text = program[opening.start : opening.end]
    # A line is written without its comment; where a `#` stands in a string, a shorter text is another program.
    ends = [i for i, character in enumerate(text) if character == "#"] if opening.one_line else []
    for end in (*ends, len(text)):
        completion = text[:end].rstrip() + "\n"
        if program_key(proposal.assemble(completion)) == key:
            return completion
    return None
