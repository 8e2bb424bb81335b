"""Styles that ask for a whole program, or for changes anywhere in one: ``rewrite`` and ``diff``.

With ``rewrite`` the model writes the whole function. Instruct models get the task and the parent as a chat message, and
the beginning of the answer (a code fence and the function's signature), so that what follows can only be the function's
body. Base models get the versions so far and continue them. Models of a billion parameters and more want this style;
much smaller ones hardly ever get it right.

Models that only answer messages (`MessageStyle`) write a whole program, or blocks that change it (``diff``). What an
answer makes is `agents.engines.answers`. A diff is a fraction of a long program's tokens and leaves the rest alone; a
short program is as well written anew.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

from atlas_gym.agents.engines.engine import Stop
from atlas_gym.agents.population.candidate import Candidate, Proposal
from atlas_gym.agents.proposals.source import Source
from atlas_gym.agents.proposals.style import EditSite, Showing, Style, failure, versions
from atlas_gym.envs.episode import code_block
from atlas_gym.tasks.program_task import ProgramTask
from atlas_gym.text import one_line

_WHOLE = "Write a better program. Reply with only the new program in a ```python block."

_BLOCKS = """Improve this last program by a few changes. Reply with one or several blocks of this form:

<<<<<<< SEARCH
lines of the program, exactly as they stand there, enough of them to stand there once
=======
lines that take their place
>>>>>>> REPLACE"""

_ASKED: dict[str, tuple[Stop, str]] = {"rewrite": ("program", _WHOLE), "diff": ("diff", _BLOCKS)}

Chat = Callable[[str], str]
"""Turns a user's message into the prompt of a chat model, up to where its answer begins."""


def chat_of(tokenizer: Any) -> Chat | None:
    """The tokenizer's chat template as a function, None if it has none (a base model) or is not known."""
    if tokenizer is None or not tokenizer.chat_template:
        return None

    def apply(message: str) -> str:
        turns = [{"role": "user", "content": message}]
        return str(tokenizer.apply_chat_template(turns, add_generation_prompt=True, tokenize=False))

    return apply


@dataclass(frozen=True)
class Rewrite(Style):
    """Asks for a whole new function."""

    spec: ProgramTask  # the task
    chat: Chat | None = None  # chat template; None for a base model

    name = "rewrite"

    def sites(self, program: str) -> list[EditSite]:
        """The whole function."""
        source = Source.by_lines(program, self.spec.function)
        if source is None:
            return []
        return [EditSite("whole function", *source.place(source.function), stop="function")]

    def propose(self, parent: Candidate, site: EditSite, showing: Showing) -> Proposal:
        """Prompt: a chat message and the answer's beginning, or the versions so far and ``f_v2``'s
        signature."""
        source = Source.of(parent.program, self.spec.function)
        head = "".join(f"{part}\n\n\n" for part in [source.before] if part) + self.spec.signature
        if self.chat is None:
            name, signature = self.spec.function, self.spec.signature
            prompt = versions(source, showing) + re.sub(rf"\b{name}\b", f"{name}_v2", signature, count=1)
        else:
            prompt = self.chat(_task_message(self.spec, parent, showing, _WHOLE)) + f"```python\n{head}"
        return self.asked(parent, site, prompt, head, source.after)


@dataclass(frozen=True)
class MessageStyle(Style):
    """Asks an instruct model in one message."""

    spec: ProgramTask  # the task
    name: Literal["rewrite", "diff"]  # what is asked for

    def sites(self, program: str) -> list[EditSite]:
        """The whole program."""
        return [EditSite("whole program", 0, len(program), _ASKED[self.name][0])]

    def propose(self, parent: Candidate, site: EditSite, showing: Showing) -> Proposal:
        """Prompt: one message of the user."""
        prompt = _task_message(self.spec, parent, showing, _ASKED[self.name][1])
        return self.asked(parent, site, prompt, prefix=parent.program if site.stop == "diff" else "")


def _task_message(spec: ProgramTask, parent: Candidate, showing: Showing, request: str) -> str:
    """A chat message: the task, what is known and what failed, a worse program, the parent with what the environment
    and the supporter say of it, and what is asked for."""
    told = [*showing.notes, *map(failure, showing.failures[-2:])]
    parts = [spec.description, "\n".join(f"- {one_line(note, 500)}" for note in told)]
    if showing.worse is not None:
        parts.append(_scored(showing.worse))
    parts.append(_scored(parent))
    parts += [
        f"What is said of it: {one_line(text, 1_000)}"
        for text in (parent.diagnosis, showing.critique)
        if text
    ]
    return "\n\n".join(filter(None, [*parts, request]))


def _scored(record: Candidate) -> str:
    score = "" if record.score is None else f" (score {record.score:.4f})"
    return f"A program{score}:\n{code_block(record.program)}"
