"""A chat server on the loopback address that behaves as badly as a test tells it to."""

import contextlib
import json
import socketserver
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

Write = Callable[[bytes], None]


class Received(NamedTuple):
    """One request as the server saw it."""

    headers: dict[str, str]
    body: dict[str, Any]


Behaviour = Callable[[Received, Write], None]


class ScriptedServer(NamedTuple):
    base_url: str
    requests: list[Received]


@contextlib.contextmanager
def serve(*script: Behaviour) -> Iterator[ScriptedServer]:
    """Answers the n-th request with the n-th behaviour, the last one from then on."""
    stopping = threading.Event()

    class Handler(socketserver.StreamRequestHandler):
        def handle(self) -> None:
            received = _read_request(self.rfile)
            if received is None:
                return

            def write(data: bytes) -> None:
                if stopping.is_set():
                    raise ConnectionAbortedError
                self.wfile.write(data)

            scripted.requests.append(received)
            with contextlib.suppress(OSError):
                script[min(len(scripted.requests), len(script)) - 1](received, write)

    class Server(socketserver.ThreadingTCPServer):
        allow_reuse_address = True
        daemon_threads = True
        block_on_close = False

    with Server(("127.0.0.1", 0), Handler) as server:
        scripted = ScriptedServer(f"http://127.0.0.1:{server.server_address[1]}/v1", [])
        thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
        thread.start()
        try:
            yield scripted
        finally:
            stopping.set()
            server.shutdown()
            thread.join()


def _read_request(stream: Any) -> Received | None:
    headers: dict[str, str] = {}
    stream.readline()
    while line := stream.readline().strip():
        name, _, value = line.decode().partition(":")
        headers[name.lower()] = value.strip()
    body = stream.read(int(headers.get("content-length", 0)))
    return Received(headers, json.loads(body)) if body else None


def respond(body: bytes, status: str = "200 OK", headers: str = "") -> Behaviour:
    """A complete, well-formed HTTP response."""

    def behave(_: Received, write: Write) -> None:
        head = f"HTTP/1.1 {status}\r\nContent-Type: application/json\r\nConnection: close\r\n"
        head += f"Content-Length: {len(body)}\r\n{headers}\r\n"
        write(head.encode() + body)

    return behave


def envelope(content: Any, usage: Any = None) -> bytes:
    """A chat completion with this content."""
    message = {"role": "assistant", "content": content}
    reply = {"object": "chat.completion", "choices": [{"index": 0, "message": message}], "usage": usage}
    return json.dumps(reply).encode()


def say(content: Any, usage: Any = None) -> Behaviour:
    """A chat completion with this content, sent properly."""
    return respond(envelope(content, usage))


_START = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n"


def ten_megabytes(_: Received, write: Write) -> None:
    body = envelope("x" * 10_000_000)
    write(_START + f"Content-Length: {len(body)}\r\n\r\n".encode() + body)


def endless(_: Received, write: Write) -> None:
    write(_START + b"Connection: close\r\n\r\n")
    while True:
        write(b" " * 65536)


def endless_chunks(_: Received, write: Write) -> None:
    write(_START + b"Transfer-Encoding: chunked\r\n\r\n")
    while True:
        write(b"1\r\n \r\n")
        time.sleep(0.01)


def endless_continue(_: Received, write: Write) -> None:
    while True:
        write(b"HTTP/1.1 100 Continue\r\n\r\n" * 100)


def endless_headers(_: Received, write: Write) -> None:
    write(_START)
    while True:
        write(b"X-More: " + b"x" * 1000 + b"\r\n")


def drip_body(_: Received, write: Write) -> None:
    body = envelope('{"critique": "slow"}')
    write(_START + f"Content-Length: {len(body)}\r\n\r\n".encode())
    for byte in body:
        write(bytes([byte]))
        time.sleep(0.2)


def silence(_: Received, write: Write) -> None:
    while True:
        time.sleep(0.05)
        write(b"")


def closes_midway(_: Received, write: Write) -> None:
    write(_START + b"Content-Length: 5000\r\n\r\n" + b'{"choices": [{"message"')


def not_http(_: Received, write: Write) -> None:
    write(b"220 mail.example ESMTP\r\n\xff\xfe\x00")


def echo_key(received: Received, write: Write) -> None:
    """Quotes the caller's key in an otherwise perfect reply."""
    secret = received.headers.get("authorization", "")
    reply = {"critique": f"your header was {secret}", "reason": secret, "decision": "accept"}
    say(json.dumps(reply))(received, write)


ENDING = {
    "ten megabytes": (ten_megabytes, "exceeds 100000 bytes"),
    "endless stream": (endless, "exceeds 100000 bytes"),
    "endless headers": (endless_headers, "exchange failed"),
    "closes midway": (closes_midway, "exchange failed"),
    "not HTTP": (not_http, "exchange failed"),
    "status 500": (respond(b"oops", "500 Internal Server Error"), "HTTP status 500"),
    "redirect": (respond(b"", "307 Moved", "Location: http://127.0.0.1:9/\r\n"), "HTTP status 307"),
    "compressed": (respond(b"\x1f\x8b\x08", headers="Content-Encoding: gzip\r\n"), "compressed"),
    "empty body": (respond(b""), "not a completion"),
    "HTML": (respond(b"<html>busy</html>"), "not a completion"),
    "nested JSON": (respond(b"[" * 90_000), "not a completion"),
    "invalid UTF-8": (respond(b"\xff\xfe" * 100), "not a completion"),
    "no choices": (respond(b'{"choices": []}'), "not a completion"),
    "choices of the wrong type": (respond(b'{"choices": {"0": 1}}'), "not a completion"),
    "content null": (say(None), "holds no text"),
    "content without text": (say([{"type": "image_url", "image_url": "x"}]), "holds no text"),
    "prose": (say("I would rather not."), "no JSON object"),
    "wrong types": (say('{"critique": 3, "reason": [], "decision": "promote"}'), "does not fit the schema"),
    "not a number": (say('{"critique": NaN, "reason": Infinity, "decision": -Infinity}'), "does not fit the schema"),
    "nothing but braces": (say("{" * 16_000), "no JSON object"),
    "too long a reply": (say("x" * 70_000), "longer than 65536 characters"),
    "reasoning without end": (say('<think>{"reason": "r", "decision": "veto"}'), "no JSON"),
    "wrong usage": (say("no", {"prompt_tokens": "many", "completion_tokens": -5}), "no JSON object"),
}  # fmt: skip
"""Behaviours after which a call ends at once, each with what its record says."""

STALLING = {
    "silence": silence,
    "body byte by byte": drip_body,
    "endless chunks": endless_chunks,
    "endless 100 Continue": endless_continue,
}
"""Behaviours that only a deadline ends."""
