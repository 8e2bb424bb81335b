"""What a fine-tuning phase is remembered by: plain values, ready for the run store."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from statistics import fmean

from atlas_gym.trainers.evodpo.gate import GateDecision
from atlas_gym.trainers.evodpo.training import StepRecord


@dataclass(frozen=True)
class CandidateResult:
    """One member of the candidate set with both quantities of Eq. 4."""

    name: str
    """Adapter it was; the last one is the phase-final policy."""
    step: int
    """Optimiser step after which it was taken."""
    kl: float
    """K̂L against the reference, nats per token."""
    kl_error: float
    """Its standard error over the gate subset's completions."""
    score: float | None
    """Ŝ, mean over the gate subset's prompts; None where no score was asked for."""
    gain: float | None
    """Ŝ − Ŝ of the reference."""
    gain_error: float | None
    """Standard error of the gain, paired by prompt; NaN for a single prompt."""


@dataclass(frozen=True)
class PhaseResult:
    """Everything a phase is remembered by; plain values only (`dataclasses.asdict` is its record)."""

    phase: int
    """Counted from 1."""
    pairs: int
    """Pairs trained on."""
    dropped: int
    """Pairs left out as too long."""
    prompts: int
    """Distinct prompts among them."""
    tokens: int
    """Tokens that went through the model while training, reference included."""
    steps: tuple[StepRecord, ...]
    """Every optimiser step: loss, margin, accuracy, …."""
    kls: tuple[tuple[int, float], ...]
    """(step, K̂L) of each look at it during the training."""
    gate_prompts: tuple[str, ...]
    """The gate subset's prompts."""
    candidates: tuple[CandidateResult, ...]
    """C_k: policies trained under other settings, then the training's own in the order of their steps."""
    chosen: int
    """Index of π_kl in `candidates` (Eq. 4); the final policy unless the rule is gated."""
    reference_score: float | None
    """Ŝ of the reference."""
    decision: GateDecision | None
    """Eq. 5; None unless the rule is gated."""
    weight: float
    """Weight with which the reference moved to the policy: 1 promoted, 0 kept."""
    rolled_back: bool
    """Whether the policy returned to where the phase began."""
    policy_digest: str
    """Of the adapter `POLICY` after the phase."""
    reference_digest: str
    """Of the adapter `REFERENCE` after the phase."""
    seconds: dict[str, float] = field(default_factory=dict)
    """Wall time of `train`, `kl` and `score`."""

    @property
    def promoted(self) -> bool:
        """Whether the reference moved."""
        return self.weight > 0.0


def late_mean(steps: Sequence[StepRecord], name: str) -> float:
    """Mean of a step's quantity over the last quarter of the steps: where the training went."""
    return fmean(getattr(step, name) for step in steps[-max(1, len(steps) // 4) :])


def sinking_warnings(steps: Sequence[StepRecord], beta: float) -> list[str]:
    """What a person has to hear if the chosen completions, too, have lost likelihood; empty if all is well.

    Args:
        steps: Of the phase.
        beta: DPO's β, by which rewards are divided to become log-ratios.
    """
    shift = late_mean(steps, "chosen_reward") / beta
    if shift > -5.0:
        return []
    return [
        f"CHOSEN SIDE SINKS: the chosen completions are {-shift:.1f} nats less likely than under the reference. "
        "Lower the learning rate or pairs.reuse, so that fresh completions are rejected, or set phase.supervised."
    ]
