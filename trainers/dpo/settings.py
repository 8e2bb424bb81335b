"""A phase's settings: its training, its checkpoints, what becomes of the reference, and the gate."""

from dataclasses import dataclass
from typing import ClassVar, Literal

from atlas_gym.trainers.store.plain import require

ReferenceRule = Literal["fixed", "every_phase", "gated"]


@dataclass(frozen=True)
class PhaseSettings:
    """A phase: how it trains, its checkpoints, and what becomes of the reference."""

    reference: ReferenceRule = "gated"
    """When the reference becomes the policy: never (`fixed`), after each phase (`every_phase`), or if the gate lets it
    (`gated`)."""
    initialisation: Literal["base", "previous"] = "previous"
    """Where the policy starts: `base` (the untuned model) or `previous` (the policy of the phase before). With `base`
    the policy is reset in each phase while the programs and everything scored so far are kept."""
    beta: float = 0.1
    """DPO's β, > 0: how strongly the policy is tied to the reference."""
    learning_rate: float = 2e-4
    """Of AdamW, constant."""
    epochs: int = 4
    """Passes over the pairs, at most; `target_kl` may end the training earlier."""
    target_kl: float = 0.2
    """By how much K̂L grows until training ends, nats per token: within the gate's budget, at which it ends in any case,
    and far enough to matter (improving edits rose in phases of 0.16 to 0.32, hardly in those of 0.04). It counts from
    where the phase begins, which after a refusal is not the reference. 0: all epochs."""
    checks: int = 8
    """How often in each epoch K̂L is measured, evenly spaced. Within few steps it can grow past any target: a phase of
    180 pairs went from 0.08 to 0.57 in eleven."""
    checkpoints: int = 2
    """Intermediate checkpoints that the gate may choose: the last of the `checks` before the end; it may always choose
    the final policy. The other rules take the last one within `gate.max_kl`."""
    batch_size: int = 8
    """Pairs per optimiser step."""
    divergence: Literal["reverse_kl", "forward_kl"] = "reverse_kl"
    """What DPO's implicit reward is measured by; EvoTune takes the forward KL."""
    supervised: float = 0.0
    """Weight of a supervised term, the mean loss per token of the chosen completions, beside DPO's. At the same K̂L a
    policy is nearer to good lines with it, and more of its programs run. 0: none."""
    max_tokens: int = 1024
    """Pairs with a longer sequence (prompt and completion) are left out, and counted."""
    activation_checkpointing: bool = False
    """Recompute activations in the backward pass: less memory, a third more time. For larger models."""
    bf16: bool = False
    """Multiply in bfloat16 while training (autocast), adapters and optimiser stay float32: faster on GPUs, and the
    adapters' products are rounded."""
    processes: int = 1
    """Processes that train together. 1 trains in the run's own; more are started by `accelerate launch` on this
    machine, one for each GPU, or with gloo on CPUs."""

    def __post_init__(self) -> None:
        positive = "beta learning_rate epochs batch_size max_tokens"
        others = "target_kl supervised checkpoints"
        require(self, {"positive": positive, "at least 0": others, "at least 1": "checks processes"})


@dataclass(frozen=True)
class GateSettings:
    """The numbers of Eqs. 4 and 5. The paper prints none of them; the defaults are measured (see each field)."""

    min_gain: float = 0.0
    """ε_s, in units of Ŝ: a promotion needs at least this much."""
    standard_errors: float = 2.0
    """ε_s, in standard errors of the gain, paired by prompt: a promotion needs more than this many. With one, a phase
    that changes nothing passes one time in six. 0: `min_gain` alone decides."""
    max_kl: float = 0.5
    """δ_H, nats per token: the trust region of a phase, under every reference rule, around the phase's reference. A
    `fixed` reference stays behind, so in phase k the policy may be k times as far from it. Phases without a target
    moved the policy by 0.02 to 0.26, a runaway moves it by twice the budget and more."""
    kl_penalty: ClassVar[float] = 0.001
    """β_ref, units of Ŝ per nat: how much a checkpoint has to gain to be allowed one nat more. A doubled share of
    improving edits is worth about 0.0005, so that of two checkpoints that gain alike the nearer one is taken."""
    prompts: int = 8
    """Prompts in the gate subset, drawn at random from the phase's buffer and kept out of its pairs."""
    stop_prompts: ClassVar[int] = 4
    """Prompts, drawn likewise, along which K̂L is measured while training, to end it: other ones, so that the gate
    judges on what training has not looked at."""
    share: float = 0.25
    """Share of the buffer's prompts that both have at most; the others are left for pairs."""
    samples: int = 8
    """Fresh completions per gate prompt that Ŝ is the mean of."""

    def __post_init__(self) -> None:
        bounds = {"at least 1": "prompts samples", "in (0, 1)": "share"}
        require(self, bounds | {"at least 0": "max_kl standard_errors"})
