"""The guard alone: every kind of request through a bare ASGI application."""

import asyncio

import pytest

from atlas_gym.bridges.guard import Guard

HEADERS = [(b"authorization", b"Bearer secret")]


async def application(scope, receive, send):
    if scope["type"] == "http":
        message = await receive()
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": message["body"]})
    else:
        await send({"type": f"{scope['type']}.reached"})


def call(scope, *messages, max_bytes=10):
    """What the guarded application sends in answer to these messages."""
    sent, pending = [], list(messages)

    async def receive():
        return pending.pop(0)

    async def send(message):
        sent.append(message)

    asyncio.run(Guard(application, "secret", max_bytes, 1)(scope, receive, send))
    return sent


def body(data, more=False):
    return {"type": "http.request", "body": data, "more_body": more}


def test_a_request_with_the_token_passes_whole():
    sent = call({"type": "http", "headers": HEADERS}, body(b"12345", more=True), body(b"67890"))
    assert [message.get("status", message.get("body")) for message in sent] == [200, b"1234567890"]


def test_without_a_token_there_is_no_guard_and_the_applications_start_passes():
    with pytest.raises(ValueError, match="the token is empty"):
        Guard(application, "", 10, 1)
    assert call({"type": "lifespan"}) == [{"type": "lifespan.reached"}]


def test_a_client_that_leaves_within_its_body_gets_no_answer():
    assert (
        call({"type": "http", "headers": HEADERS}, body(b"1", more=True), {"type": "http.disconnect"}) == []
    )


@pytest.mark.parametrize(
    "headers",
    [[], [(b"authorization", b"secret")], [(b"authorization", b"Bearer secrets")], [(b"cookie", b"a")]],
)
def test_other_tokens_do_not(headers):
    assert call({"type": "http", "headers": headers}, body(b""))[0]["status"] == 401
    closed = call({"type": "websocket", "headers": headers}, {"type": "websocket.connect"})
    assert [message["type"] for message in closed] == ["websocket.close"]


@pytest.mark.parametrize("length", [[], [(b"content-length", b"1")]], ids=["unsaid", "a lie"])
def test_a_long_body_is_refused_before_it_is_read_to_the_end(length):
    endless = [body(b"1234", more=True)] * 3  # a fourth read would fail
    sent = call({"type": "http", "headers": HEADERS + length}, *endless)
    assert sent[0]["status"] == 413


def test_a_body_that_does_not_arrive_is_not_waited_for(monkeypatch):
    monkeypatch.setattr(Guard, "body_s", 0.01)
    sent = []

    async def never():
        await asyncio.Event().wait()

    async def send(message):
        sent.append(message)

    asyncio.run(Guard(application, "secret", 10, 1)({"type": "http", "headers": HEADERS}, never, send))
    assert sent[0]["status"] == 408


def test_a_socket_that_asks_nothing_is_closed(monkeypatch):
    monkeypatch.setattr(Guard, "idle_s", 0.01)
    received, sent = [], []

    async def session(scope, receive, send):
        received.append(await receive())

    async def never():
        await asyncio.Event().wait()

    async def send(message):
        sent.append(message)

    asyncio.run(Guard(session, "secret", 10, 1)({"type": "websocket", "headers": HEADERS}, never, send))
    assert (received[0]["type"], sent[0]["type"]) == ("websocket.disconnect", "websocket.close")
    assert sent[0]["reason"] == "nothing was asked for 0.01 s"


def test_of_those_with_the_token_only_so_many_are_let_in_at_a_time():
    statuses = []

    async def meet():
        inside, leave = asyncio.Event(), asyncio.Event()

        async def slow(scope, receive, send):
            inside.set()
            await leave.wait()

        async def send(message):
            statuses.append(message.get("status"))

        async def receive():
            return body(b"")

        guard = Guard(slow, "secret", 10, max_requests=1)
        first = asyncio.create_task(guard({"type": "http", "headers": HEADERS}, receive, send))
        await inside.wait()
        await guard({"type": "http", "headers": []}, receive, send)
        await guard({"type": "http", "headers": HEADERS}, receive, send)
        leave.set()
        await first
        await guard({"type": "http", "headers": HEADERS}, receive, send)

    asyncio.run(meet())
    assert [status for status in statuses if status] == [401, 503]


@pytest.mark.parametrize("messages", [1, 1000], ids=["leaves", "asks far ahead"])
def test_a_session_whose_client_leaves_is_broken_off_where_it_is(messages, caplog):
    ended = []

    async def busy(scope, receive, send):
        try:
            await receive()
            await asyncio.Event().wait()
        finally:
            ended.append(True)

    async def converse():
        said = iter([{"type": "websocket.receive"}] * messages + [{"type": "websocket.disconnect"}])

        async def receive():
            return next(said)

        await asyncio.wait_for(
            Guard(busy, "secret", 10, 1)({"type": "websocket", "headers": HEADERS}, receive, None), 60
        )

    asyncio.run(converse())
    assert ended
    assert len(caplog.records) == 1
