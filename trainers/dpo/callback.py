"""A reference that moves through EvoDPO's gate, for TRL's `DPOTrainer` and any PEFT model: `docs/gated-reference.md`.

TRL keeps the reference of a PEFT model as a frozen adapter, "ref", and takes the base where there is none. Every
`every` steps, a phase, the gate of a run of ATLAS (`trainers.dpo.gate`) decides whether "ref" becomes the policy. TRL's
checkpoints hold both adapters and the decisions, so that a resumed training goes on with the reference that it had.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from math import inf
from typing import Any

import torch
from peft import PeftModel
from transformers import TrainerCallback
from trl.trainer.utils import use_adapter

from atlas_gym.trainers.dpo.gate import gate_decision, paired_gain, reference_moves
from atlas_gym.trainers.dpo.kl import Divergence, Item
from atlas_gym.trainers.dpo.settings import GateSettings, ReferenceRule

_REFERENCE = "ref"
"""What TRL calls the adapter."""


class GatedReference(TrainerCallback):
    """The reference becomes the policy if the policy gains and is near enough; else it stays.

    A refused policy goes on, or returns to the reference if it is beyond `max_kl`. Each decision is an entry of
    `trainer.state.log_history`, with ``gate/promoted`` and ``gate/reason``. Raises ValueError, when training begins,
    for a model or a configuration whose reference cannot move.

    Args:
        score: of a model with its active adapter, one number for each of some prompts that are not in the training
            data, always the same. Asked of policy and reference, gated rule only.
        items: (prompt, preferred completion), along which K̂L (Eq. 3) is measured; not in the training data either.
        max_kl: δ_H, nats per token.
        every: optimiser steps of a phase.
        rule: "gated", or for comparison "fixed" (the reference stays, whatever happens) and "every_phase" (it moves
            unless the policy is beyond `max_kl`).
        min_gain: ε_s in units of the score.
        standard_errors: ε_s in standard errors of the gain, paired by prompt.
    """

    def __init__(
        self,
        score: Callable[[PeftModel], Sequence[float]],
        items: Sequence[Item],
        max_kl: float = 0.5,
        every: int = 100,
        rule: ReferenceRule = "gated",
        min_gain: float = 0.0,
        standard_errors: float = 2.0,
    ) -> None:
        self.score, self.items, self.every, self.rule = score, items, every, rule
        self.gate = GateSettings(min_gain=min_gain, standard_errors=standard_errors, max_kl=max_kl)

    def on_train_begin(self, args: Any, state: Any, control: Any, model: Any = None, **kwargs: Any) -> None:
        if not isinstance(model, PeftModel):
            raise ValueError("the reference of a whole model cannot move: give the trainer a PEFT model")
        if getattr(args, "precompute_ref_log_probs", False):
            raise ValueError("precompute_ref_log_probs computes the reference once: turn it off")
        # TRL's reference is then the base, which a fresh adapter is as well.
        if _REFERENCE not in model.peft_config:
            policy = model.active_adapter
            model.add_adapter(_REFERENCE, model.peft_config[policy])
            model.set_adapter(policy)
            if any(tensor.any() for name, tensor in _tensors(model, _REFERENCE).items() if "lora_B" in name):
                raise ValueError("a fresh adapter is not the base here: set init_lora_weights=True")

    def on_step_end(self, args: Any, state: Any, control: Any, model: Any = None, **kwargs: Any) -> None:
        if state.global_step % self.every:
            return
        training, policy = model.training, model.active_adapter
        model.eval()
        adapted: Any = _Adapted(model, kwargs["processing_class"])
        kl = Divergence(adapted, _REFERENCE, self.items, even=True).of([policy])[policy].mean
        entry: dict[str, Any] = {"gate/kl": kl}
        decision = None
        if self.rule == "gated":
            with torch.no_grad():
                own = self.score(model)
                with adapted.using(_REFERENCE):
                    gain, error = paired_gain(own, self.score(model))
            decision = gate_decision(gain, kl, self.gate, gain_error=error)
            entry |= {"gate/reason": decision.reason, "gate/gain": gain}
        budget = inf if self.rule == "fixed" else self.gate.max_kl
        promoted, back = reference_moves(self.rule, decision, kl, budget)
        if promoted:
            _copy(model, policy, _REFERENCE)
        elif back:
            _copy(model, _REFERENCE, policy)
        model.train(training)
        state.log_history.append(entry | {"gate/promoted": promoted, "step": state.global_step})


class _Adapted:
    """What `Divergence` asks of a policy, of any PEFT model."""

    def __init__(self, model: PeftModel, tokenizer: Any) -> None:
        self.model, self.tokenizer, self.device = model, tokenizer, model.device

    @contextmanager
    def using(self, name: str) -> Iterator[PeftModel]:
        with use_adapter(self.model, name):
            yield self.model


def _tensors(model: PeftModel, name: str) -> dict[str, torch.Tensor]:
    """The adapter's parameters by their names, less its own."""
    found = model.named_parameters()
    return {key.replace(f".{name}.", "."): tensor for key, tensor in found if f".{name}." in key}


def _copy(model: PeftModel, source: str, target: str) -> None:
    targets = _tensors(model, target)
    with torch.no_grad():
        for key, tensor in _tensors(model, source).items():
            targets[key].copy_(tensor)
