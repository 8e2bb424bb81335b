"""The chat engine: what it sends, what it leaves out when refused, what it costs, and what ends it."""

import codecs
import json
import threading
from dataclasses import replace
from itertools import count

import pytest

from atlas_gym.agents.engines.client import proxy_of
from atlas_gym.agents.engines.engine import Completion, EngineError, Sampling
from atlas_gym.agents.engines.open_engine import open_engine
from atlas_gym.agents.engines.settings import EngineSettings, ServerSettings
from atlas_gym.agents.engines.spending import LEDGER, total
from tests.agents.engines.chat_backend import ASKED, SAID, YES, ask, backend
from tests.agents.supporters import server as s


@pytest.fixture(autouse=True)
def quick(monkeypatch):
    monkeypatch.setattr("atlas_gym.agents.engines.api._PAUSE_S", 0.02)


def refusing(*names, quote=True):
    """A server that knows neither of these fields, and may say which."""

    def behave(received, write):
        wrong = [name for name in names if name in received.body]
        reason = json.dumps(
            {"error": {"message": f"Unsupported parameter: '{wrong[0]}'" if wrong and quote else "no"}}
        )
        (s.respond(reason.encode(), "400 Bad Request") if wrong else SAID)(received, write)

    return behave


def test_request_follows_the_protocol(tmp_path):
    with s.serve(YES, SAID) as server:
        ((completion,),) = ask(server, tmp_path, extra={"reasoning_effort": "low"}, max_tokens=700)
    assert completion == Completion('{"program": "x = 1"}', 20, True)
    body = server.requests[1].body
    assert (body["model"], body["max_tokens"], body["temperature"], body["stream"]) == ("m", 700, 0.8, False)
    assert body["reasoning_effort"] == "low"
    assert body["messages"][0]["role"] == "user"
    assert body["messages"][0]["content"].startswith("Improve it.")
    assert body["response_format"]["json_schema"]["schema"]["required"] == ["program"]
    assert 0 <= body["seed"] < 2**31


@pytest.mark.parametrize(
    "refused",
    [("seed",), ("response_format",), ("max_tokens", "temperature", "seed")],
)
def test_a_refused_field_is_left_out_and_remembered(refused, tmp_path):
    with s.serve(refusing(*refused)) as server:
        ask(server, tmp_path, ASKED, ASKED)
    last = server.requests[-1].body
    expected = {"temperature", "seed", "max_tokens", "response_format"} - set(refused)
    expected |= {"max_completion_tokens"} if "max_tokens" in refused else set()
    assert set(last) - {"model", "messages", "stream"} == expected
    # The greeting, two samples, and one more request for each refusal.
    assert len(server.requests) == 3 + len(refused)


def test_a_refusal_without_a_name_drops_the_response_format(tmp_path):
    with s.serve(refusing("response_format", quote=False)) as server:
        ask(server, tmp_path, ASKED, ASKED)
    assert ["response_format" in request.body for request in server.requests] == [False, True, False, False]
    assert "JSON" not in server.requests[-1].body["messages"][0]["content"]


def test_a_request_that_is_wrong_for_another_reason_teaches_nothing(tmp_path):
    numbers = count()

    def behave(received, write):
        wrong = next(numbers) in (1, 2)  # as sent, and without the response format
        (s.respond(b"the context is too long", "400 Bad Request") if wrong else SAID)(received, write)

    with s.serve(behave) as server:
        first, second = ask(server, tmp_path, ASKED, ASKED)
    assert (first, second[0].text) == ([Completion("", 0, False)], '{"program": "x = 1"}')
    assert "response_format" in server.requests[-1].body


def test_no_request_goes_without_a_limit_of_tokens(tmp_path):
    def behave(received, write):
        limited = "max_tokens" in received.body or "max_completion_tokens" in received.body
        long = "long" in received.body["messages"][0]["content"]
        refused = s.respond(b"'max_tokens' or 'max_completion_tokens' is too large", "400 Bad Request")
        (refused if limited and long else SAID)(received, write)

    with s.serve(behave) as server:
        first, second = ask(server, tmp_path, replace(ASKED, prompt="long"), ASKED)
    assert (first, second[0].text) == ([Completion("", 0, False)], '{"program": "x = 1"}')
    assert "max_tokens" in server.requests[-1].body
    assert all({"max_tokens", "max_completion_tokens"} & set(request.body) for request in server.requests)


def test_reasoning_that_takes_all_tokens_is_an_empty_sample(tmp_path):
    body = json.dumps({"choices": [{"message": {"content": None}, "finish_reason": "length"}]}).encode()
    with s.serve(YES, s.respond(body)) as server:
        assert ask(server, tmp_path) == [[Completion("", 0, False)]]
    assert len(server.requests) == 2


@pytest.mark.parametrize(
    "name", ["endless stream", "compressed", "nested JSON", "closes midway", "status 500"]
)
def test_an_endpoint_that_turns_hostile_ends_the_process_in_words(name, tmp_path):
    with (
        s.serve(YES, s.ENDING[name][0]) as server,
        pytest.raises(EngineError, match="resume the run") as raised,
    ):
        ask(server, tmp_path)
    assert s.ENDING[name][1] in str(raised.value)


def test_a_stalling_endpoint_is_left_at_the_deadline(tmp_path):
    stalling = s.serve(s.STALLING["body byte by byte"])
    with stalling as server, pytest.raises(EngineError, match="no complete reply within"):
        backend(server, tmp_path, deadline_s=0.3, reply_bytes=10**9)


def test_the_server_does_not_choose_the_codec_that_reads_its_reply(tmp_path):
    decoded: list[bytes] = []

    class Slowest(codecs.IncrementalDecoder):  # some take quadratic time, punycode for one
        def decode(self, data, final=False):
            decoded.append(bytes(data))
            return ""

    def search(name):
        known = codecs.lookup("utf-8")
        return (
            codecs.CodecInfo(known.encode, known.decode, incrementaldecoder=Slowest)
            if name == "slowest"
            else None
        )

    reply = s.respond(b"no JSON", "200 OK", "Content-Type: text/plain; charset=slowest\r\n")
    codecs.register(search)
    try:
        with s.serve(reply) as server, pytest.raises(EngineError):
            backend(server, tmp_path)
    finally:
        codecs.unregister(search)
    assert decoded == []


def test_what_is_under_way_when_the_budget_is_spent_is_entered(tmp_path):
    def behave(received, write):
        under_way.wait()  # all three have arrived
        if next(numbers) > 1:
            ended.wait(20)
        SAID(received, write)

    numbers, under_way, ended = count(1), threading.Barrier(3, timeout=20), threading.Event()
    with s.serve(YES, behave) as server:
        with pytest.raises(EngineError, match="is spent"):
            ask(server, tmp_path, *[ASKED] * 8, concurrency=3, budget_tokens=100)
        ended.set()
    assert total(tmp_path / LEDGER)["m at " + server.base_url]["requests"] == len(server.requests)


def test_an_endless_refusal_is_bounded(tmp_path):
    def endless(_, write):
        write(b"HTTP/1.1 400 Bad Request\r\nConnection: close\r\n\r\n")
        while True:
            write(b"max_tokens " * 6000)

    with s.serve(endless) as server, pytest.raises(EngineError, match="HTTP status 400"):
        backend(server, tmp_path)


@pytest.mark.parametrize(
    ("status", "help"),
    [
        ("308 Moved", "served elsewhere"),
        ("401 No", "api_key_env"),
        ("402 Pay", "credit"),
        ("404 No", "ends in /v1"),
    ],
)
def test_a_wrong_place_is_refused_at_the_start(status, help, tmp_path):
    with s.serve(s.respond(b"", status)) as server, pytest.raises(EngineError, match=help):
        backend(server, tmp_path)


def test_a_request_above_the_rate_is_asked_again_and_one_above_every_rate_is_given_up(tmp_path):
    numbers = count(1)

    def behave(received, write):
        long = received.body["messages"][0]["content"].startswith("Improve")
        spent = long and next(numbers) <= 5
        (s.respond(b"", "429 Slowly", "Retry-After-Ms: 1\r\n") if spent else SAID)(received, write)

    for attempts, given_up in ((6, 0), (2, 1)):
        numbers = count(1)
        with s.serve(behave) as server:
            rows = ask(server, tmp_path, ASKED, ASKED, wait_s=60.0, attempts=attempts)
        assert [row[0].text for row in rows].count("") == given_up


def test_no_redirect_is_followed_and_no_other_key_sent(tmp_path, monkeypatch):
    monkeypatch.setenv("CHAT_TEST_KEY", "sk-secret-0123456789")
    monkeypatch.setenv("OPENAI_API_KEY", "sk-another")
    monkeypatch.setenv("OPENAI_ADMIN_KEY", "sk-another")
    with s.serve(YES) as elsewhere:
        moved = s.respond(b"", "307 Moved", f"Location: {elsewhere.base_url}/chat/completions\r\n")
        with s.serve(moved) as server, pytest.raises(EngineError, match=r"307 .*served elsewhere"):
            backend(server, tmp_path, api_key_env="CHAT_TEST_KEY")
        assert elsewhere.requests == []
    with s.serve(YES) as server:
        backend(server, tmp_path)
    assert "sk-another" not in str(server.requests[0].headers)


@pytest.mark.parametrize("key", ["with\nnewline", "clé", "a\x7fb"])
def test_a_key_that_cannot_be_sent_is_not_quoted(key, tmp_path, monkeypatch):
    monkeypatch.setenv("CHAT_TEST_KEY", key)
    with s.serve(YES) as server, pytest.raises(EngineError, match="does not hold a usable key") as raised:
        backend(server, tmp_path, api_key_env="CHAT_TEST_KEY")
    assert server.requests == []
    assert key not in str(raised.value)


def test_the_key_is_sent_and_stored_nowhere(tmp_path, monkeypatch, caplog):
    monkeypatch.setenv("CHAT_TEST_KEY", "sk-secret-0123456789")
    with caplog.at_level("DEBUG"), s.serve(YES, s.echo_key) as server:
        ((completion,),) = ask(server, tmp_path, api_key_env="CHAT_TEST_KEY")
    assert server.requests[1].headers["authorization"] == "Bearer sk-secret-0123456789"
    assert "sk-secret" not in completion.text + caplog.text + (tmp_path / "spending.jsonl").read_text()
    monkeypatch.delenv("CHAT_TEST_KEY")
    with (
        s.serve(YES) as server,
        pytest.raises(
            EngineError, match=r"CHAT_TEST_KEY is not set at .*: correct that and give the command again"
        ),
    ):
        backend(server, tmp_path, api_key_env="CHAT_TEST_KEY")


@pytest.mark.parametrize("status", ["500 Internal Server Error", "502 Bad Gateway", "504 Gateway Timeout"])
def test_the_first_question_decides(status, tmp_path):
    with s.serve(s.respond(b"{}", status)) as server, pytest.raises(EngineError, match=status[:3]):
        backend(server, tmp_path, wait_s=3600.0)
    assert len(server.requests) == 1


@pytest.mark.parametrize(
    "parts",
    [
        [{"type": "text", "text": "a = 1"}],
        [
            {"type": "reasoning", "text": "hm"},
            {"type": "text", "text": "a "},
            {"type": "text", "text": "= 1"},
        ],
    ],
)
def test_a_reply_in_parts_is_read(parts, tmp_path):
    with s.serve(YES, s.say(parts)) as server:
        ((completion,),) = ask(server, tmp_path)
    assert completion.text == "a = 1"


def test_this_machine_is_asked_without_a_proxy(tmp_path, monkeypatch):
    for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY"):
        monkeypatch.setenv(name, "socks5://user:password@proxy.example:1")
    with s.serve(YES, SAID) as server:
        ask(server, tmp_path)


@pytest.mark.parametrize(
    ("address", "proxy"),
    [
        ("http://model.example/v1", "proxy.example:1"), ("https://model.example/v1", "proxy.example:1"),
        ("http://inner.example:8000/v1", ""), ("http://a.inner.example/v1", ""), ("http://[::1]:8000/v1", ""),
        ("http://127.1.2.3/v1", ""), ("http://localhost/v1", ""),
    ],
)  # fmt: skip
def test_a_proxy_is_named_without_its_password(address, proxy, monkeypatch):
    for name in ("HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "http_proxy", "https_proxy", "no_proxy"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("ALL_PROXY", "socks5://user:password@proxy.example:1")
    monkeypatch.setenv("NO_PROXY", "inner.example")
    assert proxy_of(address) == proxy


def test_a_proxy_that_is_not_there_is_named(tmp_path, monkeypatch):
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:9")
    monkeypatch.delenv("http_proxy", raising=False)
    settings = EngineSettings("chat", server=ServerSettings("http://model.example/v1", "m"))
    with pytest.raises(EngineError, match=r"by the proxy 127\.0\.0\.1:9"):
        open_engine(settings, Sampling(), model="", folder=tmp_path)
