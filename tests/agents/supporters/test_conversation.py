"""Asking again, budgets, resting, resuming, keys: what the three language-model roles share."""

import json
import logging
from dataclasses import replace

import pytest

from atlas_gym.agents.engines.settings import Endpoint
from atlas_gym.agents.supporters.consult import Budget, SupporterCall
from atlas_gym.agents.supporters.settings import CallLimits
from tests.agents.supporters import server as s
from tests.agents.supporters.samples import EXPLORATION, INSPECTION, NEUTRAL, REQUESTS, TELEMETRY

GOOD = s.say('{"reason": "steadier", "beta": 0.12}', {"prompt_tokens": 100, "completion_tokens": 20})
BAD = s.say("not today")
KEY = "sk-very-secret-0123456789"


def test_good_reply_is_recorded_with_its_usage(supporter):
    with s.serve(GOOD) as server:
        answer = supporter("strategist", server.base_url).consult(TELEMETRY)
    call = answer.call
    assert answer.advice.controls.beta == pytest.approx(0.12)
    assert (call.role, call.form, call.model, call.status) == ("strategist", "llm", "test-model", "ok")
    assert (call.prompt_tokens, call.completion_tokens, call.attempts) == (100, 20, 1)
    assert call.key == ("phase", 2)
    assert "steadier" in call.reply
    assert "beta = 0.12" in call.outcome
    assert SupporterCall.from_dict(json.loads(json.dumps(vars(call))) | {"round": 3}) == call


def test_request_follows_the_protocol(supporter):
    with s.serve(GOOD) as server:
        supporter("strategist", server.base_url, extra={"reasoning_effort": "low"}).consult(TELEMETRY)
    body = server.requests[0].body
    assert body["model"] == "test-model"
    assert [message["role"] for message in body["messages"]] == ["system", "user"]
    assert (body["temperature"], body["stream"], body["reasoning_effort"]) == (0.7, False, "low")
    assert body["response_format"]["json_schema"]["schema"]["required"] == ["reason"]
    assert 0 <= body["seed"] < 2**31


def test_malformed_reply_is_asked_for_again_and_told_why(supporter):
    limits = CallLimits(deadline_s=20, attempts=3, pause_s=0)
    with s.serve(BAD, s.say('{"reason": 5}'), GOOD) as server:
        answer = supporter("strategist", server.base_url, limits).consult(TELEMETRY)
    assert answer.call.status == "ok"
    assert answer.call.attempts == 3
    assert answer.call.reason == "no JSON object found; field 'reason' does not fit the schema (string_type)"
    assert "no JSON object found" in server.requests[1].body["messages"][1]["content"]
    assert "field 'reason'" in server.requests[2].body["messages"][1]["content"]
    assert server.requests[0].body["seed"] != server.requests[1].body["seed"]


def test_server_that_refuses_the_response_format_is_asked_without_from_then_on(supporter):
    limits = CallLimits(deadline_s=20, attempts=2, pause_s=0)
    with s.serve(s.respond(b"{}", "400 Bad Request"), GOOD) as server:
        strategist = supporter("strategist", server.base_url, limits)
        answers = [strategist.consult(TELEMETRY) for _ in range(2)]
    assert [answer.call.status for answer in answers] == ["ok", "ok"]
    assert ["response_format" in request.body for request in server.requests] == [True, False, False]


@pytest.mark.parametrize("wanted", ["json_object", "none"])
def test_response_format_is_a_setting(wanted, supporter):
    with s.serve(GOOD) as server:
        supporter("strategist", server.base_url, response_format=wanted).consult(TELEMETRY)
    expected = {"type": "json_object"} if wanted == "json_object" else None
    assert server.requests[0].body.get("response_format") == expected


def test_same_run_seed_asks_with_the_same_seed(supporter):
    with s.serve(GOOD) as server:
        for seed in (1, 1, 2):
            supporter("strategist", server.base_url, seed=seed).consult(TELEMETRY)
    seeds = [request.body["seed"] for request in server.requests]
    assert seeds[0] == seeds[1] != seeds[2]


@pytest.mark.parametrize(
    ("limits", "reason"),
    [
        (CallLimits(calls=2), "2 calls is spent"),
        (CallLimits(tokens=240), "240 tokens is spent"),
    ],
)
def test_spent_budget_skips_without_a_request(limits, reason, supporter):
    with s.serve(GOOD) as server:
        strategist = supporter("strategist", server.base_url, limits)
        answers = [strategist.consult(TELEMETRY) for _ in range(4)]
    assert [answer.call.status for answer in answers] == ["ok", "ok", "skipped", "skipped"]
    assert reason in answers[2].call.reason
    assert len(server.requests) == 2
    assert answers[3].call.attempts == 0
    assert answers[3].advice == NEUTRAL["strategist"]


def test_spent_seconds_skip(supporter):
    strategist = supporter("strategist", "http://127.0.0.1:9/v1", CallLimits(seconds=30.0))
    slow = SupporterCall("strategist", "llm", "m", ("phase", 1), "ok", attempts=1, seconds=29.0)
    strategist.resume([slow, slow])
    assert "30 seconds is spent" in strategist.consult(TELEMETRY).call.reason


def test_failing_server_is_left_alone_and_tried_again(supporter):
    limits = CallLimits(attempts=1, rest_after=2, rest_calls=3)
    with s.serve(BAD, BAD, GOOD) as server:
        strategist = supporter("strategist", server.base_url, limits)
        answers = [strategist.consult(TELEMETRY) for _ in range(7)]
    attempts = [answer.call.attempts for answer in answers]
    assert attempts == [1, 1, 0, 0, 0, 1, 1]
    assert "left alone" in answers[2].call.reason
    assert [answer.call.status for answer in answers[5:]] == ["ok", "ok"]


def test_resumed_budget_equals_the_uninterrupted_one(supporter):
    limits = CallLimits(attempts=1, rest_after=2, rest_calls=3)
    with s.serve(GOOD, BAD, BAD, GOOD) as server:
        strategist = supporter("strategist", server.base_url, limits)
        calls = [strategist.consult(TELEMETRY).call for _ in range(4)]
        again = supporter("strategist", server.base_url, limits)
        foreign = SupporterCall("inspector", "llm", "m", (), "ok", attempts=1, prompt_tokens=10**9)
        again.resume(
            [SupporterCall.from_dict(json.loads(json.dumps(vars(call)))) for call in calls] + [foreign]
        )
    first, second = strategist.budget, again.budget
    assert (first.calls, first.tokens, first.seconds) == (second.calls, second.tokens, second.seconds)
    assert first.refusal() == second.refusal() != ""


def test_missing_key_skips_and_names_the_variable(supporter, monkeypatch):
    monkeypatch.delenv("SUPPORTER_TEST_KEY", raising=False)
    with s.serve(GOOD) as server:
        answer = supporter("strategist", server.base_url, api_key_env="SUPPORTER_TEST_KEY").consult(TELEMETRY)
    assert answer.call.reason == "the environment variable SUPPORTER_TEST_KEY is not set"
    assert server.requests == []


@pytest.mark.parametrize("key", ["with\nnewline", "clé", "a\x00b"])
def test_unusable_key_is_neither_sent_nor_quoted(key, supporter, monkeypatch):
    monkeypatch.setattr("atlas_gym.agents.engines.http.os.environ", {"SUPPORTER_TEST_KEY": key})
    with s.serve(GOOD) as server:
        answer = supporter("strategist", server.base_url, api_key_env="SUPPORTER_TEST_KEY").consult(TELEMETRY)
    assert answer.call.status == "skipped"
    assert server.requests == []
    assert key not in str(answer)


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


@pytest.mark.parametrize(
    "wrong",
    [
        {"base_url": "localhost:8000"},
        {"base_url": "ftp://host/v1"},
        {"base_url": "https://user:secret@host/v1"},
        {"base_url": "https://host/v1?key=secret"},
        {"model": ""},
        {"max_tokens": 0},
    ],
)
def test_endpoint_refuses(wrong):
    with pytest.raises(ValueError) as error:
        Endpoint(**({"base_url": "http://host/v1", "model": "m"} | wrong))
    assert "secret" not in str(error.value)


def test_limits_refuse_nonsense():
    for wrong in ({"deadline_s": 0}, {"attempts": 0}, {"tokens": -1}):
        with pytest.raises(ValueError):
            CallLimits(**wrong)


def test_a_budget_without_rest_never_rests():
    budget = Budget(CallLimits(rest_after=0))
    for _ in range(20):
        budget.record(SupporterCall("inspector", "llm", "m", (), "skipped", attempts=1))
    assert budget.refusal() == ""


def test_injected_reply_is_bounded_in_every_role(supporter):
    """A server under an attacker's control: made-up fields, values beyond all bounds, whole programs."""
    reply = {
        "critique": "\x1b[2J" + "obey " * 5_000,
        "reason": "\u202e" + "obey " * 5_000,
        "decision": "accept",
        "reasons": ["promote"] * 500,
        "accept": True,
        "rule_accepts": True,
        "beta": 1e300,
        "score_threshold": -1e300,
        "epochs": 10**9,
        "learning_rate": 1e9,
        "regressions": [{"metric": "made_up", "note": "x"}] * 500,
        "suggestions": [{"name": "window", "value": 1e300, "reason": "x" * 5_000}] * 20,
        "patches": [
            {
                "edits": [
                    {"find": EXPLORATION.parent.program, "replace": "import os\ndef policy(c, h, t): ...\n"}
                ]
            }
        ],
    }
    limits = CallLimits(attempts=1, reply_chars=200_000, reply_bytes=1_000_000)
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
