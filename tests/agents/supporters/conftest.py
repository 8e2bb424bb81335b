"""Supporters that talk to a scripted server, with short deadlines."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from atlas_gym.agents.engines.settings import Endpoint
from atlas_gym.agents.supporters.build import build_supporters
from atlas_gym.agents.supporters.settings import CallLimits, RoleSettings, SupporterSettings
from tests.agents.constants import with_constants

QUICK = with_constants(CallLimits, deadline_s=20.0, attempts=1, reply_bytes=100_000)


@pytest.fixture
def supporter() -> Callable[..., Any]:
    """Makes one role in its language-model form: `supporter(role, base_url, limits=…, **endpoint)`."""

    def make(role: str, base_url: str, limits: CallLimits = QUICK, seed: int = 0, **endpoint: Any) -> Any:
        settings = RoleSettings("llm", Endpoint(base_url, "test-model", **endpoint), limits)
        everything = replace(SupporterSettings(), **{role: settings})
        return getattr(build_supporters(everything, seed), role)

    return make
