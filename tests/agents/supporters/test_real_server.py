"""The language-model form against a real server that speaks the protocol, killed and restarted on the way."""

import collections
import itertools
from dataclasses import replace
from pathlib import Path

import pytest

from atlas_gym.agents.engines.llama_server import LlamaServer
from atlas_gym.agents.models.embedded import fetch_gguf
from atlas_gym.agents.supporters.exploration import ExplorationReply
from atlas_gym.agents.supporters.inspector import InspectionReply
from atlas_gym.agents.supporters.messages import parse_reply
from atlas_gym.agents.supporters.settings import CallLimits
from atlas_gym.agents.supporters.strategist import StrategyReply
from tests.agents.supporters.samples import NEUTRAL, REQUESTS

SCHEMAS = {"exploration": ExplorationReply, "strategist": StrategyReply, "inspector": InspectionReply}

LIMITS = CallLimits(deadline_s=120.0, attempts=2, pause_s=0.0, rest_after=3, rest_calls=2)

# Unconstrained, a small model rambles to the token limit: one short attempt shows all there is to see.
SETTINGS = {"json_schema": (LIMITS, 320), "none": (replace(LIMITS, attempts=1, rest_after=0), 64)}

CALLS, KILLED_AT, RESTARTED_AT = 100, 40, 50


@pytest.fixture(scope="module")
def gguf(tmp_path_factory) -> Path:
    return fetch_gguf()


@pytest.fixture
def llama(gguf):
    pytest.importorskip("xllamacpp", reason="needs the extra `leaderboard`")
    server = LlamaServer(gguf)
    server.start()
    yield server
    server.kill()


@pytest.mark.slow
@pytest.mark.timeout(3000)
@pytest.mark.parametrize("response_format", SETTINGS)
def test_hundred_calls_with_the_server_killed_and_restarted(response_format, llama, supporter, capsys):
    limits, max_tokens = SETTINGS[response_format]
    roles = {
        role: supporter(role, llama.base_url, limits, response_format=response_format, max_tokens=max_tokens)
        for role in REQUESTS
    }
    answers = []
    for number, role in zip(range(CALLS), itertools.cycle(roles), strict=False):
        if number == KILLED_AT:
            llama.kill()
        if number == RESTARTED_AT:
            llama.start()
        answers.append((role, roles[role].consult(replace(REQUESTS[role], key=("call", number)))))
    with capsys.disabled():
        print(f"\n{response_format}:", *_figures(answers), sep="\n  ")

    for role, answer in answers:
        if answer.call.status == "ok":
            parse_reply(answer.call.reply, SCHEMAS[role])
            assert answer.call.completion_tokens > 0
        else:
            assert answer.call.reason
            assert answer.advice == NEUTRAL[role]
    down = answers[KILLED_AT:RESTARTED_AT]
    assert all(answer.call.status == "skipped" for _, answer in down)
    assert any(answer.call.reason.endswith("cannot be reached") for _, answer in down)
    after = answers[RESTARTED_AT + 6 :]  # each role may still be resting for its next two calls
    assert all(answer.call.attempts > 0 or "left alone" in answer.call.reason for _, answer in after)
    assert any(answer.call.completion_tokens > 0 for _, answer in after)
    if response_format == "json_schema":
        assert sum(answer.call.status == "ok" for _, answer in after) > len(after) / 2


def _figures(answers) -> list[str]:
    lines = []
    for role in REQUESTS:
        calls = [answer.call for asked, answer in answers if asked == role]
        ok = [call for call in calls if call.status == "ok"]
        tokens = sum(call.tokens for call in calls)
        seconds = sorted(call.seconds for call in ok) or [0.0]
        lines.append(
            f"{role}: {len(calls)} calls, {len(ok)} ok ({sum(call.attempts == 1 for call in ok)} at once), "
            f"{tokens} tokens, median {seconds[len(seconds) // 2]:.1f} s, slowest {seconds[-1]:.1f} s"
        )
    reasons = collections.Counter(
        answer.call.reason for _, answer in answers if answer.call.status == "skipped"
    )
    return lines + [f"{count} skipped: {reason}" for reason, count in reasons.most_common(8)]
