"""Styles for models that answer messages: ``rewrite`` asks for a whole program, ``diff`` for blocks that change it.

Both show the task and the parent with its score, and either may change anything in the program. What an answer makes
is `agents.engines.answers`. A diff is a fraction of a long program's tokens and leaves the rest alone; a short
program is as well written anew.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from agents.engines.engine import Stop
from agents.population.candidate import CandidateRecord, Proposal
from agents.proposals.rewrite import WHOLE, task_message
from agents.proposals.style import EditSite, Showing, Style
from atlas_gym.tasks.program_task import ProgramTask

_BLOCKS = """Improve this last program by a few changes. Reply with one or several blocks of this form:

<<<<<<< SEARCH
lines of the program, exactly as they stand there, enough of them to stand there once
=======
lines that take their place
>>>>>>> REPLACE"""

_ASKED: dict[str, tuple[Stop, str]] = {"rewrite": ("program", WHOLE), "diff": ("diff", _BLOCKS)}


@dataclass(frozen=True)
class MessageStyle(Style):
    """Asks an instruct model in one message."""

    spec: ProgramTask
    """The task."""
    name: Literal["rewrite", "diff"]
    """What is asked for."""

    def sites(self, program: str) -> list[EditSite]:
        """The whole program."""
        return [EditSite("whole program", 0, 0)]

    def propose(self, parent: CandidateRecord, site: EditSite, showing: Showing) -> Proposal:
        """Prompt: one message of the user."""
        stop, request = _ASKED[self.name]
        prompt = task_message(self.spec, parent, showing, request)
        return self.asked(parent, site, prompt, stop, head=parent.program if stop == "diff" else "")
