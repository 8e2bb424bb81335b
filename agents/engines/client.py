"""Requests to OpenAI-compatible servers: the `openai` client, and the bounds that it lacks.

The client brings time-outs, retries with growing pauses (or those that a server asks for) and an error for each status.
A server that sends a byte a second never trips a time-out per read, so each exchange has a deadline over all of it. A
body is read up to a size and never unpacked, so a small reply cannot grow. Redirects are not followed: they could lead
the key elsewhere. The key comes from the environment at the moment of the call. Neither the server's words nor an
exception's message enter a reason, since both can quote it; for the same reason the libraries' logs begin at warnings.

Endpoints differ in the optional fields that they take: newer models of OpenAI's want `max_completion_tokens` for
`max_tokens` and their own temperature, others know no seed, `top_k` or response format. A field that the server refuses
(HTTP 400 or 422) is left out at once, and from then on once that has helped.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import ipaddress
import logging
import math
import os
import re
import ssl
import time
import urllib.request
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Literal, TypeVar
from urllib.parse import urlsplit

import httpx2

from atlas_gym.agents.engines.settings import Address, Endpoint
from atlas_gym.text import clean

if TYPE_CHECKING:
    import openai

T = TypeVar("T")

BUSY = 429
LATER = (BUSY, 503)
"""HTTP statuses of a server that is there, and may be well a moment later: too many requests, a model that loads."""

_CHARS_PER_TOKEN = 4
"""Rough estimate for servers that do not report usage."""
_SECRET = 8
"""Characters from which on a key is a secret: `x` or `none`, for servers that want no key, stand in programs."""
_WRONG_TLS = ("CERTIFICATE_VERIFY_FAILED", "WRONG_VERSION_NUMBER", "RECORD_LAYER_FAILURE", "HTTP_REQUEST")
"""What OpenSSL says of a certificate that is not trusted and, by its version, of a server without https."""


class EndpointError(Exception):
    """A request failed. The message is this package's own and safe to log.

    `reached`: the server may have read the prompt. `hopeless`: the address, or the environment's way there, is wrong,
    and asking again is of no use. `status`: the server's HTTP status, 0 if it did not get that far or said 200.
    `said`: its words of a refusal; they may quote the key, so nothing of them is to be kept.
    """

    def __init__(
        self, reason: str, *, reached: bool = True, hopeless: bool = False, status: int = 0, said: str = ""
    ):
        super().__init__(reason)
        self.reached, self.hopeless, self.status, self.said = reached, hopeless, status, said


@dataclass(frozen=True)
class Message:
    """One message of a chat."""

    role: Literal["system", "user"]
    """Who speaks."""
    content: str
    """What is said."""


@dataclass(frozen=True)
class Reply:
    """The first choice of what a model wrote."""

    text: str
    """The text, free of control characters and of the API key."""
    prompt_tokens: int
    """Tokens read, as the server says within reason, or estimated."""
    completion_tokens: int
    """Tokens written, as the server says within reason, or estimated."""
    finished: bool
    """False if the token limit ended it."""


def api_key(variable: str) -> str:
    """The key in this environment variable, empty if none is named; :class:`EndpointError` if it is not usable."""
    key = os.environ.get(variable, "").strip() if variable else ""
    if variable and not key:
        raise EndpointError(f"the environment variable {variable} is not set", reached=False)
    if not (key.isascii() and key.isprintable()):
        raise EndpointError(f"the variable {variable} does not hold a usable key", reached=False)
    return key


def token_estimate(text: str) -> int:
    """Tokens of a text, roughly."""
    return math.ceil(len(text) / _CHARS_PER_TOKEN)


def run(work: Coroutine[Any, Any, T]) -> T:
    """Wait for a coroutine; on a thread of its own where this one has an event loop already, as in a notebook."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return asyncio.run(work)
    with ThreadPoolExecutor(1) as thread:
        return thread.submit(asyncio.run, work).result()


class _Bounded(httpx2.AsyncByteStream):
    """The body of a response, up to a size."""

    def __init__(self, response: httpx2.Response, most: int):
        self._stream, self._status, self._most = response.stream, response.status_code, most

    async def __aiter__(self) -> AsyncIterator[bytes]:
        read = 0
        async for chunk in self._stream:  # type: ignore[union-attr]
            read += len(chunk)
            if read > self._most:
                large = EndpointError(f"the reply exceeds {self._most} bytes")
                raise large if self._status == 200 else _refused(self._status)
            yield chunk

    async def aclose(self) -> None:
        await self._stream.aclose()  # type: ignore[union-attr]


def proxy_of(address: str) -> str:
    """The host of the proxy that the environment names for an address; empty for none, and for this machine."""
    parts = urlsplit(address)
    host = (parts.hostname or "").rstrip(".")
    with contextlib.suppress(ValueError):
        if host == "localhost" or ipaddress.ip_address(host).is_loopback:
            return ""
    proxies = urllib.request.getproxies_environment()
    found = proxies.get(parts.scheme) or proxies.get("all", "")
    if not found or any(map(urllib.request.proxy_bypass, (host, parts.netloc))):
        return ""
    return clean(found.rpartition("@")[2].rpartition("/")[2], 200)  # without a password


_tls = functools.cache(httpx2.create_ssl_context)


@asynccontextmanager
async def connected(server: Address, reply_bytes: int, retries: int = 0) -> AsyncIterator[openai.AsyncOpenAI]:
    """The client of one server, whose replies have at most so many bytes. Raises :class:`EndpointError`."""
    import openai  # takes a second

    for library in ("openai", "httpx2", "httpcore2"):
        logging.getLogger(library).setLevel(logging.WARNING)

    async def bound(response: httpx2.Response) -> None:
        if response.headers.get("Content-Encoding", "identity") != "identity":
            raise EndpointError("the server compressed its reply unasked")
        response.stream = _Bounded(response, reply_bytes)

    key = api_key(server.api_key_env)
    try:
        http = httpx2.AsyncClient(
            verify=_tls(), timeout=None, follow_redirects=False, event_hooks={"response": [bound]},
            trust_env=bool(proxy_of(server.base_url)),
        )  # fmt: skip
        # All that the client would else take from the environment for OpenAI's own servers is said.
        client = openai.AsyncOpenAI(
            api_key=key or "none", admin_api_key="", organization="", project="", base_url=server.base_url,
            max_retries=retries, http_client=http, default_headers={"Accept-Encoding": "identity"},
        )  # fmt: skip
    except (
        httpx2.InvalidURL,
        ValueError,
        OSError,
        ImportError,
    ):  # the last one of a proxy that takes a package
        raise EndpointError(
            "base_url, or what the environment says of proxies and certificates, is wrong",
            reached=False, hopeless=True,
        ) from None  # fmt: skip
    async with client:
        yield client


def _refused(status: int, said: str = "") -> EndpointError:
    return EndpointError(f"the server answered with HTTP status {status}", status=status, said=said)


async def _exchange(client: openai.AsyncOpenAI, path: str, body: Mapping[str, Any], deadline_s: float) -> Any:
    """POST of JSON, answered by unchecked JSON or :class:`EndpointError` within `deadline_s` seconds, retries and their
    pauses included."""
    import openai

    try:
        async with asyncio.timeout(deadline_s):
            return await client.post(path, cast_to=object, body=dict(body))
    except EndpointError:
        raise
    except (TimeoutError, openai.APITimeoutError):
        raise EndpointError(f"no complete reply within {deadline_s:.3g} s") from None
    except openai.APIStatusError as error:
        raise _refused(error.status_code, error.response.text) from None
    except (ValueError, RecursionError):
        raise EndpointError("the reply is not a completion") from None
    except Exception as error:  # noqa: BLE001 - a model's server must never end a run, whatever it provokes
        cause: BaseException | None = error.__cause__
        unreached, kind = isinstance(cause, httpx2.ConnectError), type(cause or error).__name__
        while cause is not None and not isinstance(cause, ssl.SSLError):
            cause = cause.__cause__ or cause.__context__
        if cause is not None and cause.reason in _WRONG_TLS:
            reason = "the server has no certificate that is trusted here, or speaks no https"
            raise EndpointError(reason, reached=False, hopeless=True) from None
        if unreached:
            proxy = proxy_of(str(client.base_url))
            through = f" by the proxy {proxy} that the environment names, see NO_PROXY" if proxy else ""
            raise EndpointError(f"the server cannot be reached{through}", reached=False) from None
        raise EndpointError(f"the exchange failed ({kind})") from None


class Client:
    """Requests to one server, which remember the optional fields that it refuses."""

    def __init__(self, endpoint: Address):
        self.endpoint = endpoint
        self.refused: frozenset[str] = frozenset()
        """Names of optional fields that are left out."""

    async def post(
        self, client: openai.AsyncOpenAI, path: str, fixed: Mapping[str, Any], optional: Mapping[str, Any],
        deadline_s: float,
    ) -> Any:  # fmt: skip
        """The unchecked answer to a POST of both kinds of fields; raises :class:`EndpointError`."""
        refused, until = self.refused, time.monotonic() + deadline_s
        while True:
            sent = {name: value for name, value in optional.items() if name not in refused}
            # The older of the two names of the token limit, unless it is refused. A limit always goes along: where both
            # names are refused, the prompt is too long for it.
            limit = {"max_completion_tokens": optional["max_tokens"]} if "max_tokens" in refused else {}
            body = {**sent, **limit, **fixed, **self.endpoint.extra}
            try:
                reply = await _exchange(client, path, body, max(0.001, until - time.monotonic()))
            except EndpointError as error:
                places = {name: re.search(rf"\b{name}\b", error.said) for name in sent}
                named = {match.start(): name for name, match in places.items() if match}
                if error.status in (400, 422) and named:
                    refused |= {named[min(named)]}
                elif error.status in (400, 422) and "response_format" in sent:  # servers need not name it
                    refused |= {"response_format"}
                else:
                    raise
            else:
                self.refused |= refused
                return reply


class ChatClient(Client):
    """Requests to one chat endpoint."""

    endpoint: Endpoint

    @property
    def constrains(self) -> bool:
        """Whether replies can be held to a schema, as far as is known."""
        return self.endpoint.response_format != "none" and "response_format" not in self.refused

    async def reply(
        self, client: openai.AsyncOpenAI, messages: Sequence[Message], *, seed: int,
        schema: Mapping[str, Any] | None, temperature: float, deadline_s: float,
    ) -> Reply:  # fmt: skip
        """The answer to some messages, to fit a JSON schema if the endpoint takes one; raises
        :class:`EndpointError`."""
        optional: dict[str, Any] = {
            "temperature": temperature,
            "seed": seed,
            "max_tokens": self.endpoint.max_tokens,
        }
        if schema is not None and self.endpoint.response_format == "json_object":
            optional["response_format"] = {"type": "json_object"}
        elif schema is not None and self.endpoint.response_format == "json_schema":
            constraint = {"name": "reply", "schema": dict(schema), "strict": False}
            optional["response_format"] = {"type": "json_schema", "json_schema": constraint}
        said = [asdict(message) for message in messages]
        fixed = {"model": self.endpoint.model, "messages": said, "stream": False}
        found = await self.post(client, "/chat/completions", fixed, optional, deadline_s)
        key, most = api_key(self.endpoint.api_key_env), 4 * self.endpoint.max_tokens
        return read_reply(
            found, key, lambda choice: _joined(choice["message"]["content"]), prompt_estimate(messages), most
        )

    def ask(self, messages: Sequence[Message], *, max_bytes: int, **asked: Any) -> Reply:
        """As :meth:`reply`, from code that waits, over a connection of its own."""

        async def once() -> Reply:
            async with connected(self.endpoint, max_bytes) as client:
                return await self.reply(client, messages, **asked)

        return run(once())


def _joined(content: Any) -> Any:
    """A message's text, which some servers send in parts, reasoning among them."""
    if not isinstance(content, list):
        return content
    texts = (part["text"] for part in content if part.get("type", "text") in ("text", "output_text"))
    return "".join(texts) or None


def prompt_estimate(messages: Sequence[Message]) -> int:
    """Tokens of some messages, roughly."""
    return sum(len(message.content) for message in messages) // _CHARS_PER_TOKEN


def read_reply(reply: Any, key: str, text_of: Callable[[Any], object], prompt: int, most: int) -> Reply:
    """The first choice of a reply, in which `text_of` finds the text. Raises :class:`EndpointError`.

    The usage that a server claims is capped: `most` tokens written, and about four times the estimate `prompt` of
    those read.
    """
    try:
        choice = reply["choices"][0]
        text, reason, usage = text_of(choice), choice.get("finish_reason"), reply.get("usage")
    except (TypeError, LookupError, AttributeError):
        raise EndpointError("the reply is not a completion") from None
    if text is None and reason == "length":  # all of the limit went into reasoning
        text = ""
    if not isinstance(text, str):
        raise EndpointError("the reply holds no text")
    if len(key) >= _SECRET:
        text = text.replace(key, "[key]")
    text = text.replace("\r\n", "\n").removesuffix("\r")  # a stop text can end it within a line's end
    said = usage if isinstance(usage, dict) else {}

    def tokens(name: str, estimate: int, most: int) -> int:
        claim = said.get(name)
        return min(claim, most) if type(claim) is int and claim >= 0 else estimate

    text = clean(text, len(text))
    read = tokens("prompt_tokens", prompt, 4 * prompt + 1_000)
    return Reply(text, read, tokens("completion_tokens", token_estimate(text), most), reason != "length")
