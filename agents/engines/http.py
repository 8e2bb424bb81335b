"""One JSON request to a model's server, with a deadline that the other side cannot stretch.

Time-outs per read, as HTTP libraries offer them, do not bound a call: a server that sends one byte a second
never trips them. Here the whole exchange (name lookup, connecting, headers, body) runs on an event loop of
its own that is cancelled at the deadline, and the caller stops waiting even if the loop could not be (a name
lookup stuck in the C library). The body is read up to a size and not decompressed, so a small reply cannot
grow. Nothing outlives the call: no connection pool that a restarted server could leave stale.

The API key comes from the environment at the moment of the call. It is sent in one header, redirects are not
followed, and neither the server's words nor an exception's message enter a reason: both can quote the key.
For the same reason the HTTP library's own log (it quotes status lines and headers) is shut for these calls.
"""

import asyncio
import contextlib
import functools
import json
import logging
import math
import os
import ssl
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from typing import Any

import httpx2

from atlas_gym.agents.engines.threads import started
from atlas_gym.text import clean

THREAD = "http-exchange"
"""Name of the threads that exchanges run on."""

WRONG_FIELDS = (400, 422)
"""HTTP statuses of a request that the server calls wrong."""

BUSY = 429
"""From this HTTP status on a server may be well a moment later."""

CHARS_PER_TOKEN = 4
"""Rough estimate for servers that do not report usage."""

_HTTP_LOGGERS = (
    "httpx2",
    *(f"httpcore2.{part}" for part in ("connection", "http11", "http2", "proxy", "socks")),
)

_WRONG_TLS = ("CERTIFICATE_VERIFY_FAILED", "WRONG_VERSION_NUMBER", "RECORD_LAYER_FAILURE", "HTTP_REQUEST")
"""What OpenSSL calls it; of a server that speaks no https one of the last three, which by its version."""

_SECRET = 8
"""Characters from which on a key is a secret: `x` or `none`, for servers that want no key, stand in programs."""

_ABANDON_S = 0.5
"""Time beyond the deadline that the caller grants the cancellation."""


class EndpointError(Exception):
    """The request failed. The message is this package's own and safe to log."""

    def __init__(
        self, reason: str, *, reached: bool = True, status: int | None = None, pause_s: float = 0.0
    ) -> None:
        super().__init__(reason)
        self.reached = reached
        """Whether the server may have read the prompt."""
        self.status = status
        """The HTTP status that it answered with, None if it did not get that far or said 200."""
        self.pause_s = pause_s
        """Seconds after which the server wants to be asked again, as far as it says."""


class Hopeless(EndpointError):
    """No request was sent, and none will be: the address, or what the environment says of the way there, is wrong."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason, reached=False)


def api_key(variable: str) -> str:
    """The key in this environment variable, empty if none is named; :class:`EndpointError` if it is missing
    or unusable."""
    if not variable:
        return ""
    key = os.environ.get(variable, "").strip()
    if not key:
        raise EndpointError(f"the environment variable {variable} is not set", reached=False)
    if not (key.isascii() and key.isprintable()):
        raise EndpointError(f"the variable {variable} does not hold a usable key", reached=False)
    return key


def post(
    url: str, key: str, body: Mapping[str, Any], *, deadline_s: float, max_bytes: int
) -> tuple[int, bytes]:
    """HTTP status and body of a POST of JSON. Returns or raises :class:`EndpointError`, also for a status from 429 on,
    within ``deadline_s`` seconds (and half a second).

    The body is empty unless the status is 200, or calls the request wrong (400, 422). The latter's may quote the key:
    look in it for the names of fields, and keep nothing of it.
    """
    _shut_http_log()
    data = json.dumps(body).encode()
    try:
        client = httpx2.AsyncClient(verify=_tls(), timeout=None, follow_redirects=False)
        request = client.build_request("POST", url, headers=_headers(key), content=data)
    except (
        httpx2.InvalidURL,
        ValueError,
        OSError,
        ImportError,
    ):  # the last one of a proxy that takes a package
        raise Hopeless(
            "base_url, or what the environment says of proxies and certificates, is wrong"
        ) from None
    # On a thread with its own event loop; the caller waits no longer than the deadline.
    outcome = started(lambda: asyncio.run(_send(client, request, deadline_s, max_bytes)), THREAD)
    try:
        return outcome.result(timeout=deadline_s + _ABANDON_S)
    except EndpointError:
        raise
    except TimeoutError:
        raise EndpointError(f"no complete reply within {deadline_s:.3g} s") from None
    except httpx2.ConnectError as error:
        if _wrong_tls(error):
            raise Hopeless("the server has no certificate that is trusted here, or speaks no https") from None
        raise EndpointError("the server cannot be reached", reached=False) from None
    except Exception as error:  # noqa: BLE001 - a model's server must never end a run, whatever it provokes
        raise EndpointError(f"the exchange failed ({type(error).__name__})") from None


def _headers(key: str) -> dict[str, str]:
    kind = "application/json"
    headers = {"Content-Type": kind, "Accept": kind, "Accept-Encoding": "identity"}
    return headers | ({"Authorization": f"Bearer {key}"} if key else {})


async def _send(
    client: httpx2.AsyncClient, request: httpx2.Request, deadline_s: float, max_bytes: int
) -> tuple[int, bytes]:
    async with (
        asyncio.timeout(deadline_s),
        client,
        contextlib.aclosing(await client.send(request, stream=True)) as response,
    ):
        if response.status_code >= BUSY:
            raise EndpointError(
                f"the server answered with HTTP status {response.status_code}",
                status=response.status_code,
                pause_s=_retry_after(response.headers.get("Retry-After", "")),
            )
        plain = response.headers.get("Content-Encoding", "identity") == "identity"
        if response.status_code != 200 and not (plain and response.status_code in WRONG_FIELDS):
            return response.status_code, b""
        if not plain:
            raise EndpointError("the server compressed its reply unasked")
        reply = bytearray()
        async for chunk in response.aiter_raw():
            reply += chunk
            if len(reply) > max_bytes and response.status_code != 200:
                return response.status_code, b""
            if len(reply) > max_bytes:
                raise EndpointError(f"the reply exceeds {max_bytes} bytes")
        return response.status_code, bytes(reply)


def _retry_after(header: str) -> float:
    """The seconds that this header asks for, which has them or a date; 0 if it has neither."""
    try:
        return float(header)
    except ValueError:
        pass
    try:
        return parsedate_to_datetime(header).timestamp() - time.time()
    except (ValueError, OverflowError):
        return 0.0


def _wrong_tls(error: BaseException | None) -> bool:
    """Whether the way to the server cannot be made secure; the HTTP library says why it failed in the causes alone."""
    while error is not None and not isinstance(error, ssl.SSLError):
        error = error.__cause__ or error.__context__
    return error is not None and error.reason in _WRONG_TLS


@functools.cache
def _shut_http_log() -> None:
    for name in _HTTP_LOGGERS:
        logging.getLogger(name).addFilter(lambda record: record.threadName != THREAD)


@functools.cache
def _tls() -> ssl.SSLContext:
    return httpx2.create_ssl_context()


@dataclass(frozen=True)
class ServerReply:
    """What a model behind a server wrote: the first choice of a reply, as OpenAI's protocols have it."""

    text: str
    """What it wrote, free of control characters and of the API key."""
    prompt_tokens: int
    """Tokens read, as the server says within reason, or estimated."""
    completion_tokens: int
    """Tokens written, as the server says within reason, or estimated."""
    finished: bool
    """False if the token limit ended it."""


def read_reply(
    body: bytes, key: str, text_of: Callable[[Any], object], *, prompt: int, most: int
) -> ServerReply:
    """Read a reply; `text_of` finds the text in its first choice. Raises :class:`EndpointError`.

    What the server says that it used is capped, `most` tokens written and about four times the estimate `prompt` of
    those read: it may not talk a budget, or the tables, into nonsense.
    """
    try:
        envelope = json.loads(body.decode(errors="replace"))
        choice = envelope["choices"][0]
        text, reason, usage = text_of(choice), choice.get("finish_reason"), envelope.get("usage")
    except (ValueError, RecursionError, TypeError, LookupError, AttributeError):
        raise EndpointError("the reply is not a completion") from None
    if text is None and reason == "length":  # all of the limit went into reasoning
        text = ""
    if not isinstance(text, str):
        raise EndpointError("the reply holds no text")
    if len(key) >= _SECRET:
        text = text.replace(key, "[key]")
    text = text.replace("\r\n", "\n").removesuffix("\r")  # a stop text can end it within a line's end
    text = clean(text, len(text))
    said = usage if isinstance(usage, dict) else {}
    read = _tokens(said.get("prompt_tokens"), prompt, 4 * prompt + 1_000)
    written = _tokens(said.get("completion_tokens"), math.ceil(len(text) / CHARS_PER_TOKEN), most)
    return ServerReply(text, read, written, reason != "length")


def _tokens(claim: object, estimate: int, most: int) -> int:
    return min(claim, most) if type(claim) is int and claim >= 0 else estimate
