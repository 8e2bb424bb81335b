"""Islands with models of their own: each request reaches the right one, each completion the caller's thread."""

import pytest

from atlas_gym.agents.research_agent import ResearchAgent
from atlas_gym.agents.settings import AgentSettings
from atlas_gym.trainers.loop.config import RunConfig, load_config, refused_changes
from atlas_gym.trainers.store.plain import SettingsError
from tests.agents.proposals.programs import ARMS
from tests.agents.records import record


def test_a_model_that_cannot_be_tuned_is_refused_where_a_phase_is_planned():
    served = {"backend": {"name": "openai", "server": {"model": "m"}}}
    with pytest.raises(SettingsError, match="method: search"):
        load_config(None, served)
    assert not load_config(None, served | {"method": "search"}).needs_policy
    assert load_config(None, served | {"rounds": 4}).phases == 0
    assert RunConfig().needs_policy


def test_a_model_that_answers_messages_is_asked_in_messages():
    backend = {"name": "chat", "server": {"model": "m"}, "chat": {"styles": {"diff": 1}}}
    config = load_config(None, {"backend": backend, "method": "search"})
    agent = ResearchAgent(ARMS, AgentSettings(), seed=0, messages=config.messages)
    start = ARMS.starts["named"]
    parent = record(id=0, island=0, origin="seed", program=start, score=1.0)
    agent.record(parent)
    (asked,) = agent.propose(1, 0, parent, None, {"diff": 1})
    assert (asked.style, asked.stop, asked.prefix) == ("diff", "diff", start)
    assert start.strip() in asked.prompt
    assert "<<<<<<< SEARCH" in asked.prompt


def test_budgets_may_change_when_a_run_is_resumed():
    def config(**chat):
        backend = {"name": "chat", "server": {"model": "m"}, "chat": chat}
        return load_config(None, {"method": "search", "backend": backend})

    assert not refused_changes(config(), config(budget_tokens=5))
    assert "max_tokens" in refused_changes(config(), config(max_tokens=5))
