"""From a run's settings to its supporters."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from agents.supporters.call import Role, SupporterCall
from agents.supporters.conversation import Conversation
from agents.supporters.exploration import ExplorationSupporter
from agents.supporters.exploration_llm import LLMExplorationSupporter
from agents.supporters.exploration_rules import RuleExplorationSupporter
from agents.supporters.inspector import PolicyInspector, RulePolicyInspector
from agents.supporters.inspector_llm import LLMPolicyInspector
from agents.supporters.prompts import PromptTemplate, load_template
from agents.supporters.settings import RoleSettings, SupporterSettings
from agents.supporters.strategist import FineTuningStrategist
from agents.supporters.strategist_llm import LLMFineTuningStrategist
from agents.supporters.strategist_rules import RuleFineTuningStrategist


@dataclass(frozen=True)
class Supporters:
    """The supporters of a run; None for a role that is off."""

    exploration: ExplorationSupporter | None = None
    """Advises on programs."""
    strategist: FineTuningStrategist | None = None
    """Adjusts a phase's settings."""
    inspector: PolicyInspector | None = None
    """May object to a promotion."""

    def resume(self, calls: Iterable[SupporterCall]) -> None:
        """Take up all budgets where an earlier process of this run left them."""
        stored = list(calls)
        for supporter in (self.exploration, self.strategist, self.inspector):
            if supporter is not None:
                supporter.resume(stored)


def build_supporters(settings: SupporterSettings, seed: int) -> Supporters:
    """The supporters of a run under its seed. Nothing is contacted yet."""
    return Supporters(
        exploration=_exploration(settings, seed),
        strategist=_strategist(settings, seed),
        inspector=_inspector(settings, seed),
    )


def _exploration(settings: SupporterSettings, seed: int) -> ExplorationSupporter | None:
    role, bound = settings.exploration, settings.patch_bound
    if role.form == "off":
        return None
    if role.form == "rules":
        return RuleExplorationSupporter(seed, bound)
    conversation = _conversation("exploration", role, seed)
    return LLMExplorationSupporter(conversation, _template(role, "exploration"), bound)


def _strategist(settings: SupporterSettings, seed: int) -> FineTuningStrategist | None:
    role, bounds = settings.strategist, settings.control_bounds
    if role.form == "off":
        return None
    if role.form == "rules":
        return RuleFineTuningStrategist(bounds)
    return LLMFineTuningStrategist(
        _conversation("strategist", role, seed), _template(role, "strategist"), bounds
    )


def _inspector(settings: SupporterSettings, seed: int) -> PolicyInspector | None:
    role = settings.inspector
    if role.form == "off":
        return None
    if role.form == "rules":
        return RulePolicyInspector(settings.inspection)
    return LLMPolicyInspector(_conversation("inspector", role, seed), _template(role, "inspector"))


def _conversation(name: Role, role: RoleSettings, seed: int) -> Conversation:
    if role.endpoint is None:  # RoleSettings refuses this already
        raise ValueError(f"the role {name} has no endpoint")
    return Conversation(name, role.endpoint, role.limits, seed)


def _template(role: RoleSettings, shipped: str) -> PromptTemplate:
    return load_template(role.prompt or shipped)
