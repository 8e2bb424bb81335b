"""The policy: one base model in memory, and everything that is learned in small named LoRA adapters.

The policy, the reference it is measured against and the candidates of a phase are adapters of the same frozen base, so
a promotion is a copy of a few megabytes. PEFT knows of the policy's only; the others are matrices beside it, which the
layers compute with when they are told to. A fresh adapter (B = 0) *is* the base model, bit for bit.

- `with policy.using(name) as model`: forward passes with the adapter of that name, unmerged.
- `with policy.merged(name) as model`: a plain Hugging Face model with the adapter folded in, for generation, which
  takes half the time. Weights change in place, so that a captured CUDA graph stays right. Afterwards the base's are
  restored to the last bit, from copies beside them: in bfloat16 (W + Δ) − Δ ≠ W.
- `with policy.learning() as learner`: training of `POLICY`. Passes see it rounded to the dtype that the base computes
  in, the optimiser sees float32.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, cast

import torch
from peft import LoraConfig, PeftModel, get_peft_model
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from atlas_gym.agents.models.adapters import AdapterError, digest, read_adapter, write_adapter
from atlas_gym.agents.models.layers import Held, LeanLinear, fitting_dtype, make_lean
from atlas_gym.agents.models.loading import load_model
from atlas_gym.agents.models.memory import require_memory
from atlas_gym.agents.models.settings import LoraSettings
from atlas_gym.agents.models.tree_attention import use_tree_attention

POLICY = "default"
"""Name of the adapter that is trained."""
REFERENCE = "reference"
"""Name of the frozen adapter that the policy is measured against."""


class Policy:
    """One base model and its adapters. Always holds `POLICY` (trainable) and `REFERENCE` (frozen), both the
    base at first."""

    def __init__(
        self,
        model: PreTrainedModel,
        tokenizer: PreTrainedTokenizerBase,
        lora: LoraSettings | None = None,
        folder: Path | None = None,
        seed: int = 0,
    ) -> None:
        """Wraps `model`. `folder`: its checkpoint, from which other processes can load it."""
        self.tokenizer = tokenizer
        self.folder = folder
        self.dtype: torch.dtype = model.dtype
        self.lora = lora or LoraSettings()
        with _seeded(seed), warnings.catch_warnings():
            # PEFT 0.21 asks transformers for a property by its old name.
            warnings.filterwarnings("ignore", "`is_gradient_checkpointing`", FutureWarning)
            self.model: PeftModel = get_peft_model(model, _peft(self.lora), adapter_name=POLICY)
        make_lean(self.model)
        self.model.eval()
        self._layers = {
            name: module for name, module in self.base.named_modules() if isinstance(module, LeanLinear)
        }
        self._adapters: dict[str, dict[str, torch.Tensor]] = {
            POLICY: {
                f"base_model.model.{name}.lora_{part}.weight": getattr(layer, f"lora_{part}")[POLICY].weight
                for name, layer in self._layers.items()
                for part in "AB"
            }
        }
        self._kept: list[tuple[torch.Tensor, torch.Tensor]] = []
        """Each matrix that is merged at the moment, and what it was."""
        self.add(REFERENCE, copy_of=POLICY)

    @classmethod
    def load(
        cls,
        folder: str | Path,
        *,
        dtype: torch.dtype | None = None,
        lora: LoraSettings | None = None,
        device: str = "cpu",
        seed: int = 0,
    ) -> Policy:
        """Load the model in `folder`; `seed` draws the adapters' first A matrices.

        `dtype` is what it computes in, `None` the type that fits the device. Adapters are float32. Raises
        `ModelTooLarge` for a GPU that cannot hold it.
        """
        dtype, lora = dtype or fitting_dtype(device), lora or LoraSettings()
        require_memory(Path(folder), dtype, lora.rank, device)
        # Packed sequences need a mask of their own, which "sdpa" takes as it is.
        model, tokenizer = load_model(folder, dtype=dtype, attn_implementation="sdpa")
        use_tree_attention(model)
        return cls(model.to(device), tokenizer, lora, Path(folder), seed)

    @property
    def base(self) -> PreTrainedModel:
        """The base model, whose layers hold the adapters."""
        return cast(PreTrainedModel, self.model.get_base_model())

    @property
    def device(self) -> torch.device:
        """Where the weights are."""
        return self.model.device

    @property
    def adapters(self) -> tuple[str, ...]:
        """Names of all adapters."""
        return tuple(self._adapters)

    def tensors(self, name: str) -> dict[str, torch.Tensor]:
        """The adapter's own tensors (not copies), by their names in a PEFT checkpoint."""
        self._require(name)
        return dict(self._adapters[name])

    def digest(self, name: str) -> str:
        """SHA-256 of the adapter's tensors: equal adapters, and only they, have equal digests."""
        return digest(self.tensors(name))

    def equal(self, one: str, other: str) -> bool:
        """Whether two adapters are the same."""
        pairs = zip(self.tensors(one).values(), self.tensors(other).values(), strict=True)
        return all(torch.equal(*pair) for pair in pairs)

    def add(self, name: str, copy_of: str) -> None:
        """Add a frozen adapter as an exact copy of another."""
        self._adapters[name] = {key: tensor.detach().clone() for key, tensor in self.tensors(copy_of).items()}

    def remove(self, name: str) -> None:
        """Remove an adapter; `POLICY` and `REFERENCE` stay."""
        self._require(name)
        if name in (POLICY, REFERENCE):
            raise ValueError(f"a policy always has the adapter {name!r}")
        del self._adapters[name]

    @torch.no_grad()
    def copy(self, source: str, target: str) -> None:
        """Make `target` an exact copy of `source`."""
        torch._foreach_copy_(list(self.tensors(target).values()), list(self.tensors(source).values()))

    def reset(self, seed: int) -> None:
        """Make the policy a fresh adapter, which is the base model: A random (by `seed`), B zero."""
        with _seeded(seed):
            for layer in self._layers.values():
                layer.reset_lora_parameters(POLICY, init_lora_weights=True)

    def save(self, name: str, folder: str | Path) -> str:
        """Write the adapter to `folder` in PEFT's layout, at once or not at all; returns its digest."""
        return write_adapter(Path(folder), self.tensors(name), _peft(self.lora))

    def is_base(self, name: str) -> bool:
        """Whether the adapter changes nothing."""
        return not any(torch.any(t) for key, t in self.tensors(name).items() if ".lora_B." in key)

    @torch.no_grad()
    def restore(self, name: str, folder: str | Path, saved: str | None = None) -> str:
        """Overwrite the adapter by one that `save` wrote; returns its digest. Raises `AdapterError`, also where it is
        not the one whose digest was `saved`."""
        loaded = read_adapter(Path(folder), self.tensors(name))
        found = digest(loaded)
        if saved not in (None, found):
            raise AdapterError(f"{folder} is not the adapter that was saved there; put that one back")
        for key, tensor in self.tensors(name).items():
            tensor.copy_(loaded[key])
        return found

    @contextmanager
    def using(self, name: str) -> Iterator[PeftModel]:
        """The model with this adapter active, as it is now, unmerged. Not for training: the adapter in use takes no
        gradient."""
        self._require_unmerged(name)
        with self._holding(self._rounded(name)):
            yield self.model

    @contextmanager
    def learning(self) -> Iterator[Learner]:
        """The model with `POLICY` active, for training; within the block other adapters can be used in between."""
        self._require_unmerged(POLICY)
        learner = Learner(list(self.tensors(POLICY).values()), self._rounded(POLICY))
        with self._holding(learner.rounded):
            yield learner
        for tensor in learner.parameters:
            tensor.grad = None

    def _rounded(self, name: str) -> list[torch.Tensor]:
        """The adapter's tensors in the base's dtype, in their order; its own where that is float32."""
        return [tensor.detach().to(self.dtype) for tensor in self.tensors(name).values()]

    @contextmanager
    def _holding(self, tensors: Sequence[torch.Tensor]) -> Iterator[None]:
        before = [layer.held for layer in self._layers.values()]
        for layer, down, up in zip(self._layers.values(), tensors[::2], tensors[1::2], strict=True):
            layer.held = Held(down, up, layer.scaling[POLICY])
        try:
            yield
        finally:
            for layer, held in zip(self._layers.values(), before, strict=True):
                layer.held = held

    @contextmanager
    def merged(self, name: str) -> Iterator[PreTrainedModel]:
        """A plain model with this adapter folded into the weights, W + s·B·A computed in float32 and rounded once; the
        base is restored bit for bit on leaving."""
        self._require_unmerged(name)
        self.model.eval()
        matrices = [] if self.is_base(name) else list(self._adapters[name].values())
        try:
            with torch.no_grad():
                for layer, down, up in zip(
                    self._layers.values(), matrices[::2], matrices[1::2], strict=False
                ):
                    weight: Any = layer.get_base_layer().weight
                    self._kept.append((weight, weight.detach().clone()))
                    update = layer.scaling[POLICY] * (up @ down)
                    weight.copy_(weight.float() + (update.T if layer.fan_in_fan_out else update))
            with self.model.disable_adapter():
                yield self.base
        finally:
            with torch.no_grad():
                while self._kept:
                    weight, original = self._kept.pop()
                    weight.copy_(original)

    def _require(self, name: str) -> None:
        if name not in self.adapters:
            raise KeyError(f"no adapter is called {name!r}; there are {', '.join(self.adapters)}")

    def _require_unmerged(self, name: str) -> None:
        self._require(name)
        if self._kept:
            raise RuntimeError("an adapter is merged for generation; leave `merged()` first")


class Learner:
    """The adapter that is trained: `parameters`, float32, and their `gradients` for the optimiser, and `rounded`, what
    the layers compute with, which takes the gradients of a pass."""

    def __init__(self, parameters: list[torch.Tensor], rounded: list[torch.Tensor]) -> None:
        self.parameters, self.rounded = parameters, rounded
        self.gradients = [torch.zeros_like(tensor) for tensor in parameters]
        for tensor, gradient in zip(parameters, self.gradients, strict=True):
            tensor.grad = gradient
        for tensor in rounded:
            tensor.requires_grad_()

    def backward(self, loss: torch.Tensor) -> None:
        """Add a loss's gradients to those of the parameters."""
        found = torch.autograd.grad(loss, self.rounded, allow_unused=True)
        pairs = [(own, new) for own, new in zip(self.gradients, found, strict=True) if new is not None]
        with torch.no_grad():
            torch._foreach_add_([own for own, _ in pairs], [new for _, new in pairs])

    @torch.no_grad()
    def renew(self) -> None:
        """After a step of the optimiser: round anew, and forget the gradients."""
        torch._foreach_copy_(self.rounded, self.parameters)
        torch._foreach_zero_(self.gradients)


@contextmanager
def _seeded(seed: int) -> Iterator[None]:
    """PEFT draws from the global generator only: seed it, and put it back as it was."""
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        yield


def _peft(lora: LoraSettings) -> LoraConfig:
    """PEFT's configuration: every linear layer but the output head, without dropout, so that training is deterministic
    and packed training equals unpacked."""
    return LoraConfig(r=lora.rank, lora_alpha=lora.alpha, target_modules="all-linear", task_type="CAUSAL_LM")
