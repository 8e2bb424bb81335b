"""What a language model is asked to reply, as schemas that go into the prompt and validate the answer.

Types are strict and the essential field of each schema is required, so that an empty object is no reply.
Lengths are hints for the server's constrained decoding; a reply that overshoots them is cut, not refused.
"""

from __future__ import annotations

import json
from typing import Any, Literal

from pydantic import Field

from agents.supporters.replies import Reply


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
