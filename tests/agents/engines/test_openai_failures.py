"""The completions backend against servers that fail: every way ends, in a result or in what to do."""

import socket
import threading

import pytest

from atlas_gym.agents.engines.engine import EngineError
from atlas_gym.agents.population.candidate import Proposal
from tests.agents.completions_server import generator, texts, write
from tests.agents.supporters import server as s


@pytest.fixture(autouse=True)
def quick(monkeypatch):
    monkeypatch.setattr("atlas_gym.agents.engines.api._PAUSE_S", 0.02)


ENDING = {
    "status 500": (s.respond(b"oops", "500 Internal Server Error"), "HTTP status 500"),
    "status 429": (s.respond(b"{}", "429 Too Many Requests"), "HTTP status 429"),
    "ten megabytes": (s.ten_megabytes, "exceeds 100000 bytes"),
    "endless stream": (s.endless, "exceeds 100000 bytes"),
    "endless headers": (s.endless_headers, "exchange failed"),
    "closes midway": (s.closes_midway, "exchange failed"),
    "not HTTP": (s.not_http, "exchange failed"),
    "compressed": (s.respond(b"\x1f\x8b", headers="Content-Encoding: gzip\r\n"), "compressed"),
    "HTML": (s.respond(b"<html>busy</html>"), "not a completion"),
    "nested JSON": (s.respond(b"[" * 90_000), "not a completion"),
    "a list": (s.respond(b"[]"), "not a completion"),
    "no choices": (s.respond(b'{"choices": []}'), "not a completion"),
    "a choice of the wrong type": (s.respond(b'{"choices": [7]}'), "not a completion"),
    "text null": (s.respond(b'{"choices": [{"text": null}]}'), "no text"),
    "chat instead": (s.say("hello"), "not a completion"),
}  # fmt: skip


@pytest.mark.parametrize("name", ENDING)
def test_a_broken_server_ends_the_run_with_what_to_do(name):
    behaviour, reason = ENDING[name]
    with s.serve(behaviour) as server:
        with pytest.raises(EngineError, match="resume the run") as raised:
            generator(server.base_url).generate([Proposal("a", 8)])
        assert reason in str(raised.value)


@pytest.mark.parametrize("stalling", [s.silence, s.drip_headers, s.drip_body, s.endless_chunks])
def test_a_stalling_server_is_left_at_the_deadline(stalling):
    with s.serve(stalling) as server, pytest.raises(EngineError, match="no complete reply within"):
        generator(server.base_url, deadline_s=0.3).generate([Proposal("a", 2)])


def test_an_outage_is_waited_for():
    down = s.respond(b"", "503 Service Unavailable")
    with s.serve(*[down] * 9, write(" 1")) as server:
        (row,) = generator(server.base_url, wait_s=60.0).generate([Proposal("a", 3)])
    assert [c.text for c in row] == [" 1\n"] * 3


def test_an_unreachable_server_ends_the_run_when_patience_does():
    with socket.socket() as taken:  # bound, not listening: connections are refused
        taken.bind(("127.0.0.1", 0))
        address = f"http://127.0.0.1:{taken.getsockname()[1]}/v1"
        with pytest.raises(EngineError, match="cannot be reached"):
            generator(address, wait_s=0.2).generate([Proposal("a", 1)])


def test_one_sample_that_keeps_failing_is_given_up_while_others_are_written():
    seeds = set()

    def moody(received, send):
        seed = received.body.get("seed")  # the question whether the server is alive has none
        seeds.add(seed)
        unlucky = seed is not None and seed == first[0]
        (s.respond(b"", "500 Internal Server Error") if unlucky else write(" 1"))(received, send)

    first = [None]
    request = Proposal("a", 4)
    with s.serve(moody) as server:
        generator(server.base_url, concurrency=1).generate([request])
        first[0] = sorted(seeds)[0]
        backend = generator(server.base_url, wait_s=60.0, concurrency=2)
        (row,) = backend.generate([request])
    assert sorted(c.text for c in row) == ["", " 1\n", " 1\n", " 1\n"]
    assert [c.finished for c in row].count(False) == 1


def test_requests_that_the_server_calls_wrong():
    def picky(received, send):
        long = len(received.body["prompt"]) > 10
        (s.respond(b"{}", "400 Bad Request") if long else write(" 1"))(received, send)

    with s.serve(picky) as server:
        backend = generator(server.base_url, wait_s=60.0)
        found = backend.generate([Proposal("a", 1), Proposal("a" * 50, 2)])
        assert texts(found) == [[" 1\n"], ["", ""]]
        with pytest.raises(EngineError, match=r"refused all of 2 requests.*response_format: none"):
            backend.generate([Proposal("a" * 50, 2)])


@pytest.mark.parametrize(
    ("status", "help"),
    [("401 Unauthorized", "api_key_env"), ("404 Not Found", "'m'"), ("301 Moved", "served elsewhere")],
)
def test_a_wrong_address_or_key_is_an_error_at_once(status, help):
    with s.serve(s.respond(b"{}", status)) as server:
        with pytest.raises(EngineError, match=help):
            generator(server.base_url, wait_s=3600.0, concurrency=1).generate([Proposal("a", 4)])
        assert len(server.requests) == 1


@pytest.mark.parametrize("address", ["http://host:port/v1", "http://256.256.256.256/v1", "http://ho\nst/v1"])
def test_an_address_that_is_none_is_not_waited_for(address):
    with pytest.raises(EngineError, match=r"base_url, or .* is wrong at http"):
        generator(address, wait_s=3600.0).generate([Proposal("a", 2)])


def test_a_server_that_speaks_no_https_is_not_waited_for():
    with socket.create_server(("127.0.0.1", 0)) as plain:

        def answer():
            with plain.accept()[0] as caller:
                caller.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")
                caller.recv(10_000)

        threading.Thread(target=answer, daemon=True).start()
        address = f"https://127.0.0.1:{plain.getsockname()[1]}/v1"
        with pytest.raises(EngineError, match="speaks no https at https://127"):
            generator(address, wait_s=60.0).generate([Proposal("a", 1)])


def test_the_key_is_sent_and_appears_nowhere_else(monkeypatch, caplog):
    monkeypatch.setenv("GENERATION_TEST_KEY", "sk-very-secret")

    def echo(received, send):
        write(received.headers["authorization"])(received, send)

    with s.serve(echo) as server:
        (row,) = generator(server.base_url, api_key_env="GENERATION_TEST_KEY").generate([Proposal("a", 1)])
    assert row[0].text == "Bearer [key]\n"
    assert "sk-very-secret" not in caplog.text
    monkeypatch.delenv("GENERATION_TEST_KEY")
    with s.serve(echo) as server:
        with pytest.raises(EngineError, match="GENERATION_TEST_KEY is not set"):
            generator(server.base_url, api_key_env="GENERATION_TEST_KEY").generate([Proposal("a", 1)])
        assert server.requests == []
