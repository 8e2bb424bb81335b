"""One question to an OpenAI-compatible chat endpoint; how it is sent, and what bounds it, is `agents.engines.http`."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from agents.engines.http import EndpointError, api_key, check_base_url, post
from atlas_gym.text import clean

ResponseFormat = Literal["json_schema", "json_object", "none"]


@dataclass(frozen=True)
class Endpoint:
    """Where a model is served and how it is asked."""

    base_url: str
    """Address up to and including the version, for example ``http://localhost:8000/v1``."""
    model: str
    """Name of the model as the server knows it."""
    api_key_env: str = ""
    """Environment variable that holds the API key; empty if the server wants none. Keys stand nowhere
    else."""
    temperature: float = 0.7
    """Sampling temperature (the paper's for all supporters)."""
    max_tokens: int = 1024
    """Longest reply asked for, tokens, reasoning included."""
    response_format: ResponseFormat = "json_schema"
    """Constraint asked of the server; one that refuses it (HTTP 400 or 422) is asked without from then on."""
    extra: Mapping[str, Any] = field(default_factory=dict)
    """Further fields of the request body, for example ``{"reasoning_effort": "low"}``."""

    def __post_init__(self) -> None:
        check_base_url(self.base_url)
        if not self.model or self.temperature < 0 or self.max_tokens < 1:
            raise ValueError("model must be named, temperature at least 0 and max_tokens positive")
        json.dumps(dict(self.extra))  # raises TypeError here rather than at the first call


@dataclass(frozen=True)
class Message:
    """One message of a chat."""

    role: Literal["system", "user"]
    """Who speaks."""
    content: str
    """What is said."""


@dataclass(frozen=True)
class ChatReply:
    """What the model said."""

    text: str
    """The message's content, decoded and free of the API key."""
    prompt_tokens: int | None
    """Tokens read, if the server says."""
    completion_tokens: int | None
    """Tokens written, if the server says."""


def chat(
    endpoint: Endpoint,
    messages: Sequence[Message],
    *,
    seed: int,
    schema: Mapping[str, Any] | None,
    deadline_s: float,
    max_bytes: int,
) -> ChatReply:
    """Ask once. Returns or raises :class:`EndpointError` within ``deadline_s`` seconds (and half a
    second)."""
    key = api_key(endpoint.api_key_env)
    url = endpoint.base_url.rstrip("/") + "/chat/completions"
    body = _body(endpoint, messages, seed, schema)
    status, reply = post(url, key, body, deadline_s=deadline_s, max_bytes=max_bytes)
    if status != 200:
        refused = schema is not None and endpoint.response_format != "none" and status in (400, 422)
        raise EndpointError(
            f"the server answered with HTTP status {status}", format_refused=refused, status=status
        )
    return _read_reply(reply, key)


def _body(
    endpoint: Endpoint, messages: Sequence[Message], seed: int, schema: Mapping[str, Any] | None
) -> bytes:
    fields: dict[str, Any] = {
        "model": endpoint.model,
        "messages": [{"role": message.role, "content": message.content} for message in messages],
        "temperature": endpoint.temperature,
        "max_tokens": endpoint.max_tokens,
        "seed": seed,
        "stream": False,
    }
    if schema is not None and endpoint.response_format == "json_object":
        fields["response_format"] = {"type": "json_object"}
    if schema is not None and endpoint.response_format == "json_schema":
        fields["response_format"] = {
            "type": "json_schema",
            "json_schema": {"name": "reply", "schema": dict(schema), "strict": False},
        }
    return json.dumps(fields | dict(endpoint.extra)).encode()


def _read_reply(body: bytes, key: str) -> ChatReply:
    try:
        envelope = json.loads(body.decode(errors="replace"))
        text = envelope["choices"][0]["message"]["content"]
    except (ValueError, RecursionError, TypeError, LookupError):
        raise EndpointError("the reply is not a chat completion") from None
    if not isinstance(text, str):
        raise EndpointError("the reply holds no text")
    if key:
        text = text.replace(key, "[key]")
    usage = envelope.get("usage")
    usage = usage if isinstance(usage, dict) else {}
    return ChatReply(
        text=clean(text, len(text)),
        prompt_tokens=_count(usage.get("prompt_tokens")),
        completion_tokens=_count(usage.get("completion_tokens")),
    )


def _count(value: object) -> int | None:
    return value if type(value) is int and value >= 0 else None
