"""Prompt templates: readable files, one per role, with the data put in where a ``$name`` stands.

A template is a Markdown file of two parts, the system message and the user message, each under its own marker
line. Programs, error texts and everything else that a candidate could have written is *data*: it is cleaned,
cut, and put between marker lines that carry a tag. The tag is a hash of the data itself, so no text can
contain the line that would end it. This keeps an honest model from confusing data with instructions; it is
not what safety rests on. Safety rests on the reply: whatever it says is validated and bounded, and it can
change nothing but that one consultation's advice.
"""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from importlib.resources import files
from pathlib import Path
from string import Template

from atlas_gym.agents.engines.endpoint import Message
from atlas_gym.text import clean

_SYSTEM, _USER = "--- system ---", "--- user ---"


@dataclass(frozen=True)
class Data:
    """Text of unknown origin for a template: delimited, cleaned and cut when it is put in."""

    text: str
    """The text."""
    limit: int = 4_000
    """Characters that are kept."""


def parse_template(text: str) -> tuple[Message, Message]:
    """The two messages of a file's text, with their placeholders; raises ValueError if a marker line is missing."""
    before, system_found, rest = text.partition(_SYSTEM)
    system, user_found, user = rest.partition(_USER)
    if not (system_found and user_found) or before.strip():
        raise ValueError(f"a prompt template has the lines {_SYSTEM!r} and {_USER!r}, in this order")
    return Message("system", system.strip()), Message("user", user.strip())


def fill(template: Sequence[Message], values: Mapping[str, str | Data]) -> tuple[Message, ...]:
    """The messages with their placeholders filled; raises KeyError for one without a value."""
    texts = {name: value if isinstance(value, str) else delimited(value) for name, value in values.items()}
    # One pass each: a `$name` within the data is not looked at again.
    return tuple(
        replace(message, content=Template(message.content).substitute(texts)) for message in template
    )


def delimited(data: Data) -> str:
    """The data between two lines that it cannot contain."""
    text = clean(data.text, data.limit).strip("\n") or "(nothing)"
    tag = hashlib.sha256(text.encode()).hexdigest()[:12]
    return f"<data {tag}>\n{text}\n</data {tag}>"


def role_template(role: str, own: str = "") -> tuple[Message, Message]:
    """The role's shipped template, or the one in a file of one's own.

    Raises OSError for a file that cannot be read, and ValueError for one that is no template, or whose placeholders
    cannot be filled: the shipped one has all that there are.
    """
    file = files("atlas_gym.agents.supporters").joinpath("prompts", f"{role}.md")
    shipped = parse_template(file.read_text(encoding="utf-8"))
    if not own:
        return shipped
    try:
        messages, known = parse_template(Path(own).read_text(encoding="utf-8")), _placeholders(shipped)
    except ValueError as error:
        raise ValueError(f"{own} cannot be used: {error}") from error
    if not all(Template(message.content).is_valid() for message in messages):
        raise ValueError(f"{own} has a $ that begins no name; write $$ for a dollar sign")
    if unknown := [name for name in _placeholders(messages) if name not in known]:
        there_are = ", ".join(f"${name}" for name in known)
        raise ValueError(
            f"{own} has ${unknown[0]}, which the role {role} does not know; there are {there_are}"
        )
    return messages


def _placeholders(template: Sequence[Message]) -> list[str]:
    return [name for message in template for name in Template(message.content).get_identifiers()]
