"""From a run's settings to its supporters."""

from collections.abc import Iterable
from dataclasses import dataclass

from atlas_gym.agents.supporters.consult import SupporterCall
from atlas_gym.agents.supporters.exploration import ExplorationSupporter
from atlas_gym.agents.supporters.inspector import PolicyInspector
from atlas_gym.agents.supporters.settings import SupporterSettings
from atlas_gym.agents.supporters.strategist import FineTuningStrategist


@dataclass(frozen=True)
class Supporters:
    """The supporters of a run; None for a role that is off."""

    exploration: ExplorationSupporter | None = None  # advises on programs
    strategist: FineTuningStrategist | None = None  # adjusts a phase's settings
    inspector: PolicyInspector | None = None  # may object to a promotion

    def resume(self, calls: Iterable[SupporterCall]) -> None:
        """Account for the calls that an earlier process of this run made."""
        stored = list(calls)
        for supporter in (self.exploration, self.strategist, self.inspector):
            if supporter is not None:
                supporter.resume(stored)


def build_supporters(settings: SupporterSettings, seed: int) -> Supporters:
    """The supporters of a run under its seed. Nothing is contacted yet."""
    return Supporters(
        None if settings.exploration.form == "off" else ExplorationSupporter(settings, seed),
        None if settings.strategist.form == "off" else FineTuningStrategist(settings, seed),
        None if settings.inspector.form == "off" else PolicyInspector(settings, seed),
    )
