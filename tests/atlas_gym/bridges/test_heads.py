"""A real server, and strangers that connect and never finish their requests."""

import asyncio
import socket
import threading

import pytest

uvicorn = pytest.importorskip("uvicorn", reason="needs the extra `serve`")

from atlas_gym.bridges.guard import Guard  # noqa: E402
from atlas_gym.bridges.heads import PromptHeads  # noqa: E402


class Impatient(PromptHeads):
    head_s = 0.3
    most_waiting = 20
    waiting = {}  # noqa: RUF012


class Patient(Impatient):
    head_s = 1000.0
    waiting = {}  # noqa: RUF012


async def application(scope, receive, send):
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"2")]})
    await send({"type": "http.response.body", "body": b"ok"})


@pytest.fixture
def serve():
    """Start a server with this protocol; gives its port."""
    running = []

    def start(protocol):
        listening = socket.create_server(("127.0.0.1", 0))
        guarded = Guard(application, "token", 100, max_requests=2)
        server = uvicorn.Server(uvicorn.Config(guarded, http=protocol, lifespan="off", log_level="critical"))
        thread = threading.Thread(target=lambda: asyncio.run(server.serve([listening])))
        thread.start()
        running.append((server, thread))
        return listening.getsockname()[1]

    yield start
    for server, thread in running:
        server.should_exit = server.force_exit = True
        thread.join(60)


def begin(port, text=b"GET / HTTP/1.1\r\nHost: a\r\n"):
    stranger = socket.create_connection(("127.0.0.1", port), timeout=60)
    stranger.sendall(text)
    return stranger


def answer(connection, token="token"):
    connection.sendall(f"GET / HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer {token}\r\n\r\n".encode())
    said = b""
    while part := connection.recv(1000):
        said += part
        if said.endswith((b"ok", b"wrong token")):
            break
    return said.split(b"\r\n")[0]


def gone(connection):
    try:
        return connection.recv(1) == b""
    except ConnectionResetError:
        return True


def test_a_head_that_is_not_finished_is_not_waited_for(serve):
    port = serve(Impatient)
    assert all(gone(begin(port, text)) for text in (b"", b"GET / HTT", b"GET / HTTP/1.1\r\nHost: a\r\n"))
    asked = begin(port, b"")
    assert b"200" in answer(asked)
    asked.sendall(b"GET /")  # a second head on the same connection
    while not gone(asked):
        pass


def test_a_hundred_of_them_keep_nobody_out(serve):
    port = serve(Patient)
    strangers = [begin(port) for _ in range(100)]
    honest = begin(port, b"")
    assert b"200" in answer(honest)
    assert b"200" in answer(honest)  # on the connection that is kept
    assert b"401" in answer(begin(port, b""), "wrong")
    assert all(gone(stranger) for stranger in strangers[:80])
