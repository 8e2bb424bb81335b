"""Whatever a supporter's server does, the call ends, the advice is neutral, and only the record tells."""

import json
import socket
import threading

import pytest

from atlas_gym.agents.supporters.settings import CallLimits
from tests.agents.supporters import server as s
from tests.agents.supporters.samples import NEUTRAL, REQUESTS

ROLES = ("exploration", "strategist", "inspector")


@pytest.mark.parametrize("role", ROLES)
@pytest.mark.parametrize("name", s.ENDING)
def test_bad_reply_is_recorded_and_changes_nothing(name, role, supporter):
    behaviour, expected = s.ENDING[name]
    with s.serve(behaviour) as hostile:
        answer = supporter(role, hostile.base_url).consult(REQUESTS[role])
    assert answer.advice == NEUTRAL[role]
    assert (answer.call.status, answer.call.attempts, len(hostile.requests)) == ("skipped", 1, 1)
    assert expected in answer.call.reason
    assert len(answer.call.reply) <= 2_000
    assert answer.call.outcome == ""
    json.dumps(vars(answer.call))
    answer.call.reply.encode()


@pytest.mark.parametrize("name", s.STALLING)
def test_stalling_server_is_left_at_the_deadline(name, supporter):
    limits = CallLimits(deadline_s=0.4, attempts=3, pause_s=0.0, reply_bytes=10**9)
    with s.serve(s.STALLING[name]) as hostile:
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
    asked = sum(len(message["content"]) for message in hostile.requests[0].body["messages"])
    assert answer.call.prompt_tokens <= asked + 1_000


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
    assert (strategist.budget.calls, strategist.budget.tokens) == (8, 120)
