"""Pickled messages between the pool and its referees. Both ends are trusted; no worker has either."""

import pickle
import socket
import struct
from typing import Any

_LENGTH = struct.Struct("<Q")


class PeerGone(Exception):
    """The other end closed, died or broke off in the middle of a message."""


def send_frame(connection: socket.socket, message: Any) -> None:
    """Send one object. Raises `PeerGone`, or what pickling it raises."""
    data = pickle.dumps(message, protocol=pickle.HIGHEST_PROTOCOL)
    try:
        connection.sendall(_LENGTH.pack(len(data)) + data)
    except OSError:
        raise PeerGone from None


def receive_frame(connection: socket.socket) -> Any:
    """Receive one object. Raises `PeerGone`, and `TimeoutError` if the socket has a time-out."""
    (length,) = _LENGTH.unpack(_receive_exactly(connection, _LENGTH.size))
    return pickle.loads(_receive_exactly(connection, length))


def _receive_exactly(connection: socket.socket, n: int) -> bytes:
    data = bytearray(n)
    view, got = memoryview(data), 0
    while got < n:
        try:
            more = connection.recv_into(view[got:])
        except TimeoutError:
            raise
        except OSError:
            more = 0
        if more == 0:
            raise PeerGone
        got += more
    return bytes(data)
