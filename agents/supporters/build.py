"""From a run's settings to its supporters."""

from collections.abc import Iterable
from dataclasses import dataclass

from agents.supporters.call import SupporterCall
from agents.supporters.exploration import ExplorationSupporter
from agents.supporters.exploration_llm import LLMExplorationSupporter
from agents.supporters.exploration_rules import RuleExplorationSupporter
from agents.supporters.inspector import PolicyInspector, RulePolicyInspector
from agents.supporters.inspector_llm import LLMPolicyInspector
from agents.supporters.settings import SupporterSettings
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
    exploration: ExplorationSupporter | None = None
    if settings.exploration.form == "rules":
        exploration = RuleExplorationSupporter(seed, settings.patch_bound, wider=settings.wider_rules)
    elif settings.exploration.form == "llm":
        exploration = LLMExplorationSupporter(settings, seed)
    strategist: FineTuningStrategist | None = None
    if settings.strategist.form == "rules":
        strategist = RuleFineTuningStrategist(settings.control_bounds)
    elif settings.strategist.form == "llm":
        strategist = LLMFineTuningStrategist(settings, seed)
    inspector: PolicyInspector | None = None
    if settings.inspector.form == "rules":
        inspector = RulePolicyInspector(settings.inspection)
    elif settings.inspector.form == "llm":
        inspector = LLMPolicyInspector(settings, seed)
    return Supporters(exploration, strategist, inspector)
