"""What a language model is asked to reply, and how its reply becomes a validated object.

The schemas go into the prompt and validate the answer. Types are strict and the essential field of each is required,
so that an empty object is no reply. Lengths are hints for the server's constrained decoding; a reply that overshoots
them is cut, not refused.

Models wrap the object they were asked for: in reasoning, in code fences, in a sentence before and after. The
reply is searched for JSON objects behind the reasoning, and the last one that fits the schema counts, because
what comes first is often a quotation or an example. Types are not coerced.
"""

import json
from collections.abc import Iterator
from typing import Any, Literal, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from atlas_gym.agents.engines.answers import strip_reasoning

_MAX_STARTS = 200
"""Opening braces that are tried; keeps a reply of nothing but braces cheap."""


class ReplyError(ValueError):
    """The reply cannot be used. The message never quotes it, so that it can be logged and sent back."""


class Reply(BaseModel):
    """Base of the schemas: types are strict, unknown fields are ignored, numbers are finite."""

    model_config = ConfigDict(strict=True, frozen=True, extra="ignore", allow_inf_nan=False)


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


class StrategyReply(Reply):
    """The strategist's reply; a control that is left out or null keeps its value."""

    reason: str = Field(json_schema_extra={"maxLength": 300})
    beta: float | None = None
    score_threshold: float | None = None
    epochs: float | None = None
    learning_rate: float | None = None


class RegressionReply(Reply):
    """One measurement that got worse."""

    metric: str = Field(description="one of the measurements listed", json_schema_extra={"maxLength": 60})
    note: str = Field("", json_schema_extra={"maxLength": 160})


class InspectionReply(Reply):
    """The inspector's reply."""

    decision: Literal["accept", "veto"]
    reasons: list[str] = Field(default_factory=list, json_schema_extra={"maxItems": 3})
    regressions: list[RegressionReply] = Field(default_factory=list, json_schema_extra={"maxItems": 4})


Schema = TypeVar("Schema", bound=Reply)


def parse_reply(text: str, schema: type[Schema]) -> Schema:
    """The last JSON object of ``text`` that fits ``schema``; raises :class:`ReplyError` if there is none."""
    objects = list(_objects(strip_reasoning(text)))
    if not objects:
        raise ReplyError("no JSON object found")
    problem = ""
    for candidate in reversed(objects):
        try:
            return schema.model_validate(candidate)
        except ValidationError as error:
            problem = problem or _describe(error, schema)
    raise ReplyError(problem)


def _objects(text: str) -> Iterator[dict[str, Any]]:
    decoder = json.JSONDecoder()
    position = 0
    for _ in range(_MAX_STARTS):
        start = text.find("{", position)
        if start < 0:
            return
        try:
            found, position = decoder.raw_decode(text, start)
        except (ValueError, RecursionError):  # not JSON, or nested too deeply
            position = start + 1
            continue
        yield found


def _describe(error: ValidationError, schema: type[Reply]) -> str:
    """Where and how the first misfit lies, in the schema's words only: keys of the reply are not quoted."""
    first = error.errors(include_input=False, include_url=False, include_context=False)[0]
    field = str(first["loc"][0]) if first["loc"] else ""
    place = f"field {field!r}" if field in schema.model_fields else "the object"
    return f"{place} does not fit the schema ({first['type']})"


def json_schema(reply: type[Reply]) -> dict[str, Any]:
    """The JSON schema of a reply, references resolved (not every server follows them), titles left out."""
    schema = reply.model_json_schema()
    definitions = schema.pop("$defs", {})
    return _resolved(schema, definitions)


def schema_text(reply: type[Reply]) -> str:
    """The JSON schema in the form that goes into a prompt."""
    return json.dumps(json_schema(reply), indent=1)


def _resolved(node: Any, definitions: dict[str, Any]) -> Any:
    if isinstance(node, list):
        return [_resolved(item, definitions) for item in node]
    if not isinstance(node, dict):
        return node
    if "$ref" in node:
        return _resolved(definitions[node["$ref"].rsplit("/", 1)[-1]], definitions)
    kept = {key: value for key, value in node.items() if not (key == "title" and isinstance(value, str))}
    return {key: _resolved(value, definitions) for key, value in kept.items()}
