"""One request to an OpenAI-compatible chat endpoint, with a deadline that the other side cannot stretch.

Time-outs per read, as HTTP libraries offer them, do not bound a call: a server that sends one byte a second
never trips them. Here the whole exchange (name lookup, connecting, headers, body) runs on an event loop of
its own that is cancelled at the deadline, and the caller stops waiting even if the loop could not be (a name
lookup stuck in the C library). The body is read up to a size and not decompressed, so a small reply cannot
grow. Nothing outlives the call: no connection pool that a restarted server could leave stale.

The API key comes from the environment at the moment of the call. It is sent in one header, redirects are not
followed, and neither the server's words nor an exception's message enter a reason: both can quote the key.
For the same reason the HTTP library's own log (it quotes status lines and headers) is shut for these calls.
"""

from __future__ import annotations

import asyncio
import functools
import json
import logging
import os
import ssl
import threading
from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any, Literal
from urllib.parse import urlsplit

import httpx2

from agents.supporters.text import clean

ResponseFormat = Literal["json_schema", "json_object", "none"]

_THREAD = "supporter-call"

_HTTP_LOGGERS = (
    "httpx2",
    *(f"httpcore2.{part}" for part in ("connection", "http11", "http2", "proxy", "socks")),
)

_ABANDON_S = 0.5
"""Time beyond the deadline that the caller grants the cancellation."""


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
        parts = urlsplit(self.base_url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise ValueError("base_url must be an http or https address")
        if parts.username is not None or parts.password is not None or parts.query:
            raise ValueError("base_url must not hold credentials: name a variable in api_key_env instead")
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


class EndpointError(Exception):
    """The request failed. The message is this module's own and safe to log."""

    def __init__(self, reason: str, *, reached: bool = True, format_refused: bool = False) -> None:
        super().__init__(reason)
        self.reached = reached
        """Whether the server may have read the prompt."""
        self.format_refused = format_refused
        """Whether the server may have refused the response format."""


def api_key(endpoint: Endpoint) -> str:
    """The key to send, empty if none is wanted; raises :class:`EndpointError` if it is missing or
    unusable."""
    if not endpoint.api_key_env:
        return ""
    key = os.environ.get(endpoint.api_key_env, "").strip()
    if not key:
        raise EndpointError(f"the environment variable {endpoint.api_key_env} is not set", reached=False)
    if not (key.isascii() and key.isprintable()):
        raise EndpointError(f"the variable {endpoint.api_key_env} does not hold a usable key", reached=False)
    return key


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
    key = api_key(endpoint)
    request = _Request(
        url=endpoint.base_url.rstrip("/") + "/chat/completions",
        headers=_headers(key),
        body=_body(endpoint, messages, seed, schema),
        deadline_s=deadline_s,
        max_bytes=max_bytes,
    )
    status, body = _exchange(request)
    if status != 200:
        refused = schema is not None and endpoint.response_format != "none" and status in (400, 422)
        raise EndpointError(f"the server answered with HTTP status {status}", format_refused=refused)
    return _read_reply(body, key)


@dataclass(frozen=True, repr=False)  # no repr: the headers hold the key
class _Request:
    url: str
    headers: Mapping[str, str]
    body: bytes
    deadline_s: float
    max_bytes: int


def _headers(key: str) -> dict[str, str]:
    headers = {
        "Content-Type": "application/json",
        "Accept": "application/json",
        "Accept-Encoding": "identity",
    }
    return headers | ({"Authorization": f"Bearer {key}"} if key else {})


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


def _exchange(request: _Request) -> tuple[int, bytes]:
    """Run the request on a thread with its own event loop; the caller waits no longer than the deadline."""
    _shut_http_log()
    outcome: Future[tuple[int, bytes]] = Future()

    def work() -> None:
        try:
            outcome.set_result(asyncio.run(_send(request)))
        except BaseException as error:  # noqa: BLE001 - handed to the waiting caller, whatever it is
            outcome.set_exception(error)

    threading.Thread(target=work, name=_THREAD, daemon=True).start()
    try:
        return outcome.result(timeout=request.deadline_s + _ABANDON_S)
    except EndpointError:
        raise
    except TimeoutError:
        raise EndpointError(f"no complete reply within {request.deadline_s:.3g} s") from None
    except httpx2.ConnectError:
        raise EndpointError("the server cannot be reached", reached=False) from None
    except Exception as error:  # noqa: BLE001 - a supporter's server must never end a run, whatever it provokes
        raise EndpointError(f"the exchange failed ({type(error).__name__})") from None


async def _send(request: _Request) -> tuple[int, bytes]:
    async with (
        asyncio.timeout(request.deadline_s),
        httpx2.AsyncClient(verify=_tls(), timeout=None, follow_redirects=False) as client,
        client.stream("POST", request.url, headers=request.headers, content=request.body) as response,
    ):
        if response.status_code != 200:  # an error's body is of no use: it may quote the key
            return response.status_code, b""
        if response.headers.get("Content-Encoding", "identity") != "identity":
            raise EndpointError("the server compressed its reply unasked")
        body = bytearray()
        async for chunk in response.aiter_raw():
            body += chunk
            if len(body) > request.max_bytes:
                raise EndpointError(f"the reply exceeds {request.max_bytes} bytes")
        return response.status_code, bytes(body)


@functools.cache
def _shut_http_log() -> None:
    for name in _HTTP_LOGGERS:
        logging.getLogger(name).addFilter(lambda record: record.threadName != _THREAD)


@functools.cache
def _tls() -> ssl.SSLContext:
    return httpx2.create_ssl_context()


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
