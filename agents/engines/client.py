"""Requests to OpenAI-compatible servers: the `openai` client, and the bounds that it lacks.

The client brings retries and an error for each status. A server that sends a byte a second never trips its time-out per
read, so each exchange has a deadline over all of it. A body is read up to a size and never unpacked. Redirects are not
followed: they could lead the key elsewhere. Neither the server's words nor an exception's message enter a reason, since
both can quote the key; for the same reason the libraries' logs begin at warnings.

Endpoints differ in the optional fields that they take: token limit, temperature, seed, `top_k`, response format. A
field that the server refuses (HTTP 400 or 422) is left out at once, and from then on once that has helped.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import ipaddress
import logging
import os
import re
import time
import urllib.request
from collections.abc import AsyncIterator, Coroutine, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import urlsplit

import httpx2

from atlas_gym.agents.engines.settings import Address, Endpoint
from atlas_gym.text import clean

if TYPE_CHECKING:
    import openai

T = TypeVar("T")
Messages = Sequence[Mapping[str, str]]
"""Messages of a chat, each with its `role` and `content`."""

LATER = (429, 503)
"""HTTP statuses of a server that may be well a moment later: too many requests, a model that loads."""
_SECRET = 8
"""Characters from which on a key is a secret: `x` or `none`, for servers that want no key, stand in programs."""


class EndpointError(Exception):
    """A request failed. The message is this package's own and safe to log.

    `reached`: the server may have read the prompt. `hopeless`: asking again is of no use. `status`: HTTP's, 0 if there
    was none or 200. `said`: the server's words of a refusal, of which nothing is to be kept.
    """

    def __init__(
        self, reason: str, *, reached: bool = True, hopeless: bool = False, status: int = 0, said: str = ""
    ):
        super().__init__(reason)
        self.reached, self.hopeless, self.status, self.said = reached, hopeless, status, said


@dataclass(frozen=True)
class Reply:
    """The first choice of what a model wrote."""

    text: str  # the text, free of control characters and of the API key
    prompt_tokens: int  # tokens read, as the server says within reason, or estimated
    completion_tokens: int  # tokens written, as the server says within reason, or estimated
    finished: bool  # false if the token limit ended it


def token_estimate(*texts: str) -> int:
    """Tokens of some texts, roughly: of four characters."""
    return sum(map(len, texts)) // 4


def run(work: Coroutine[Any, Any, T]) -> T:
    """Wait for a coroutine; on a thread of its own where this one has an event loop already, as in a notebook."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return asyncio.run(work)
    with ThreadPoolExecutor(1) as thread:
        return thread.submit(asyncio.run, work).result()


def _key(server: Address) -> str:
    """The server's key, read from the environment at the moment of the call; empty if it wants none."""
    name = server.api_key_env
    key = os.environ.get(name, "").strip() if name else ""
    if name and not key:
        raise EndpointError(f"the environment variable {name} is not set", reached=False, hopeless=True)
    if not (key.isascii() and key.isprintable()):
        raise EndpointError(f"the variable {name} does not hold a usable key", reached=False, hopeless=True)
    return key


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

    class Bounded(httpx2.AsyncByteStream):
        def __init__(self, response: httpx2.Response):
            self.response, self.stream = response, response.stream

        async def __aiter__(self) -> AsyncIterator[bytes]:
            left = reply_bytes
            async for chunk in self.stream:  # type: ignore[union-attr]
                left -= len(chunk)
                if left < 0:
                    large = EndpointError(f"the reply exceeds {reply_bytes} bytes")
                    raise large if self.response.status_code == 200 else _refused(self.response.status_code)
                yield chunk

        async def aclose(self) -> None:
            await self.stream.aclose()  # type: ignore[union-attr]

    async def bound(response: httpx2.Response) -> None:
        if response.headers.get("Content-Encoding", "identity") != "identity":
            raise EndpointError("the server compressed its reply unasked")
        response.encoding = "utf-8"  # not the codec that the server names: some take quadratic time
        response.stream = Bounded(response)

    key = _key(server)
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
    except (httpx2.InvalidURL, ValueError, OSError, ImportError):  # a proxy can take a package
        wrong = "base_url, or what the environment says of proxies and certificates, is wrong"
        raise EndpointError(wrong, reached=False, hopeless=True) from None
    async with client:
        yield client


def _refused(status: int, said: str = "") -> EndpointError:
    return EndpointError(f"the server answered with HTTP status {status}", status=status, said=said)


class Client:
    """Requests to one server, which remember the optional fields that it refuses."""

    def __init__(self, endpoint: Address):
        self.endpoint = endpoint
        self.refused: frozenset[str] = frozenset()  # names of optional fields that are left out

    async def complete(
        self, api: openai.AsyncOpenAI, path: str, fixed: Mapping[str, Any], optional: Mapping[str, Any], *,
        prompt: int, most: int, deadline_s: float,
    ) -> Reply:  # fmt: skip
        """The reply to a POST of both kinds of fields; raises :class:`EndpointError`. The usage that a server claims is
        capped: `most` tokens written, and about four times the estimate `prompt` of those read."""
        refused, until = self.refused, time.monotonic() + deadline_s
        while True:
            sent = {name: value for name, value in optional.items() if name not in refused}
            # Of the two names of the token limit the older one, unless it is refused; a limit always goes along.
            limit = {"max_completion_tokens": optional["max_tokens"]} if "max_tokens" in refused else {}
            body = {"model": self.endpoint.model, "stream": False, **sent, **limit, **fixed}
            body |= self.endpoint.extra
            try:
                found = await _exchange(api, path, body, max(0.001, until - time.monotonic()))
            except EndpointError as error:
                places = {name: re.search(rf"\b{name}\b", error.said) for name in sent}
                named = {match.start(): name for name, match in places.items() if match}
                if error.status not in (400, 422) or not (named or "response_format" in sent):
                    raise
                # Servers need not name the response format.
                refused |= {named[min(named)] if named else "response_format"}
            else:
                self.refused |= refused
                return _read(found, _key(self.endpoint), prompt, most)


async def _exchange(api: openai.AsyncOpenAI, path: str, body: Mapping[str, Any], deadline_s: float) -> Any:
    """POST of JSON, answered by unchecked JSON or :class:`EndpointError` within `deadline_s`, retries included."""
    import openai

    try:
        async with asyncio.timeout(deadline_s):
            return await api.post(path, cast_to=object, body=dict(body))
    except EndpointError:
        raise
    except (TimeoutError, openai.APITimeoutError):
        raise EndpointError(f"no complete reply within {deadline_s:.3g} s") from None
    except openai.APIStatusError as error:
        raise _refused(error.status_code, error.response.text) from None
    except (ValueError, RecursionError):
        raise EndpointError("the reply is not a completion") from None
    except Exception as error:  # noqa: BLE001 - a model's server must never end a run, whatever it provokes
        cause = error.__cause__ or error
        if not isinstance(cause, httpx2.ConnectError):
            raise EndpointError(f"the exchange failed ({type(cause).__name__})") from None
        if "[SSL" in str(cause) and "EOF" not in str(cause):
            reason = "the server has no certificate that is trusted here, or speaks no https"
            raise EndpointError(reason, reached=False, hopeless=True) from None
        proxy = proxy_of(str(api.base_url))
        through = f" by the proxy {proxy} that the environment names, see NO_PROXY" if proxy else ""
        raise EndpointError(f"the server cannot be reached{through}", reached=False) from None


def _read(reply: Any, key: str, prompt: int, most: int) -> Reply:
    """The first choice of a reply that may be anything. Raises :class:`EndpointError`."""
    try:
        choice = reply["choices"][0]
        text: Any = choice["message"]["content"] if "message" in choice else choice["text"]
        if isinstance(text, list):  # some servers send parts, reasoning among them
            parts = (part["text"] for part in text if part.get("type", "text") in ("text", "output_text"))
            text = "".join(parts) or None
        reason, usage = choice.get("finish_reason"), reply.get("usage")
    except (TypeError, LookupError, AttributeError):
        raise EndpointError("the reply is not a completion") from None
    if text is None and reason == "length":  # all of the limit went into reasoning
        text = ""
    if not isinstance(text, str):
        raise EndpointError("the reply holds no text")
    if len(key) >= _SECRET:
        text = text.replace(key, "[key]")
    text = text.replace("\r\n", "\n").removesuffix("\r")  # a stop text can end it within a line's end
    estimates = {
        "prompt_tokens": (prompt, 4 * prompt + 1_000),
        "completion_tokens": (-(-len(text) // 4), most),
    }
    tokens = []
    for name, (estimate, cap) in estimates.items():
        claim = usage.get(name) if isinstance(usage, dict) else None
        tokens.append(min(claim, cap) if type(claim) is int and claim >= 0 else estimate)
    read, wrote = tokens
    return Reply(clean(text, len(text)), read, wrote, finished=reason != "length")


class ChatClient(Client):
    """Requests to one chat endpoint."""

    endpoint: Endpoint

    @property
    def constrains(self) -> bool:
        """Whether replies can be held to a schema, as far as is known."""
        return self.endpoint.response_format != "none" and "response_format" not in self.refused

    async def reply(
        self, api: openai.AsyncOpenAI, messages: Messages, *, seed: int,
        schema: Mapping[str, Any] | None, temperature: float, deadline_s: float,
    ) -> Reply:  # fmt: skip
        """The answer to some messages, to fit a JSON schema if the endpoint takes one."""
        most, form = self.endpoint.max_tokens, self.endpoint.response_format
        optional: dict[str, Any] = {"temperature": temperature, "seed": seed, "max_tokens": most}
        if schema is not None and form != "none":
            optional["response_format"] = {"type": form}
            if form == "json_schema":
                optional["response_format"][form] = {"name": "reply", "schema": dict(schema), "strict": False}
        return await self.complete(
            api, "/chat/completions", {"messages": list(messages)}, optional, most=4 * most, deadline_s=deadline_s,
            prompt=token_estimate(*(message["content"] for message in messages)),
        )  # fmt: skip

    def ask(self, messages: Messages, *, max_bytes: int, **asked: Any) -> Reply:
        """As :meth:`reply`, from code that waits, over a connection of its own."""

        async def once() -> Reply:
            async with connected(self.endpoint, max_bytes) as api:
                return await self.reply(api, messages, **asked)

        return run(once())
