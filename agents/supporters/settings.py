"""The supporters of a run, from its configuration.

A configuration names a form for each role: ``off``, ``rules`` (the embedded default) or ``llm`` with an
endpoint. The paper's roles are shipped as ``experiments/configs/paper_supporters.yaml``.
"""

from dataclasses import dataclass, field
from typing import Literal

from agents.engines.settings import Endpoint
from agents.supporters.call import CallLimits
from agents.supporters.edits import EditBound
from agents.supporters.strategist import ControlBounds


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
class InspectorSettings:
    """When the rule-based inspector speaks up."""

    name_factor: float = 1.5
    """A measurement that is worse by this factor is named."""
    veto_factor: float = 3.0
    """A measurement that is worse by this factor is a reason to object."""
    floor: float = 1e-6
    """Errors below this count as equal to it."""
    noise: float = 0.0
    """Object if the gain is below this many of its standard errors; 0 never does. Both the tolerance ε_s and
    this guard against promotions by luck: using both at full strength freezes the gate."""

    def __post_init__(self) -> None:
        if not 1 < self.name_factor <= self.veto_factor or self.floor <= 0 or self.noise < 0:
            raise ValueError("1 < name_factor <= veto_factor, floor > 0 and noise >= 0 are needed")


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
    wider_rules: bool = False
    """Whether the exploration supporter's rules write two more kinds of lines where they answer a prompt: samples that
    fade in a straight line with their age, and what was computed of past data, computed anew of its latest entries
    where it is used. More kinds of good lines come within reach; a small phase learns less of each
    (docs/study/moving_forms)."""
    control_bounds: ControlBounds = field(default_factory=ControlBounds)
    """What the strategist may set."""
    inspection: InspectorSettings = field(default_factory=InspectorSettings)
    """When the rule-based inspector objects."""
