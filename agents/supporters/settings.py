"""The supporters of a run, from its configuration.

A configuration names a form for each role: ``off``, ``rules`` (the embedded default) or ``llm`` with an
endpoint. The paper's roles are shipped as ``experiments/configs/paper_supporters.yaml``.
"""

import math
from dataclasses import dataclass, field
from typing import Literal

from atlas_gym.agents.engines.settings import Endpoint, RequestLimits


@dataclass(frozen=True)
class CallLimits(RequestLimits):
    """Limits of one consultation and of a role over the whole run."""

    reply_chars: int = 16_384
    """Longest reply text that is considered, characters."""
    calls: int = 5_000
    """Consultations of the run that may reach the server."""
    tokens: int = 5_000_000
    """Tokens of the run, read and written together."""
    seconds: float = 3_600.0
    """Wall-clock time of the run spent waiting for this role, seconds."""
    rest_after: int = 3
    """Failed consultations in a row after which the server is left alone for a while; 0 never rests."""
    rest_calls: int = 4
    """Consultations that are skipped without a request each time the server is left alone."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.reply_chars < 1:
            raise ValueError("reply_chars must be positive")
        if min(self.calls, self.tokens, self.seconds, self.rest_after, self.rest_calls) < 0:
            raise ValueError("a budget cannot be negative")


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
    """Path of a template of one's own; empty for the shipped one."""

    def __post_init__(self) -> None:
        if self.form == "llm" and self.endpoint is None:
            raise ValueError("a role in the form llm needs an endpoint")


@dataclass(frozen=True)
class InspectorSettings:
    """When the rule-based inspector speaks up."""

    name_factor: float = 1.5
    """A measurement that is worse by this factor is named."""
    veto_factor: float = 3.0
    """A measurement that is worse by this factor is a reason to object; a share of samples only if it fell by two
    standard errors."""
    floor: float = 1e-6
    """Errors below this count as equal to it."""
    noise: float = 0.0
    """Object if the gain is below this many of its standard errors; 0 never does. Both the tolerance ε_s and
    this guard against promotions by luck: using both at full strength freezes the gate."""

    def __post_init__(self) -> None:
        if not 1 < self.name_factor <= self.veto_factor or self.floor <= 0 or self.noise < 0:
            raise ValueError("1 < name_factor <= veto_factor, floor > 0 and noise >= 0 are needed")


@dataclass(frozen=True)
class EditBound:
    """The most that a patch may change: a supporter perturbs what the agent wrote, it hands in none of its own."""

    lines: int = 6
    """Lines inserted, deleted or replaced (edit distance over lines)."""
    characters: int = 400
    """Total length of the lines that the parent does not have, characters."""
    share: float = 0.5
    """Lines changed as a share of the parent's non-empty lines; the smaller bound counts, at least one
    line."""

    def __post_init__(self) -> None:
        if self.lines < 1 or self.characters < 1 or not 0 < self.share <= 1:
            raise ValueError("lines and characters must be positive, and share must lie in (0, 1]")

    def allowed_lines(self, parent: str) -> int:
        """Lines of ``parent`` that a patch may change."""
        written = sum(bool(line.strip()) for line in parent.splitlines())
        return max(1, min(self.lines, int(self.share * written)))


@dataclass(frozen=True)
class ControlRange:
    """What one control may become."""

    low: float
    """Smallest value."""
    high: float
    """Largest value."""
    factor: float
    """Largest change in one phase: the new value lies between current/factor and current·factor."""

    def __post_init__(self) -> None:
        if not 0 < self.low <= self.high or self.factor < 1:
            raise ValueError("a range needs 0 < low <= high and a factor of at least 1")

    def bounded(self, current: float, proposed: float) -> float:
        """``proposed`` moved into reach of ``current``; ``current`` itself if it is not a finite number."""
        if not math.isfinite(proposed) or proposed == current:
            return current
        low = max(min(self.low, current), current / self.factor)
        high = min(max(self.high, current), current * self.factor)
        return min(max(proposed, low), high)


@dataclass(frozen=True)
class ControlBounds:
    """Ranges of the four controls."""

    beta: ControlRange = ControlRange(0.02, 1.0, 1.5)
    """EvoTune's default is 0.4, the embedded set-up's 0.1; the paper's logs move between 0.5 and 0.7."""
    score_threshold: ControlRange = ControlRange(0.05, 0.8, 1.5)
    """EvoTune takes the 30th percentile."""
    epochs: ControlRange = ControlRange(1.0, 8.0, 2.0)
    """A phase ends at its target divergence, so that many epochs are only a limit."""
    learning_rate: ControlRange = ControlRange(1e-6, 1e-3, 2.0)
    """The embedded set-up uses 2e-4, EvoTune 1e-5 for larger models."""


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
    where it is used. More kinds of good lines come within reach; a small phase learns less of each."""
    control_bounds: ControlBounds = field(default_factory=ControlBounds)
    """What the strategist may set."""
    inspection: InspectorSettings = field(default_factory=InspectorSettings)
    """When the rule-based inspector objects."""
