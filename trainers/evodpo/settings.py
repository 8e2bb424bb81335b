"""A phase: its objective, the candidate set, the gate, what becomes of the reference, and the processes that do it."""

from dataclasses import dataclass
from typing import Literal

from atlas_gym.trainers.store.plain import require

Reference = Literal["fixed", "every_phase", "gated"]
"""How the reference follows the policy."""
Initialisation = Literal["base", "previous"]
"""Where the policy of a phase starts: from the untuned base model, or from the policy of the phase before."""
SUPERVISED = "sft"
"""TRL's loss that is the supervised term: the mean loss per token of what was chosen."""


@dataclass(frozen=True)
class TrainingSettings:
    """What the training is told."""

    beta: float = 0.1
    """DPO's β, > 0: how strongly the policy is tied to the reference."""
    learning_rate: float = 2e-4
    """Of AdamW, after the warm-up constant."""
    epochs: int = 4
    """Passes over the pairs, at most; `target_kl` may end the training earlier."""
    target_kl: float = 0.2
    """By how much K̂L grows until training ends, nats per token: within the gate's budget, at which it ends in any case,
    and far enough to matter (improving edits rose in phases of 0.16 to 0.32, hardly in those of 0.04). It counts from
    where the phase begins, which after a refusal is not the reference. 0: all epochs."""
    checks: int = 8
    """How often in each epoch K̂L is measured, evenly spaced. Within few steps it can grow past any target: a phase of
    180 pairs went from 0.08 to 0.57 in eleven."""
    batch_size: int = 8
    """Pairs per optimiser step."""
    warmup_steps: int = 0
    """Steps over which the learning rate rises to its value. The first step of a warm-up has the rate zero,
    which is a lot to waste where a phase has 16."""
    max_grad_norm: float = 1.0
    """Gradients are clipped to this norm."""
    divergence: Literal["reverse_kl", "forward_kl"] = "reverse_kl"
    """What DPO's implicit reward is measured by; EvoTune takes the forward KL."""
    supervised: float = 0.0
    """Weight of a supervised term, the mean loss per token of the chosen completions, beside DPO's. At the same K̂L a
    policy is nearer to good lines with it, and more of its programs run: with 4, several times DPO's own gradient, two
    phases took lines within reach that DPO alone did not. 0: none."""
    packed: bool = True
    """One sequence per prompt; False is TRL's own collation: the same numbers, ten times the time."""
    max_tokens: int = 1024
    """Pairs with a longer sequence (prompt and completion) are left out, and counted."""
    activation_checkpointing: bool = False
    """Recompute activations in the backward pass: less memory, a third more time. For larger models."""
    bf16: bool = False
    """Multiply in bfloat16 while training (autocast), adapters and optimiser stay float32: faster on GPUs, and the
    adapters' products are rounded."""

    def __post_init__(self) -> None:
        positive = "beta learning_rate epochs batch_size max_grad_norm max_tokens"
        others = "target_kl supervised warmup_steps"
        require(self, {"positive": positive, "at least 0": others, "at least 1": "checks"})

    @property
    def undivided(self) -> str:
        """Why several processes cannot train so, and what to set; empty if they can."""
        if not self.packed:
            return "several processes train packed sequences only: leave launch as it is, or set phase.packed: true"
        return ""


@dataclass(frozen=True)
class PhaseSettings(TrainingSettings):
    """A phase: how it trains, the candidate set, the gate subset, and what becomes of the reference."""

    reference: Reference = "gated"
    """When the reference becomes the policy: never (`fixed`), after each phase (`every_phase`), or if the gate lets it
    (`gated`)."""
    initialisation: Initialisation = "previous"
    """Where the policy starts: `base` (the untuned model) or `previous` (the policy of the phase before). With `base`
    the policy is reset in each phase while the programs and everything scored so far are kept."""
    checkpoints: int = 2
    """Intermediate checkpoints in the candidate set: the last of the `checks` before the end; the final policy
    always is in it. Gated rule only."""
    alternatives: int = 0
    """Further policies in the candidate set, each trained from where the phase begins under other settings near the
    strategist's (the ones before its change, a weaker β, a stronger one): up to 3, and each costs as much as the
    training itself. Gated rule only."""
    rollback: bool = False
    """After a refusal, return the policy to where the phase began. Gated rule only. Beyond the budget it is returned
    in any case: from there no phase could be promoted."""

    def __post_init__(self) -> None:
        super().__post_init__()
        require(self, {"at least 0": "checkpoints"})
        if not 0 <= self.alternatives <= 3:
            raise ValueError(f"alternatives must lie between 0 and 3, got {self.alternatives}")


@dataclass(frozen=True)
class GateSettings:
    """The numbers of Eqs. 4 and 5. The paper prints none of them; the defaults are measured (see each
    field)."""

    min_gain: float = 0.0
    """ε_s, in units of Ŝ: a promotion needs at least this much."""
    standard_errors: float = 1.0
    """ε_s, in standard errors of the gain: a promotion needs more than this many. 0: `min_gain`
    alone decides."""
    max_kl: float = 0.5
    """δ_H, nats per token: the trust region. Phases without a target moved the policy by 0.02 to 0.26, a
    runaway moves it by twice the budget and more."""
    kl_penalty: float = 0.001
    """β_ref, units of Ŝ per nat: how much a candidate has to gain to be allowed one nat more. A doubled share of
    improving edits is worth about 0.0005, so that of two candidates that gain alike the nearer one is taken."""
    prompts: int = 8
    """Prompts in the gate subset, drawn at random from the phase's buffer and kept out of its pairs."""
    share: float = 0.25
    """Share of the buffer's prompts that the gate subset has at most; the others are left for pairs."""
    samples: int = 8
    """Fresh completions per gate prompt that Ŝ is the mean of."""

    def __post_init__(self) -> None:
        bounds = {"at least 1": "prompts samples", "in (0, 1)": "share"}
        require(self, bounds | {"at least 0": "max_kl standard_errors kl_penalty"})


@dataclass(frozen=True)
class LaunchSettings:
    """In which processes phases are tuned."""

    processes: int = 1
    """Processes of a phase. 1 tunes in the run's own process; more are started by `accelerate launch` on this
    machine, one for each GPU, or with gloo on CPUs."""
    config_file: str = ""
    """A configuration that `accelerate config` wrote, for anything beyond that (DeepSpeed, say);
    how many processes there are is then its affair. Empty: none."""

    def __post_init__(self) -> None:
        require(self, {"at least 1": "processes"})

    @property
    def separate(self) -> bool:
        """Whether phases run in processes of their own."""
        return self.processes > 1 or bool(self.config_file)
