"""From a language model's reply to a validated object.

Models wrap the object they were asked for: in reasoning, in code fences, in a sentence before and after. The
reply is searched for JSON objects behind the reasoning, and the last one that fits the schema counts, because
what comes first is often a quotation or an example. Types are not coerced.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from typing import Any, TypeVar

from pydantic import BaseModel, ConfigDict, ValidationError

from agents.engines.answers import strip_reasoning

_MAX_STARTS = 200
"""Opening braces that are tried; keeps a reply of nothing but braces cheap."""


class ReplyError(ValueError):
    """The reply cannot be used. The message never quotes it, so that it can be logged and sent back."""


class Reply(BaseModel):
    """Base of the schemas: types are strict, unknown fields are ignored, numbers are finite."""

    model_config = ConfigDict(strict=True, frozen=True, extra="ignore", allow_inf_nan=False)


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
    decoder = json.JSONDecoder(parse_constant=_refuse_constant, parse_float=_finite)
    position = 0
    for _ in range(_MAX_STARTS):
        start = text.find("{", position)
        if start < 0:
            return
        try:
            found, position = decoder.raw_decode(text, start)
        except (ValueError, RecursionError):  # not JSON, an absurd number, or nested too deeply
            position = start + 1
            continue
        yield found


def _refuse_constant(name: str) -> float:
    raise ValueError(f"{name} is not a number")


def _finite(digits: str) -> float:
    value = float(digits)
    if not math.isfinite(value):
        raise ValueError("number out of range")
    return value


def _describe(error: ValidationError, schema: type[Reply]) -> str:
    """Where and how the first misfit lies, in the schema's words only: keys of the reply are not quoted."""
    first = error.errors(include_input=False, include_url=False, include_context=False)[0]
    field = str(first["loc"][0]) if first["loc"] else ""
    place = f"field {field!r}" if field in schema.model_fields else "the object"
    return f"{place} does not fit the schema ({first['type']})"
