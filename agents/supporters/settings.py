"""The supporters of a run, from its configuration.

A configuration names a form for each role: ``off``, ``rules`` (the embedded default) or ``llm`` with an
endpoint. The paper's roles are shipped as ``experiments/configs/paper_supporters.yaml``.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Literal

from agents.engines.endpoint import Endpoint
from agents.supporters.budget import CallLimits
from agents.supporters.call import Role, SupporterCall
from agents.supporters.conversation import Conversation
from agents.supporters.edits import EditBound
from agents.supporters.exploration import ExplorationSupporter
from agents.supporters.exploration_llm import LLMExplorationSupporter
from agents.supporters.exploration_rules import RuleExplorationSupporter
from agents.supporters.inspector import PolicyInspector
from agents.supporters.inspector_llm import LLMPolicyInspector
from agents.supporters.inspector_rules import InspectorSettings, RulePolicyInspector
from agents.supporters.prompts import PromptTemplate, load_template
from agents.supporters.strategist import ControlBounds, FineTuningStrategist
from agents.supporters.strategist_llm import LLMFineTuningStrategist
from agents.supporters.strategist_rules import RuleFineTuningStrategist


@dataclass(frozen=True)
class RoleSettings:
    """How one role is filled."""

    form: Literal["off", "rules", "llm"] = "rules"
    """``off`` leaves the role out, ``rules`` needs nothing, ``llm`` asks the endpoint."""
    endpoint: Endpoint | None = None
    """Where the model is served; needed for ``llm``."""
    limits: CallLimits = field(default_factory=CallLimits)
    """Deadlines and budgets for ``llm``."""
    prompt: str = ""
    """Path of a template of one's own (``.md``); empty for the shipped one."""

    def __post_init__(self) -> None:
        if self.form == "llm" and self.endpoint is None:
            raise ValueError("a role in the form llm needs an endpoint")


@dataclass(frozen=True)
class SupporterSettings:
    """The three roles and their bounds."""

    exploration: RoleSettings = field(default_factory=RoleSettings)
    """Exploration supporter (the paper's: gpt-oss-120B)."""
    strategist: RoleSettings = field(default_factory=RoleSettings)
    """Fine-tuning strategist (the paper's: DeepSeek-R1-32B)."""
    inspector: RoleSettings = field(default_factory=RoleSettings)
    """Policy inspector (the paper's: Llama 4)."""
    patch_bound: EditBound = field(default_factory=EditBound)
    """How far a patch may lie from the agent's program."""
    control_bounds: ControlBounds = field(default_factory=ControlBounds)
    """What the strategist may set."""
    inspection: InspectorSettings = field(default_factory=InspectorSettings)
    """When the rule-based inspector objects."""


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
