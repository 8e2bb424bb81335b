"""From a run's settings to its supporters."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from atlas_gym.agents.supporters.call import ROLES, Role, SupporterCall
from atlas_gym.agents.supporters.exploration import ExplorationSupporter, LLMExplorationSupporter
from atlas_gym.agents.supporters.exploration_rules import RuleExplorationSupporter
from atlas_gym.agents.supporters.inspector import LLMPolicyInspector, PolicyInspector, RulePolicyInspector
from atlas_gym.agents.supporters.settings import SupporterSettings
from atlas_gym.agents.supporters.strategist import FineTuningStrategist, LLMFineTuningStrategist
from atlas_gym.agents.supporters.strategist_rules import RuleFineTuningStrategist

_FORMS: Mapping[Role, Mapping[str, Callable[[SupporterSettings, int], Any]]] = {
    "exploration": {"rules": RuleExplorationSupporter, "llm": LLMExplorationSupporter},
    "strategist": {"rules": RuleFineTuningStrategist, "llm": LLMFineTuningStrategist},
    "inspector": {"rules": RulePolicyInspector, "llm": LLMPolicyInspector},
}


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
    forms = {role: getattr(settings, role).form for role in ROLES}
    made = {role: _FORMS[role][form](settings, seed) for role, form in forms.items() if form != "off"}
    return Supporters(**made)
