"""From a program back to the completion: what the agent would have had to write to make it.

A supporter changes whole programs, the agent answers prompts. Where a supporter's program differs from the parent only
at the place that a prompt leaves open, it *is* an answer to that prompt, and can teach the agent.
"""

from collections.abc import Callable

from atlas_gym.agents.population.candidate import Proposal
from atlas_gym.agents.proposals.style import EditSite
from atlas_gym.program_text import program_key


def site_of(proposal: Proposal, program: str) -> EditSite | None:
    """The edit site of a prompt in a program that has the rest of its text.

    None if the program has not, or if the prompt asks for neither a line nor a function.
    """
    if proposal.stop not in ("line", "function") or not proposal.prompt:
        return None
    end = len(program) - len(proposal.suffix)
    start = len(proposal.prefix)
    if not program.startswith(proposal.prefix):  # a rewritten function's head has blank lines of its own
        signature = proposal.prefix.rpartition("\n")[2]
        if proposal.style != "rewrite" or signature not in program:
            return None
        start = program.rfind(signature) + len(signature)
    if start > end or not program.endswith(proposal.suffix):
        return None
    return EditSite(proposal.site, start, end, proposal.stop)


def completion_of(proposal: Proposal, program: str) -> str | None:
    """The completion of the proposal's prompt that makes this program up to comments and layout; None if none does."""
    site, key = site_of(proposal, program), program_key(program)
    if site is None or key is None:
        return None
    text = program[site.start : site.end]

    def makes_it(text: str) -> bool:
        return program_key(proposal.assemble(text.rstrip() + "\n")) == key

    if site.stop == "line":
        text = _without_comments(text, makes_it)
    return text.rstrip() + "\n" if makes_it(text) else None


def _without_comments(text: str, serves: Callable[[str], bool]) -> str:
    """The lines without their comments; where a `#` stands in a string, a shorter text does not serve."""
    lines = text.split("\n")
    for place, line in enumerate(lines):
        for end in (i for i, character in enumerate(line) if character == "#"):
            shorter = "\n".join([*lines[:place], line[:end].rstrip(), *lines[place + 1 :]])
            if serves(shorter):
                lines = shorter.split("\n")
                break
    return "\n".join(lines)
