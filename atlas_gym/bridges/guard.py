"""What stands before the served environments: a token on every request, limits on size and number.

ASGI middleware in front of everything, documentation and sockets included. Sizes of WebSocket messages are
limited by the server itself (see `serve`).
"""

import asyncio
import logging
import secrets
from collections.abc import Awaitable, Callable, MutableMapping
from functools import partial
from typing import Any, ClassVar

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
_AHEAD = 16
"""Messages of a client that may wait for the one before them."""
_LEFT: Message = {"type": "websocket.disconnect", "code": 1001}
_log = logging.getLogger(__name__)

App = Callable[[Message, Receive, Send], Awaitable[None]]


class Guard:
    """Lets a request through if it carries `Authorization: Bearer TOKEN`, is not too long, and not one too many.

    Only requests with the token count. A body has its time to arrive, and a session its time to go on.
    """

    body_s: ClassVar[float] = 30.0
    """Seconds from a request's head to the end of its body."""
    idle_s: ClassVar[float] = 3600.0
    """Seconds for which a session may ask nothing; then it is over."""

    def __init__(self, app: App, token: str, max_bytes: int, max_requests: int):
        if not token:
            raise ValueError("the token is empty: everybody would know it")
        self.app = app
        self.expected = f"bearer {token}".encode()
        self.max_bytes = max_bytes
        self.max_requests = max_requests
        self._under_way = 0

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self.app(scope, receive, send)
        elif not secrets.compare_digest(_authorization(scope), self.expected):
            await _refuse(scope, receive, send, 401, "missing or wrong token")
        elif self._under_way >= self.max_requests:
            await _refuse(scope, receive, send, 503, f"{self.max_requests} requests are under way already")
        else:
            self._under_way += 1
            try:
                await self._pass(scope, receive, send)
            finally:
                self._under_way -= 1

    async def _pass(self, scope: Message, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._converse(scope, partial(self._asked, receive, send), send)
            return
        try:
            async with asyncio.timeout(self.body_s):
                body = await _read(receive, self.max_bytes)
        except TimeoutError:
            await _refuse(scope, receive, send, 408, f"the body took more than {self.body_s:g} s")
            return
        if body is None:
            return
        if len(body) > self.max_bytes:
            await _refuse(scope, receive, send, 413, f"more than {self.max_bytes} bytes")
            return
        pending = [{"type": "http.request", "body": body, "more_body": False}]

        async def replay() -> Message:
            return pending.pop() if pending else await receive()

        await self.app(scope, replay, send)

    async def _converse(self, scope: Message, receive: Receive, send: Send) -> None:
        """A socket's session, which is broken off where it is once its client leaves or asks far ahead."""
        waiting: asyncio.Queue[Message] = asyncio.Queue()
        session = asyncio.ensure_future(self.app(scope, waiting.get, send))

        async def listen() -> None:
            try:
                while waiting.qsize() < _AHEAD and (message := await receive())["type"] != _LEFT["type"]:
                    waiting.put_nowait(message)
                waiting.put_nowait(_LEFT)
                await asyncio.wait([session], timeout=0.1)
            finally:
                session.cancel()

        listening = asyncio.create_task(listen())
        try:
            await session
        except asyncio.CancelledError:
            if not listening.done():  # the server stops
                raise
            _log.warning("a client has left: its session is closed, and what it still waited for")
        finally:
            listening.cancel()

    async def _asked(self, receive: Receive, send: Send) -> Message:
        """A socket's next message; its end if none comes."""
        try:
            async with asyncio.timeout(self.idle_s):
                return await receive()
        except TimeoutError:
            reason = f"nothing was asked for {self.idle_s:g} s"
            await send({"type": "websocket.close", "code": 1001, "reason": reason})
            return {"type": "websocket.disconnect", "code": 1001}


def _authorization(scope: Message) -> bytes:
    scheme, space, token = dict(scope["headers"]).get(b"authorization", b"").partition(b" ")
    return scheme.lower() + space + token  # RFC 9110: the scheme in any case


async def _read(receive: Receive, max_bytes: int) -> bytes | None:
    """A body as far as the limit, a length in the header may be missing or a lie; None if its client leaves."""
    body = bytearray()
    while len(body) <= max_bytes:
        message = await receive()
        if message["type"] == "http.disconnect":
            return None
        body += message.get("body", b"")
        if not message.get("more_body", False):
            break
    return bytes(body)


async def _refuse(scope: Message, receive: Receive, send: Send, status: int, reason: str) -> None:
    if scope["type"] == "websocket":
        await receive()
        await send({"type": "websocket.close", "code": 1008, "reason": reason})  # before accepting: HTTP 403
        return
    headers = [(b"content-type", b"text/plain"), (b"connection", b"close")]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": reason.encode()})
