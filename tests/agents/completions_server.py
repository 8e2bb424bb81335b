"""Scripted completions servers: clients that are quick to give up, and what a server may answer."""

import json

from atlas_gym.agents.engines.api import CompletionsEngine
from atlas_gym.agents.engines.engine import Sampling
from atlas_gym.agents.engines.settings import ServerSettings
from tests.agents.constants import with_constants
from tests.agents.supporters import server as s

QUICK = {"deadline_s": 20.0, "wait_s": 0.0, "attempts": 1, "reply_bytes": 100_000, "concurrency": 4}


def settings(base_url, **options):
    return with_constants(ServerSettings, base_url, model="m", **(QUICK | options))


def generator(base_url, sampling=None, **options):
    return CompletionsEngine(settings(base_url, **options), sampling or Sampling())


def completion(text, reason="stop", tokens=3, **more):
    choice = {"index": 0, "text": text, "finish_reason": reason, **more}
    return json.dumps({"choices": [choice], "usage": {"completion_tokens": tokens}}).encode()


def write(text, reason="stop", **more):
    return s.respond(completion(text, reason, **more))


def texts(generated):
    return [[c.text for c in row] for row in generated]
