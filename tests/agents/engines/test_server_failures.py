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


def test_an_outage_is_waited_for(caplog):
    down = s.respond(b"", "503 Service Unavailable")
    with s.serve(*[down] * 9, write(" 1")) as server:
        (row,) = generator(server.base_url, wait_s=60.0).generate([Proposal("a", 3)])
    assert [c.text for c in row] == [" 1\n"] * 3
    (told,) = [record.getMessage() for record in caplog.records]
    assert "503; waiting, up to 60 s" in told


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


def test_a_wrong_key_is_an_error_at_once():
    with s.serve(s.respond(b"{}", "401 Unauthorized")) as server:
        with pytest.raises(EngineError, match="api_key_env"):
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
