"""Whatever a supporter's server does, the call ends, the advice is neutral, and only the record tells."""

import json
import socket
import threading

import pytest

from agents.supporters.budget import CallLimits
from tests.agents.supporters import server as s
from tests.agents.supporters.samples import NEUTRAL, REQUESTS

ROLES = ("exploration", "strategist", "inspector")

ENDING = {
    "ten megabytes": (s.ten_megabytes, "exceeds 100000 bytes"),
    "ten megabytes, unannounced": (s.ten_megabytes_unannounced, "exceeds 100000 bytes"),
    "endless stream": (s.endless, "exceeds 100000 bytes"),
    "endless headers": (s.endless_headers, "exchange failed"),
    "closes midway": (s.closes_midway, "exchange failed"),
    "closes at once": (s.closes_at_once, "exchange failed"),
    "not HTTP": (s.not_http, "exchange failed"),
    "status 500": (s.respond(b"oops", "500 Internal Server Error"), "HTTP status 500"),
    "status 429": (s.respond(b"{}", "429 Too Many Requests"), "HTTP status 429"),
    "redirect": (s.respond(b"", "307 Moved", "Location: http://127.0.0.1:9/\r\n"), "HTTP status 307"),
    "compressed": (s.respond(b"\x1f\x8b\x08", headers="Content-Encoding: gzip\r\n"), "compressed"),
    "empty body": (s.respond(b""), "not a completion"),
    "HTML": (s.respond(b"<html>busy</html>"), "not a completion"),
    "invalid JSON": (s.respond(b'{"choices": [{"message": '), "not a completion"),
    "nested JSON": (s.respond(b"[" * 90_000), "not a completion"),
    "invalid UTF-8": (s.respond(b"\xff\xfe" * 100), "not a completion"),
    "a list": (s.respond(b"[]"), "not a completion"),
    "no choices": (s.respond(b'{"choices": []}'), "not a completion"),
    "choices of the wrong type": (s.respond(b'{"choices": {"0": 1}}'), "not a completion"),
    "content null": (s.say(None), "holds no text"),
    "content a number": (s.say(17), "holds no text"),
    "content a list": (s.say([{"type": "text", "text": "{}"}]), "holds no text"),
    "empty content": (s.say(""), "no JSON object"),
    "prose": (s.say("I would rather not."), "no JSON object"),
    "empty object": (s.say("{}"), "does not fit the schema"),
    "wrong types": (s.say('{"critique": 3, "reason": [], "decision": "promote"}'), "does not fit the schema"),
    "not a number": (s.say('{"critique": NaN, "reason": Infinity, "decision": -Infinity}'), "no JSON object"),
    "nested content": (s.say('{"a":' * 3000), "no JSON object"),
    "nothing but braces": (s.say("{" * 16_000), "no JSON object"),
    "too long a reply": (s.say("x" * 50_000), "longer than 16384 characters"),
    "reasoning without end": (s.say('<think>{"reason": "r", "decision": "veto"}'), "no JSON"),
    "wrong usage": (s.say("no", {"prompt_tokens": "many", "completion_tokens": -5}), "no JSON object"),
    "usage a text": (s.say("no", "free"), "no JSON object"),
}  # fmt: skip

STALLING = {
    "silence": s.silence,
    "headers byte by byte": s.drip_headers,
    "body byte by byte": s.drip_body,
    "endless chunks": s.endless_chunks,
    "endless 100 Continue": s.endless_continue,
}


@pytest.mark.parametrize("role", ROLES)
@pytest.mark.parametrize("name", ENDING)
def test_bad_reply_is_recorded_and_changes_nothing(name, role, supporter):
    behaviour, expected = ENDING[name]
    with s.serve(behaviour) as hostile:
        answer = supporter(role, hostile.base_url).consult(REQUESTS[role])
    assert answer.advice == NEUTRAL[role]
    assert (answer.call.status, answer.call.attempts, len(hostile.requests)) == ("skipped", 1, 1)
    assert expected in answer.call.reason
    assert len(answer.call.reply) <= 2_000
    assert answer.call.outcome == ""
    json.dumps(answer.call.as_dict())
    answer.call.reply.encode()


@pytest.mark.parametrize("name", STALLING)
def test_stalling_server_is_left_at_the_deadline(name, supporter):
    limits = CallLimits(deadline_s=0.4, attempts=3, pause_s=0.0, reply_bytes=10**9)
    with s.serve(STALLING[name]) as hostile:
        answer = supporter("inspector", hostile.base_url, limits).consult(REQUESTS["inspector"])
        assert answer.advice == NEUTRAL["inspector"]
        assert "no complete reply within" in answer.call.reason
        # Generous, for a busy machine: without the hard deadline these would run for minutes or for ever.
        assert answer.call.seconds < limits.deadline_s + 10
        assert s.calls_end()


def test_unreachable_server(supporter):
    with socket.socket() as taken:  # bound, not listening: connections are refused
        taken.bind(("127.0.0.1", 0))
        address = f"http://127.0.0.1:{taken.getsockname()[1]}/v1"
        answer = supporter("strategist", address).consult(REQUESTS["strategist"])
    assert answer.advice == NEUTRAL["strategist"]
    assert answer.call.reason == "the server cannot be reached"
    assert answer.call.tokens == 0


def test_unknown_host(supporter):
    answer = supporter("strategist", "http://no-such-host.invalid/v1").consult(REQUESTS["strategist"])
    assert answer.advice == NEUTRAL["strategist"]
    assert answer.call.status == "skipped"


def test_endless_budget_claims_are_capped(supporter):
    claim = {"prompt_tokens": 10**18, "completion_tokens": 10**18}
    with s.serve(s.say('{"reason": "r"}', claim)) as hostile:
        answer = supporter("strategist", hostile.base_url, max_tokens=100).consult(REQUESTS["strategist"])
    assert answer.call.status == "ok"
    assert answer.call.completion_tokens <= 400
    assert answer.call.prompt_tokens <= answer.call.prompt_chars + 1_000


def test_a_call_leaves_no_thread_behind(supporter):
    with s.serve(s.silence) as hostile:
        limits = CallLimits(deadline_s=0.2, attempts=1)
        for _ in range(3):
            supporter("inspector", hostile.base_url, limits).consult(REQUESTS["inspector"])
        assert s.calls_end()


def test_concurrent_calls_share_one_budget(supporter):
    limits = CallLimits(deadline_s=20.0, attempts=1, rest_after=0)
    with s.serve(s.say('{"reason": "r"}', {"prompt_tokens": 10, "completion_tokens": 5})) as friendly:
        strategist = supporter("strategist", friendly.base_url, limits)
        threads = [
            threading.Thread(target=strategist.consult, args=(REQUESTS["strategist"],)) for _ in range(8)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        usage = strategist._conversation.budget.usage
    assert (usage.calls, usage.answered, usage.tokens) == (8, 8, 120)
