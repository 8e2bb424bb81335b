"""How the three supporter roles of a run are filled.

The paper's roles are shipped as ``experiments/configs/paper_supporters.yaml``.
"""

from dataclasses import dataclass, field
from typing import ClassVar, Literal

from atlas_gym.agents.engines.settings import Endpoint


@dataclass(frozen=True)
class CallLimits:
    """Limits of one consultation and of a role over the whole run."""

    calls: int = 5_000
    """Consultations of the run that may reach the server."""
    tokens: ClassVar[int] = 20_000_000
    """Tokens of the run, read and written together: some thousand consultations of the paper's models."""
    deadline_s: ClassVar[float] = 180.0
    """Hard limit of a consultation, all attempts and pauses, seconds: a model that reasons takes two minutes."""
    attempts: ClassVar[int] = 2
    """Requests per consultation: a failed or malformed reply is asked for again once; a third seldom helps."""
    reply_bytes: ClassVar[int] = 262_144
    """Largest HTTP body that is read, bytes: several times the longest reply that is considered."""

    def __post_init__(self) -> None:
        if self.calls < 0:
            raise ValueError("calls cannot be negative")


@dataclass(frozen=True)
class RoleSettings:
    """How one role is filled."""

    form: Literal["off", "rules", "llm"] = "rules"
    """``off`` leaves the role out, ``rules`` needs nothing, ``llm`` asks the endpoint."""
    endpoint: Endpoint | None = None
    """Where the model is served; needed for ``llm``."""
    limits: CallLimits = field(default_factory=CallLimits)
    """Deadlines and budgets for ``llm``."""

    def __post_init__(self) -> None:
        if self.form == "llm" and self.endpoint is None:
            raise ValueError("a role in the form llm needs an endpoint")


@dataclass(frozen=True)
class SupporterSettings:
    """The three roles."""

    exploration: RoleSettings = field(default_factory=RoleSettings)
    """Exploration supporter (the paper's: gpt-oss-120B)."""
    strategist: RoleSettings = field(default_factory=RoleSettings)
    """Fine-tuning strategist (the paper's: DeepSeek-R1-32B)."""
    inspector: RoleSettings = field(default_factory=RoleSettings)
    """Policy inspector (the paper's: Llama 4)."""
    wider_rules: bool = False
    """Two more kinds of exploration rules at edit sites: linear fading, and recomputing from the latest entries."""
