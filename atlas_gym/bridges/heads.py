"""Connections that never finish asking: each has a few seconds, and of too many the oldest goes.

A request's head comes before its token, so whoever can connect may hold connections open. Under uvicorn's own
`limit_concurrency` they count, and 80 of them shut everybody out; here only requests with a token count (see
`guard`), and the others have a place of their own, which they lose.
"""

import asyncio
from typing import Any, ClassVar

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol


class PromptHeads(H11Protocol):
    """uvicorn's HTTP/1.1 with a deadline for every request's head."""

    head_s: ClassVar[float] = 10.0
    """Seconds from the connection, or the answer before, to the end of a request's head."""
    most_waiting: ClassVar[int] = 256
    """Connections without a whole head; one more and the oldest of them is closed."""
    waiting: ClassVar[dict["PromptHeads", asyncio.TimerHandle]] = {}
    """Those connections, oldest first, and what will close them."""

    def connection_made(self, transport: Any) -> None:
        """Begin to wait for a head."""
        super().connection_made(transport)
        self._wait()

    def data_received(self, data: bytes) -> None:
        """Stop waiting once the head is whole; h11 then has left its idle state."""
        super().data_received(data)
        if self.conn.their_state is not h11.IDLE:
            self._stop_waiting()

    def on_response_complete(self) -> None:
        """The next head has as long as the first."""
        super().on_response_complete()
        if self.conn.their_state is h11.IDLE and not self.transport.is_closing():
            self._wait()

    def connection_lost(self, exc: Exception | None) -> None:
        """Nobody to wait for."""
        self._stop_waiting()
        super().connection_lost(exc)

    def _wait(self) -> None:
        self._stop_waiting()
        if len(self.waiting) >= self.most_waiting:
            next(iter(self.waiting))._give_up()
        self.waiting[self] = self.loop.call_later(self.head_s, self._give_up)

    def _stop_waiting(self) -> None:
        if timer := self.waiting.pop(self, None):
            timer.cancel()

    def _give_up(self) -> None:
        self._stop_waiting()
        self.transport.abort()
