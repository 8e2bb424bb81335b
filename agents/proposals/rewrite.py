"""Style ``rewrite``: the model writes the whole function.

Instruct models get the task and the parent as a chat message, and the beginning of the answer (a code fence
and the function's signature), so that what follows can only be the function's body. Base models get the
versions so far and continue them. Models of a billion parameters and more want this style; much smaller ones
hardly ever get it right.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from agents.population.candidate import CandidateRecord, Proposal
from agents.proposals.source import Source
from agents.proposals.style import EditSite, Showing, Style, versions
from atlas_gym.envs.episode import code_block
from atlas_gym.tasks.program_task import ProgramTask

WHOLE = "Write a better program. Reply with only the new program in a ```python block."

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

    spec: ProgramTask
    """The task."""
    chat: Chat | None = None
    """Chat template; None for a base model."""

    name = "rewrite"

    def sites(self, program: str) -> list[EditSite]:
        """The whole function."""
        source = Source.by_lines(program, self.spec.function)
        return [] if source is None else [EditSite("whole function", source.first, 0)]

    def propose(self, parent: CandidateRecord, site: EditSite, showing: Showing) -> Proposal:
        """Prompt: a chat message and the answer's beginning, or the versions so far and ``f_v2``'s
        signature."""
        source = Source.of(parent.program, self.spec.function)
        head = "".join(f"{part}\n\n\n" for part in [source.before] if part) + self.spec.signature
        if self.chat is None:
            signature = self.spec.signature.replace(self.spec.function, f"{self.spec.function}_v2", 1)
            prompt = versions(source, showing) + signature
        else:
            prompt = self.chat(task_message(self.spec, parent, showing, WHOLE)) + f"```python\n{head}"
        return self.asked(
            parent,
            site,
            prompt=prompt,
            avoid=None,
            stop="function",
            head=head,
            tail="\n",
        )


def task_message(spec: ProgramTask, parent: CandidateRecord, showing: Showing, request: str) -> str:
    """A chat message: the task, what is known, a worse program, the parent, and what is asked for."""
    parts = [spec.description]
    if showing.notes:
        parts.append("\n".join(f"- {' '.join(note.split())}" for note in showing.notes))
    if showing.worse is not None:
        parts.append(_scored(showing.worse))
    return "\n\n".join([*parts, _scored(parent), request])


def _scored(record: CandidateRecord) -> str:
    score = "" if record.score is None else f" (score {record.score:.4f})"
    return f"A program{score}:\n{code_block(record.program)}"
