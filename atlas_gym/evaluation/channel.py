"""Tasks, and the trusted end of the conversation with the worker that runs a program.

A task names the entry function and the driver, and its `judge` plays the trusted side. Hidden state (parameters,
noise, test sets) is built inside `judge`, or cached per process by it: never in the worker, never in the pickle. The
driver is a module that runs beside the program in the worker, imports only the standard library and numpy (and torch
where `torch` is true), and offers

    def serve(load, pipe):          # load: () -> the entry function, from a fresh run of the program
        policy = load()             # once per replica: replicas do not share globals
        header = pipe.receive(8)    # exactly 8 bytes, as sent by `judge`
        pipe.send(payload)          # arrives at `judge` as channel.receive(len(payload))

`judge` and `serve` must agree on sizes and order; a program that breaks the order only fails. There is no time-out
here: a worker that stalls is killed by the fork server's watchdog, which ends the pipe and every blocked call. The
hot path is one `os.write` and one `os.read` per exchange.
"""

import os
import select
from struct import Struct
from typing import TYPE_CHECKING, Protocol, TypeAlias

from atlas_gym.evaluation.result import Judgement, Limits, Status
from atlas_gym.sandbox.wire import DATA, ERROR, ERROR_HEAD, ERROR_KINDS, write_all

if TYPE_CHECKING:
    import numpy as np

_CHUNK = 65536
"""Bytes that are read at a time."""
_USUAL_REPLY = 8192
"""Replies up to this long arrive in one read."""

_ERROR_TAG = bytes((ERROR,))

Buffer: TypeAlias = "bytes | bytearray | memoryview | np.ndarray"


class CandidateError(Exception):
    """The program failed, as its worker or the task says: `CandidateError("the policy chose arm 7 of 5")`."""

    def __init__(self, text: str, status: Status = Status.ERROR) -> None:
        super().__init__(text)
        self.text = text
        self.status = status


class ChannelClosed(Exception):
    """The worker is gone, or closed its end."""


class Channel:
    """Fixed-size messages to and from one worker over two pipes that the channel owns."""

    def __init__(self, read_fd: int, write_fd: int) -> None:
        self._read_fd = read_fd
        self._write_fd = write_fd

    def send(self, data: Buffer) -> None:
        """Send bytes or a C-contiguous array. Raises as `receive` does if the worker is gone."""
        view = memoryview(data)  # type: ignore[arg-type]  # arrays have the buffer protocol
        try:
            sent = os.write(self._write_fd, view)
            if sent != view.nbytes:
                write_all(self._write_fd, view.cast("B")[sent:])
        except BrokenPipeError:  # maybe it has said why
            raise (self._reported_failure(b"") if self.unread() == _ERROR_TAG else ChannelClosed()) from None

    def receive(self, n: int) -> bytes:
        """The next message's payload of exactly `n` bytes.

        Raises `CandidateError` if the worker reports a failure or breaks the format, `ChannelClosed` at
        the end of the pipe.
        """
        message = os.read(self._read_fd, n + 1)
        if not message or message[0] != DATA:
            raise self._what_came_instead(message)
        return (message if len(message) > n else self._complete(message, n + 1))[1:]

    def exchange(self, data: Buffer, n: int) -> bytes:
        """`send(data)`, then `receive(n)`: one step of a conversation in lockstep."""
        self.send(data)
        return self.receive(n)

    def converse(self, request: bytearray, head: Struct, most_bytes: int) -> bytes:
        """Send a request and return the whole reply, whose head (tag and length) says how long the rest is.

        Memory is taken for bytes that have arrived, at most `most_bytes` and whatever the head claims. Raises
        `CandidateError` if the worker reports a failure, breaks the format, or says more than it was asked for, and
        `ChannelClosed` at the end of the pipe.
        """
        self.send(request)
        reply = os.read(self._read_fd, _USUAL_REPLY)
        if not reply or reply[0] != DATA:
            raise self._what_came_instead(reply)
        if len(reply) < head.size:
            reply = self._complete(reply, head.size)
        missing = head.size + head.unpack_from(reply)[1] - len(reply)
        if missing == 0:
            return reply
        if missing < 0:  # it may have failed right after its answer, for want of memory say
            if reply[missing] == ERROR:
                raise self._reported_failure(reply[len(reply) + missing + 1 :])
            raise CandidateError("the program answered more than once", Status.VIOLATION)
        if missing > most_bytes:
            raise CandidateError(f"an answer of more than {most_bytes >> 20} MiB")
        return self._complete(reply, len(reply) + missing)

    def unread(self) -> bytes:
        """A byte that the worker has sent unasked; empty if it has not, or at the end of the pipe."""
        os.set_blocking(self._read_fd, False)
        try:
            return os.read(self._read_fd, 1)
        except BlockingIOError:
            return b""
        finally:
            os.set_blocking(self._read_fd, True)

    def readable(self, seconds: float) -> bool:
        """Whether the worker says something, or ends, within `seconds`."""
        poll = select.poll()
        poll.register(self._read_fd, select.POLLIN)
        return bool(poll.poll(seconds * 1000))

    def close(self) -> None:
        """Close both pipe ends; a second call does nothing."""
        for fd in (self._read_fd, self._write_fd):
            if fd >= 0:
                os.close(fd)
        self._read_fd = self._write_fd = -1

    __del__ = close

    def _complete(self, head: bytes, n: int) -> bytes:
        parts, missing = [head], n - len(head)
        while missing > 0:
            part = os.read(self._read_fd, min(missing, _CHUNK))
            if not part:
                raise ChannelClosed
            parts.append(part)
            missing -= len(part)
        return b"".join(parts)

    def _what_came_instead(self, head: bytes) -> CandidateError | ChannelClosed:
        """The exception for something that does not begin as an answer does."""
        if not head:
            return ChannelClosed()
        if head[0] == ERROR:
            return self._reported_failure(head[1:])
        return CandidateError("the channel was written to by the program", Status.VIOLATION)

    def _reported_failure(self, head: bytes) -> CandidateError:
        head = self._complete(head, max(len(head), ERROR_HEAD.size))
        kind, length = ERROR_HEAD.unpack_from(head)
        text = self._complete(head, max(len(head), ERROR_HEAD.size + length))
        status = Status(ERROR_KINDS[kind]) if kind < len(ERROR_KINDS) else Status.VIOLATION
        return CandidateError(text[ERROR_HEAD.size :].decode("utf-8", "replace"), status)


class Task(Protocol):
    """One scored problem for programs: small, frozen, picklable. See the module's docstring."""

    @property
    def function(self) -> str:
        """Name of the entry function that a program must define."""

    @property
    def driver(self) -> str:
        """Importable module that serves the program in the worker."""

    @property
    def torch(self) -> bool:
        """Whether workers come with torch imported."""

    @property
    def imports(self) -> tuple[str, ...]:
        """Further modules that workers come with."""

    @property
    def limits(self) -> Limits:
        """Of one evaluation."""

    def prepare(self) -> None:
        """Draw what is hidden, or see that it is there; called before the program's clock starts."""

    def judge(self, channel: Channel) -> Judgement:
        """Play the trusted side and score the program.

        Raises `CandidateError` for an answer that is not acceptable, and lets those of the channel pass.
        """
