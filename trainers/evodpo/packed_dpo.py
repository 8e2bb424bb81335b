"""DPO with TRL, packed: the stock trainer with another collation and another way to compute
log-probabilities.

`PackedDPOTrainer` is TRL's `DPOTrainer` in all that matters to a user: its arguments, loss types, logged
metrics, Accelerate, optimiser, callbacks and checkpoints. TRL's loss calls the model on a padded (2 ·
pairs, T) batch and reads per-token log-probabilities of the same shape. Here a batch carries, next to the
padded tensors, its prompt trees (`trainers.evodpo.packing`), and a stand-in for the model answers that call from
them: each common beginning is computed once, the head only where a completion token is predicted, and the results are
scattered to where TRL expects them. Everything from there on is TRL's own code, so losses and metrics equal
the stock trainer's to rounding.

The reference's log-probabilities are computed once, over trees of the whole data set, from a
named adapter of the same model. (The stock trainer copies the *current* adapter when it is built: built
anew in each phase, its reference would always move.) `PreparedDPOTrainer` is the stock trainer with the
same two arrangements, for comparison: data that is tokenised already, and a reference adapter by name.

Building a TRL trainer leaves marks on the model (an adapter, a patched forward). `borrowed` takes them off
again.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from types import SimpleNamespace
from typing import Any

import torch
from datasets import Dataset
from peft import PeftModel
from trl import DPOConfig, DPOTrainer
from trl.trainer.dpo_trainer import DataCollatorForPreference
from trl.trainer.utils import use_adapter

from atlas_gym.agents.models.tokens import encode_completion, encode_prompt
from atlas_gym.agents.models.tree_attention import SDPA
from atlas_gym.trainers.data.pairs import PreferencePair
from atlas_gym.trainers.evodpo.packing import pair_branches, plant
from atlas_gym.trainers.evodpo.token_values import TokenValues, branch_log_probs, token_values

STOCK_REFERENCE = "ref"
"""Adapter to which TRL's trainer copies the current one when it is built, and which it uses as the
reference."""


def pair_dataset(tokenizer: Any, pairs: Sequence[PreferencePair]) -> Dataset:
    """The pairs as a tokenised data set, in their order.

    What is rejected has no end. That a line ends where it does is not what is wrong with it, and a policy that is
    taught otherwise, by lines mostly shorter than the chosen ones, writes lines that do not end.
    """
    return Dataset.from_dict(
        {
            "prompt_ids": [encode_prompt(tokenizer, pair.prompt) for pair in pairs],
            "chosen_ids": [encode_completion(tokenizer, pair.prompt, pair.chosen) for pair in pairs],
            "rejected_ids": [_endless(tokenizer, pair.prompt, pair.rejected) for pair in pairs],
        }
    )


def _endless(tokenizer: Any, prompt: str, text: str) -> list[int]:
    body = text.rstrip("\n")
    return encode_completion(tokenizer, prompt, body if body.strip() else text)


class PreparedDPOTrainer(DPOTrainer):
    """TRL's trainer on data that may be tokenised already, against a reference adapter given by name."""

    def __init__(self, model: PeftModel, *, reference_adapter: str | None = None, **kwargs: Any) -> None:
        """`reference_adapter`: an adapter of `model`; None is TRL's rule, the trained adapter as it is
        now."""
        self._reference_adapter = reference_adapter or STOCK_REFERENCE
        trained = {name: tensor.data for name, tensor in model.named_parameters() if tensor.requires_grad}
        super().__init__(model, **kwargs)
        for name, values in trained.items():  # above a quantised base, TRL rounds adapters to bfloat16
            model.get_parameter(name).data = values
        if reference_adapter is not None:
            _copy_adapter(model, reference_adapter, STOCK_REFERENCE)

    def _prepare_dataset(self, dataset: Any, *args: Any, **kwargs: Any) -> Any:
        # TRL tokenises prompt and completion together and appends an end of sequence; `trainers.evodpo.packing`
        # says why not.
        if "prompt_ids" in dataset.column_names:
            return dataset
        return super()._prepare_dataset(dataset, *args, **kwargs)


class PackedDPOTrainer(PreparedDPOTrainer):
    """The same, with the completions of a prompt packed into one sequence."""

    def __init__(self, model: PeftModel, *, args: DPOConfig, processing_class: Any, **kwargs: Any) -> None:
        """`args` needs `precompute_ref_log_probs=True`, `max_length=None` and no `use_weighting`."""
        require_own_mask(model)
        pad = processing_class.pad_token_id
        collator = PackedCollator(processing_class.eos_token_id if pad is None else pad)
        super().__init__(
            model, args=args, processing_class=processing_class, data_collator=collator, **kwargs
        )

    def _compute_loss(self, model: Any, inputs: dict[str, Any], return_outputs: bool) -> Any:
        return super()._compute_loss(partial(_packed_forward, model), inputs, return_outputs)

    def _precompute_ref_logps(self, dataset: Dataset, name: str, batch_size: int) -> Dataset:
        # TRL walks over padded batches and caches the result on disk; few trees over all pairs are far less
        # work than that.
        branches = pair_branches(dataset.to_list())
        model: Any = self.model
        with torch.no_grad(), use_adapter(model, self._reference_adapter), self.accelerator.autocast():
            values = branch_log_probs(model, branches, model.device)
        chosen, rejected = values[: len(dataset)], values[len(dataset) :]
        return dataset.add_column("ref_chosen_logps", chosen).add_column("ref_rejected_logps", rejected)


class PackedCollator(DataCollatorForPreference):
    """TRL's padded batch, plus the same pairs as trees and the way from the trees' tokens to the padded
    cells."""

    def torch_call(self, examples: list[dict[str, Any]]) -> dict[str, Any]:
        batch: dict[str, Any] = super().torch_call(examples)
        forest = plant(pair_branches(examples))
        source, row, column = forest.sources(), [], []
        for index, owned in enumerate(source):
            first = len(examples[index % len(examples)]["prompt_ids"]) - 1
            row.append(torch.full_like(owned, index))
            column.append(torch.arange(first, first + len(owned)))
        cells = {"source": torch.cat(source), "row": torch.cat(row), "column": torch.cat(column)}
        batch["packed"] = {"trees": forest.trees, **cells}
        return batch


def _packed_forward(
    model: Any, *, packed: dict[str, Any], input_ids: torch.Tensor, **_: Any
) -> SimpleNamespace:
    """Answers the call that TRL's loss makes to the model, `model(**batch, labels=…, fused_lm_head=True)`, with
    per-token values in TRL's layout: (2 · pairs, T − 1), zero off the completions."""
    per_tree = [token_values(model, tree) for tree in packed["trees"]]
    found = {}
    for name, *parts in zip(TokenValues._fields, *per_tree, strict=True):
        values = torch.cat(parts)
        padded = values.new_zeros(input_ids.shape[0], input_ids.shape[1] - 1)
        padded[packed["row"], packed["column"]] = values[packed["source"]]
        found[name] = padded
    return SimpleNamespace(**found)


def require_own_mask(model: PeftModel) -> None:
    """ValueError where the model's attention takes no mask such as a packed sequence has."""
    if model.config._attn_implementation not in SDPA:
        raise ValueError(
            'packed sequences need a mask of their own: load the model with attn_implementation="sdpa"'
        )


@contextmanager
def borrowed(model: PeftModel) -> Iterator[PeftModel]:
    """Lend the model to a TRL trainer; afterwards its adapters, its forward and its mode are as before."""
    base = model.get_base_model()
    own_forward = vars(base).get("forward")
    active = model.active_adapter
    try:
        yield model
    finally:
        if STOCK_REFERENCE in model.peft_config:
            model.delete_adapter(STOCK_REFERENCE)
        model.set_adapter(active)
        vars(base).pop("forward", None)
        if own_forward is not None:
            base.forward = own_forward
        model.eval()


@torch.no_grad()
def _copy_adapter(model: PeftModel, source: str, target: str) -> None:
    for name, parameter in model.named_parameters():
        if f".{source}." in name:
            model.get_parameter(name.replace(f".{source}.", f".{target}.")).copy_(parameter)
