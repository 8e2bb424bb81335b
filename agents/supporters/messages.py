"""Prompts and replies of a role's language model.

*Templates* are Markdown files, one per role. Programs, error texts and everything else that a candidate could have
written is *data*: cleaned, cut, and put between marker lines tagged with a hash of the data itself, so no text can
contain the line that would end it. Safety rests on the reply, which is validated and bounded.

*Schemas* of replies go into the prompt and validate the answer, nothing is coerced. Lengths are hints for the server's
constrained decoding; a reply that overshoots them is cut. Models wrap the object in reasoning, code fences and
sentences: the last JSON object behind the reasoning that fits counts, as what comes first is often an example.
"""

import hashlib
import json
from collections.abc import Mapping
from importlib.resources import files
from string import Template
from typing import Any, TypeVar

from pydantic import BaseModel, ConfigDict, ValidationError

from atlas_gym.agents.engines.answers import strip_reasoning
from atlas_gym.agents.engines.client import Messages
from atlas_gym.text import clean

_MAX_STARTS = 200
"""Opening braces that are tried; keeps a reply of nothing but braces cheap."""


def role_messages(role: str, values: Mapping[str, str]) -> Messages:
    """The system and the user message of a role's template, filled; raises KeyError for a placeholder without value."""
    file = files("atlas_gym.agents.supporters").joinpath("prompts", f"{role}.md")
    parts = file.read_text(encoding="utf-8").removeprefix("--- system ---").split("--- user ---")
    # One pass each: a `$name` within a value is not looked at again.
    system, user = (Template(part.strip()).substitute(values) for part in parts)
    return [{"role": "system", "content": system}, {"role": "user", "content": user}]


def delimited(text: str, limit: int) -> str:
    """Text of unknown origin, cleaned and cut to `limit` characters, between two lines that it cannot contain."""
    text = clean(text, limit).strip("\n") or "(nothing)"
    tag = hashlib.sha256(text.encode()).hexdigest()[:12]
    return f"<data {tag}>\n{text}\n</data {tag}>"


class ReplyError(ValueError):
    """The reply cannot be used. The message never quotes it, so that it can be logged and sent back."""


class Reply(BaseModel):
    """Base of the schemas: types are strict, unknown fields are ignored, numbers are finite."""

    model_config = ConfigDict(strict=True, frozen=True, extra="ignore", allow_inf_nan=False)


Schema = TypeVar("Schema", bound=Reply)


def parse_reply(text: str, schema: type[Schema]) -> Schema:
    """The last JSON object of ``text`` that fits ``schema``; raises :class:`ReplyError` if there is none."""
    text, decoder, position = strip_reasoning(text), json.JSONDecoder(), 0
    objects = []
    for _ in range(_MAX_STARTS):
        start = text.find("{", position)
        if start < 0:
            break
        try:
            found, position = decoder.raw_decode(text, start)
            objects.append(found)
        except (ValueError, RecursionError):  # not JSON, or nested too deeply
            position = start + 1
    problem = ""
    for found in reversed(objects):
        try:
            return schema.model_validate(found)
        except ValidationError as error:
            # Where and how the last object misfits, in the schema's words only: keys of the reply are not quoted.
            first = error.errors(include_input=False, include_url=False, include_context=False)[0]
            field = str(first["loc"][0]) if first["loc"] else ""
            place = f"field {field!r}" if field in schema.model_fields else "the object"
            problem = problem or f"{place} does not fit the schema ({first['type']})"
    raise ReplyError(problem or "no JSON object found")


def json_schema(reply: type[Reply]) -> dict[str, Any]:
    """The JSON schema of a reply, references resolved (not every server follows them), titles left out."""
    schema = reply.model_json_schema()
    definitions = schema.pop("$defs", {})

    def resolved(node: Any) -> Any:
        if isinstance(node, list):
            return [resolved(item) for item in node]
        if not isinstance(node, dict):
            return node
        if "$ref" in node:
            return resolved(definitions[node["$ref"].rsplit("/", 1)[-1]])
        return {
            key: resolved(value)
            for key, value in node.items()
            if key != "title" or not isinstance(value, str)
        }

    found: dict[str, Any] = resolved(schema)
    return found
