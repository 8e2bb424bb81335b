"""From a configuration to supporters; the paper's roles as shipped."""

from pathlib import Path

import pytest
import yaml

from atlas_gym.agents.supporters.build import Supporters, build_supporters
from atlas_gym.agents.supporters.settings import RoleSettings, SupporterSettings
from atlas_gym.trainers.store.plain import SettingsError, build

CONFIGS = Path(__file__).parents[3] / "experiments" / "configs"


def test_default_is_rules_for_all_roles():
    made = build_supporters(SupporterSettings(), seed=0)
    assert [made.exploration.client, made.strategist.client, made.inspector.client] == [None] * 3
    made.resume([])


def test_a_role_can_be_off():
    off = RoleSettings("off")
    assert build_supporters(SupporterSettings(off, off, off), seed=0) == Supporters()


def test_model_form_needs_an_endpoint():
    with pytest.raises(ValueError, match="endpoint"):
        RoleSettings("llm")


def test_paper_configuration():
    section = yaml.safe_load((CONFIGS / "paper_supporters.yaml").read_text())["supporters"]
    settings = build(SupporterSettings, section)
    made = build_supporters(settings, seed=0)
    assert all(role.client is not None for role in (made.exploration, made.strategist, made.inspector))
    roles = (settings.exploration, settings.strategist, settings.inspector)
    assert [role.endpoint.temperature for role in roles] == [0.7] * 3
    assert len({role.endpoint.model for role in roles}) == 3
    assert all(role.endpoint.api_key_env.startswith("ATLAS_") for role in roles)


def test_misspelt_setting_is_refused():
    with pytest.raises(SettingsError, match="deadline_s"):
        build(SupporterSettings, {"inspector": {"limits": {"dead_line_s": 3}}})
