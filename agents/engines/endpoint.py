"""Questions to an OpenAI-compatible chat endpoint; how they are sent, and what bounds them, is `agents.engines.http`.

Endpoints differ in the optional fields that they take: newer models of OpenAI's want `max_completion_tokens` for
`max_tokens` and their own temperature, others know no seed or no response format. A field that the server refuses
(HTTP 400 or 422) is left out at once, and from then on once that has helped.
"""

import re
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from atlas_gym.agents.engines.http import (
    CHARS_PER_TOKEN,
    WRONG_FIELDS,
    EndpointError,
    ServerReply,
    api_key,
    post,
    read_reply,
)
from atlas_gym.agents.engines.settings import ChatSettings, Endpoint


@dataclass(frozen=True)
class Message:
    """One message of a chat."""

    role: Literal["system", "user"]
    """Who speaks."""
    content: str
    """What is said."""


class ChatClient:
    """The line to one endpoint. It remembers which optional fields the endpoint refuses; several threads may use it."""

    def __init__(self, endpoint: Endpoint | ChatSettings) -> None:
        self.endpoint = endpoint
        self._refused: frozenset[str] = frozenset()

    @property
    def constrains(self) -> bool:
        """Whether replies can be held to a schema, as far as is known."""
        return self.endpoint.response_format != "none" and "response_format" not in self._refused

    def ask(
        self,
        messages: Sequence[Message],
        *,
        seed: int,
        schema: Mapping[str, Any] | None,
        temperature: float,
        deadline_s: float,
        max_bytes: int,
    ) -> ServerReply:
        """Ask once, and at once again without a field that the server refuses.

        Returns or raises :class:`EndpointError` within ``deadline_s`` seconds (and half a second).
        """
        endpoint, until = self.endpoint, time.monotonic() + deadline_s
        key = api_key(endpoint.api_key_env)
        url = endpoint.base_url.rstrip("/") + "/chat/completions"
        said = [{"role": message.role, "content": message.content} for message in messages]
        fixed = {"model": endpoint.model, "messages": said, "stream": False, **endpoint.extra}
        optional = {"temperature": temperature, "seed": seed, **self._format(schema)}
        refused = self._refused
        while True:
            # The older of the two names of the token limit, unless it is refused.
            limit = "max_completion_tokens" if "max_tokens" in refused else "max_tokens"
            allowed = {**optional, limit: endpoint.max_tokens}
            sent = {name: value for name, value in allowed.items() if name not in refused}
            left = max(0.001, until - time.monotonic())
            status, reply = post(url, key, sent | fixed, deadline_s=left, max_bytes=max_bytes)
            if status == 200:
                self._refused |= refused
                estimate, most = prompt_estimate(messages), 4 * endpoint.max_tokens
                return read_reply(
                    reply, key, lambda choice: choice["message"]["content"], prompt=estimate, most=most
                )
            # A limit always goes along: where both names are refused, the prompt is too long for it.
            sent.pop("max_completion_tokens", None)
            field = _refused_field(reply, sent) if status in WRONG_FIELDS else None
            if field is None:
                raise EndpointError(f"the server answered with HTTP status {status}", status=status)
            refused |= {field}

    def _format(self, schema: Mapping[str, Any] | None) -> dict[str, Any]:
        if schema is None or self.endpoint.response_format == "none":
            return {}
        if self.endpoint.response_format == "json_object":
            return {"response_format": {"type": "json_object"}}
        constraint = {"name": "reply", "schema": dict(schema), "strict": False}
        return {"response_format": {"type": "json_schema", "json_schema": constraint}}


def prompt_estimate(messages: Sequence[Message]) -> int:
    """Tokens of some messages, roughly."""
    return sum(len(message.content) for message in messages) // CHARS_PER_TOKEN


def _refused_field(body: bytes, sent: Mapping[str, Any]) -> str | None:
    """The optional field that an error names first; the response format if it names none, since servers need not."""
    text = body.decode(errors="replace")
    named = {name: found.start() for name in sent if (found := re.search(rf"\b{name}\b", text))}
    if named:
        return min(named, key=named.__getitem__)
    return "response_format" if "response_format" in sent else None
