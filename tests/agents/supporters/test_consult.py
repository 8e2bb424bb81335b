"""Asking again, budgets, resuming, keys: what the three language-model roles share. Whatever their server does, a call
ends, the advice is neutral, and only the record tells."""

import json
import logging
import socket
from dataclasses import replace

import pytest

from atlas_gym.agents.supporters.build import Supporters, build_supporters
from atlas_gym.agents.supporters.consult import SupporterCall
from atlas_gym.agents.supporters.settings import CallLimits, RoleSettings, SupporterSettings
from tests.agents.constants import with_constants
from tests.agents.supporters import server as s
from tests.agents.supporters.samples import EXPLORATION, INSPECTION, NEUTRAL, REQUESTS, TELEMETRY

GOOD = s.say('{"reason": "steadier", "beta": 0.12}', {"prompt_tokens": 100, "completion_tokens": 20})
BAD = s.say("not today")
KEY = "sk-very-secret-0123456789"


def test_a_request_follows_the_protocol_and_a_good_reply_is_recorded_with_its_usage(supporter):
    with s.serve(GOOD) as server:
        asked = supporter("strategist", server.base_url, extra={"reasoning_effort": "low"})
        answer = asked.consult(TELEMETRY)
    call = answer.call
    assert answer.advice.controls.beta == pytest.approx(0.12)
    assert (call.role, call.form, call.model, call.status) == ("strategist", "llm", "test-model", "ok")
    assert (call.prompt_tokens, call.completion_tokens, call.attempts) == (100, 20, 1)
    assert call.key == ("phase", 2)
    assert "steadier" in call.reply
    assert "beta = 0.12" in call.outcome
    assert SupporterCall.from_dict(json.loads(json.dumps(vars(call))) | {"round": 3}) == call
    body = server.requests[0].body
    assert body["model"] == "test-model"
    assert [message["role"] for message in body["messages"]] == ["system", "user"]
    assert (body["temperature"], body["stream"], body["reasoning_effort"]) == (0.7, False, "low")
    assert body["response_format"]["json_schema"]["schema"]["required"] == ["reason"]
    assert 0 <= body["seed"] < 2**31


def test_malformed_reply_is_asked_for_again_and_told_why(supporter):
    limits = with_constants(CallLimits, deadline_s=20, attempts=3)
    with s.serve(BAD, s.say('{"reason": 5}'), GOOD) as server:
        answer = supporter("strategist", server.base_url, limits).consult(TELEMETRY)
    assert answer.call.status == "ok"
    assert answer.call.attempts == 3
    assert "no JSON object found" in server.requests[1].body["messages"][1]["content"]
    assert "field 'reason'" in server.requests[2].body["messages"][1]["content"]
    assert server.requests[0].body["seed"] != server.requests[1].body["seed"]


@pytest.mark.parametrize("limit", [{"calls": 2}, {"tokens": 240}], ids=str)
def test_spent_budget_skips_without_a_request(limit, supporter):
    with s.serve(GOOD) as server:
        strategist = supporter("strategist", server.base_url, with_constants(CallLimits, **limit))
        answers = [strategist.consult(TELEMETRY) for _ in range(4)]
    assert [answer.call.status for answer in answers] == ["ok", "ok", "skipped", "skipped"]
    assert [answer.call.attempts for answer in answers] == [1, 1, 0, 0]
    assert "is spent" in answers[2].call.reason
    assert answers[3].advice == NEUTRAL["strategist"]


def test_failing_server_is_left_alone_and_tried_again(supporter):
    with s.serve(BAD, BAD, BAD, GOOD) as server:
        strategist = supporter("strategist", server.base_url, with_constants(CallLimits, attempts=1))
        answers = [strategist.consult(TELEMETRY) for _ in range(9)]
    assert [answer.call.attempts for answer in answers] == [1, 1, 1, 0, 0, 0, 0, 1, 1]
    assert "left alone" in answers[3].call.reason
    assert [answer.call.status for answer in answers[7:]] == ["ok", "ok"]


def test_resumed_budget_equals_the_uninterrupted_one(supporter):
    limits = with_constants(CallLimits, attempts=1)
    with s.serve(GOOD, BAD, BAD, BAD, GOOD) as server:
        strategist = supporter("strategist", server.base_url, limits)
        calls = [strategist.consult(TELEMETRY).call for _ in range(5)]
        again = supporter("strategist", server.base_url, limits)
        foreign = SupporterCall("inspector", "llm", "m", (), "ok", attempts=1, prompt_tokens=10**9)
        again.resume([*calls, foreign])
    first, second = strategist.budget, again.budget
    assert (first.calls, first.tokens) == (second.calls, second.tokens)
    assert first.refusal() == second.refusal() != ""


@pytest.mark.parametrize("role", sorted(REQUESTS))
def test_key_is_sent_and_never_recorded(role, supporter, monkeypatch, caplog):
    monkeypatch.setenv("SUPPORTER_TEST_KEY", KEY)
    with caplog.at_level(logging.DEBUG), s.serve(s.echo_key, s.respond(KEY.encode(), "500 " + KEY)) as server:
        asked = supporter(role, server.base_url, api_key_env="SUPPORTER_TEST_KEY")
        answers = [asked.consult(REQUESTS[role]) for _ in range(2)]
    assert [request.headers["authorization"] for request in server.requests] == [f"Bearer {KEY}"] * 2
    assert [answer.call.status for answer in answers] == ["ok", "skipped"]
    assert KEY not in repr(answers)
    assert KEY not in json.dumps([vars(answer.call) for answer in answers])
    assert KEY not in caplog.text
    assert KEY not in repr(asked.__dict__)


def test_injected_reply_is_bounded_in_every_role(supporter):
    """A server under an attacker's control: made-up fields, values beyond all bounds, whole programs."""
    whole = {"find": EXPLORATION.parent.program, "replace": "import os\ndef policy(c, h, t): ...\n"}
    reply = {
        "critique": "\x1b[2J" + "obey " * 2_000, "reason": "\u202e" + "obey " * 2_000, "decision": "accept",
        "reasons": ["promote"] * 50, "accept": True, "rule_accepts": True,
        "beta": 1e300, "score_threshold": -1e300, "epochs": 10**9, "learning_rate": 1e9,
        "regressions": [{"metric": "made_up", "note": "x"}] * 50,
        "suggestions": [{"name": "window", "value": 1e300, "reason": "x" * 500}] * 20,
        "patches": [{"edits": [whole]}],
    }  # fmt: skip
    limits = with_constants(CallLimits, attempts=1, reply_bytes=1_000_000)
    with s.serve(s.say(json.dumps(reply))) as server:
        answers = [
            supporter("exploration", server.base_url, limits).consult(EXPLORATION),
            supporter("strategist", server.base_url, limits).consult(TELEMETRY),
            supporter("inspector", server.base_url, limits).consult(replace(INSPECTION, rule_accepts=False)),
        ]
    assert [answer.call.status for answer in answers] == ["ok"] * 3
    explored, tuned, inspected = (answer.advice for answer in answers)
    assert len(explored.critique) <= 800
    assert "\x1b" not in explored.critique
    assert [patch.kind for patch in explored.patches] == ["suggestion"]
    assert "window = 500\n" in explored.patches[0].program
    assert tuned.controls.beta == pytest.approx(0.15)
    assert tuned.controls.score_threshold == pytest.approx(0.2)
    assert (tuned.controls.epochs, tuned.controls.learning_rate) == (2, pytest.approx(4e-4))
    assert not inspected.accept
    assert inspected.regressions == {}
    assert len(inspected.reasons) <= 8
    assert all(len(answer.call.outcome) <= 1_000 for answer in answers)


@pytest.mark.parametrize("name", s.ENDING)
def test_bad_reply_is_recorded_and_changes_nothing(name, supporter):
    behaviour, expected = s.ENDING[name]
    for role in REQUESTS if "fit" in expected else ("inspector",):
        with s.serve(behaviour) as hostile:
            answer = supporter(role, hostile.base_url).consult(REQUESTS[role])
        assert answer.advice == NEUTRAL[role]
        assert (answer.call.status, answer.call.attempts, len(hostile.requests)) == ("skipped", 1, 1)
        assert expected in answer.call.reason
        assert len(answer.call.reply) <= 2_000
        json.dumps(vars(answer.call)).encode()


@pytest.mark.parametrize("name", s.STALLING)
def test_stalling_server_is_left_at_the_deadline(name, supporter):
    limits = with_constants(CallLimits, deadline_s=0.4, attempts=3, reply_bytes=10**9)
    with s.serve(s.STALLING[name]) as hostile:
        answer = supporter("inspector", hostile.base_url, limits).consult(REQUESTS["inspector"])
        assert answer.advice == NEUTRAL["inspector"]
        assert "no complete reply within" in answer.call.reason
        # Generous, for a busy machine: without the hard deadline these would run for minutes or for ever.
        assert answer.call.seconds < limits.deadline_s + 10


def test_unreachable_server(supporter):
    with socket.socket() as taken:  # bound, not listening: connections are refused
        taken.bind(("127.0.0.1", 0))
        address = f"http://127.0.0.1:{taken.getsockname()[1]}/v1"
        answer = supporter("strategist", address).consult(TELEMETRY)
    assert answer.advice == NEUTRAL["strategist"]
    assert answer.call.reason == "the server cannot be reached"
    assert answer.call.tokens == 0


def test_endless_budget_claims_are_capped(supporter):
    claim = {"prompt_tokens": 10**18, "completion_tokens": 10**18}
    with s.serve(s.say('{"reason": "r"}', claim)) as hostile:
        answer = supporter("strategist", hostile.base_url, max_tokens=100).consult(TELEMETRY)
    assert answer.call.status == "ok"
    assert answer.call.completion_tokens <= 400
    asked = sum(len(message["content"]) for message in hostile.requests[0].body["messages"])
    assert answer.call.prompt_tokens <= asked + 1_000


def test_a_model_needs_an_endpoint_and_a_role_can_be_off():
    with pytest.raises(ValueError, match="endpoint"):
        RoleSettings("llm")
    off = RoleSettings("off")
    assert build_supporters(SupporterSettings(off, off, off), seed=0) == Supporters()
    rules = build_supporters(SupporterSettings(), seed=0)
    assert [rules.exploration.client, rules.strategist.client, rules.inspector.client] == [None] * 3
