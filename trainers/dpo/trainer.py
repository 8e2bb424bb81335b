"""TRL's `DPOTrainer` with another collation and another way to compute log-probabilities, in one process or several.

`PackedDPOTrainer` is TRL's trainer in all that matters to a user: its arguments, logged metrics, Accelerate, optimiser
and callbacks. TRL's loss calls the model on a padded (2 · pairs, T) batch and reads per-token values of the same shape.
Here a batch carries, next to the padded tensors, its packed trees (`trainers.dpo.packed`), and another function answers
that call from them: each common beginning is computed once, the head only where a completion token is predicted, and
the results are scattered to where TRL expects them. Everything from there on is TRL's own code, so losses and metrics
equal the stock trainer's to rounding. The reference's log-probabilities are computed once, over trees of the whole data
set, from a named adapter of the same model. (The stock trainer copies the *current* adapter when it is built: built
anew in each phase, its reference would always move.)

Several processes divide each batch by prompts, since the pairs of a prompt are one packed sequence; only where there
are fewer prompts than processes are a prompt's pairs divided too. So processes have different numbers of pairs, for
which neither Accelerate's sampler nor TRL's averages are made: each process's loss is weighted by its share of the
pairs, whereupon the mean over the processes, which is what gradients and logs are, is the mean over the batch. The
supervised term, a mean over the tokens of what was chosen, is weighted by its share of these. A process that would have
nothing computes a pair that counts nothing, for every process has to take part in every exchange.

Building a TRL trainer leaves marks on the model (an adapter, a patched forward). `borrowed` takes them off again.
"""

from collections.abc import Hashable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from types import SimpleNamespace
from typing import Any

import torch
from datasets import Dataset
from peft import PeftModel
from torch.utils.data import DataLoader
from trl import DPOConfig, DPOTrainer
from trl.trainer.dpo_trainer import DataCollatorForPreference
from trl.trainer.utils import use_adapter

from atlas_gym.agents.models.tokens import encode_completion, encode_prompt
from atlas_gym.agents.models.tree_attention import SDPA
from atlas_gym.trainers.data.measures import grouped
from atlas_gym.trainers.data.pairs import PreferencePair
from atlas_gym.trainers.dpo.packed import TokenValues, log_likelihoods, pack, processes, token_values

SUPERVISED = "sft"
"""TRL's loss that is the supervised term: the mean loss per token of what was chosen."""
_STOCK_REFERENCE = "ref"
"""Adapter to which TRL's trainer copies the current one when it is built."""


def pair_dataset(tokenizer: Any, pairs: Sequence[PreferencePair]) -> Dataset:
    """The pairs as a tokenised data set, in their order.

    What is rejected has no end. That a line ends where it does is not what is wrong with it, and a policy that is
    taught otherwise, by lines mostly shorter than the chosen ones, writes lines that do not end.
    """

    def endless(prompt: str, text: str) -> list[int]:
        body = text.rstrip("\n")
        return encode_completion(tokenizer, prompt, body if body.strip() else text)

    # TRL would tokenise prompt and completion together and append an end of sequence; `trainers.dpo.packed` says why
    # not.
    return Dataset.from_dict(
        {
            "prompt_ids": [encode_prompt(tokenizer, pair.prompt) for pair in pairs],
            "chosen_ids": [encode_completion(tokenizer, pair.prompt, pair.chosen) for pair in pairs],
            "rejected_ids": [endless(pair.prompt, pair.rejected) for pair in pairs],
        }
    )


class PackedDPOTrainer(DPOTrainer):
    """TRL's trainer on packed sequences, walking once through a tokenised data set in its order.

    Args:
        model: its active adapter is trained.
        args: with `precompute_ref_log_probs=True`, `max_length=None` and no `use_weighting`;
            `per_device_train_batch_size` is the number of pairs of a whole batch, of all processes.
        processing_class: the tokenizer.
        reference_adapter: an adapter of `model`.

    Raises:
        ValueError: the model's attention takes no mask such as a packed sequence has.
    """

    def __init__(
        self,
        model: PeftModel,
        *,
        args: DPOConfig,
        processing_class: Any,
        reference_adapter: str,
        **kwargs: Any,
    ) -> None:
        if model.config._attn_implementation not in SDPA:
            raise ValueError(
                'packed sequences need a mask of their own: load the model with attn_implementation="sdpa"'
            )
        # Processes run different numbers of prompts through the model, so that nothing may be exchanged in a
        # forward pass, and every parameter that is trained has a gradient.
        args.ddp_broadcast_buffers = False
        args.ddp_find_unused_parameters = False
        self._reference_adapter = reference_adapter
        pad = processing_class.pad_token_id
        collator = _PackedCollator(processing_class.eos_token_id if pad is None else pad)
        super().__init__(
            model, args=args, processing_class=processing_class, data_collator=collator, **kwargs
        )
        self._counted = True
        self._weights = tuple(self.loss_weights)
        self._gather = self.accelerator.gather
        self.accelerator.gather = self._gather_counted

    def _prepare_dataset(self, dataset: Any, *args: Any, **kwargs: Any) -> Any:
        return dataset

    def _precompute_ref_logps(self, dataset: Dataset, name: str, batch_size: int) -> Dataset:
        # TRL walks over padded batches and caches the result on disk; few trees over all pairs are far less work.
        model: Any = self.model
        with torch.no_grad(), use_adapter(model, self._reference_adapter), self.accelerator.autocast():
            values = log_likelihoods(model, _branches(dataset.to_list()), model.device)
        chosen, rejected = values[: len(dataset)], values[len(dataset) :]
        return dataset.add_column("ref_chosen_logps", chosen).add_column("ref_rejected_logps", rejected)

    def get_train_dataloader(self) -> DataLoader:
        """This process's part of every batch, in order."""
        batches = _Batches(self.train_dataset, self._train_batch_size, self.data_collator, *processes())
        return DataLoader(batches, batch_size=None)

    def _compute_loss(self, model: Any, inputs: dict[str, Any], return_outputs: bool) -> Any:
        pairs, tokens = inputs.pop("shares")
        self._counted = pairs > 0.0
        kinds = zip(self.loss_types, self._weights, strict=True)
        self.loss_weights = [weight * (tokens if kind == SUPERVISED else pairs) for kind, weight in kinds]
        return super()._compute_loss(partial(_packed_forward, model), inputs, return_outputs)

    def _gather_counted(self, values: torch.Tensor) -> torch.Tensor:
        """What TRL's averages are taken over: sums (scalars) and values by pair, of those that count."""
        if values.ndim == 0:
            return self._gather(values * self._counted)
        values = values if self._counted else torch.full_like(values, torch.nan)
        gathered = self._gather(self.accelerator.pad_across_processes(values, pad_index=torch.nan))
        return gathered[~gathered.isnan()]


class _Batches(torch.utils.data.Dataset):
    """Item k is a process's part of batch k, collated, with its ``shares`` of the batch's pairs and of the tokens of
    what was chosen, 1 where all processes have the same."""

    def __init__(self, pairs: Dataset, batch_size: int, collate: Any, rank: int, size: int) -> None:
        self._pairs, self._collate, self._rank, self._size = pairs, collate, rank, size
        starts = range(0, len(pairs), batch_size)
        self._batches = [range(start, min(start + batch_size, len(pairs))) for start in starts]

    def __len__(self) -> int:
        return len(self._batches)

    def __getitem__(self, index: int) -> dict[str, Any]:
        batch = self._pairs.select(self._batches[index]).to_list()
        own = divide([tuple(pair["prompt_ids"]) for pair in batch], self._size)[self._rank]
        tokens = [len(pair["chosen_ids"]) for pair in batch]
        shares = (len(own) / len(batch), sum(tokens[i] for i in own) / sum(tokens))
        collated = self._collate([batch[i] for i in own or [0]])
        return collated | {"shares": tuple(share * self._size for share in shares)}


def divide(prompts: Sequence[Hashable], parts: int) -> list[list[int]]:
    """The indices of a batch's pairs for each process: whole prompts if possible, the longest lists halved else; empty
    only where there are fewer pairs than processes."""
    if parts == 1:
        return [list(range(len(prompts)))]
    found: list[list[int]] = [[] for _ in range(parts)]
    groups = grouped(range(len(prompts)), lambda index: prompts[index]).values()
    for group in sorted(groups, key=len, reverse=True):
        min(found, key=len).extend(group)
    while (longest := max(found, key=len)) and len(longest) > 1 and not all(found):
        empty = found.index([])
        found[empty] = longest[len(longest) // 2 :]
        del longest[len(longest) // 2 :]
    return found


class _PackedCollator(DataCollatorForPreference):
    """TRL's padded batch, plus the same pairs as trees and the way from the trees' tokens to the padded cells."""

    def torch_call(self, examples: list[dict[str, Any]]) -> dict[str, Any]:
        batch: dict[str, Any] = super().torch_call(examples)
        packing = pack(_branches(examples))
        sources, rows, columns = packing.sources(), [], []
        for index, source in enumerate(sources):
            first = len(examples[index % len(examples)]["prompt_ids"]) - 1
            rows.append(torch.full_like(source, index))
            columns.append(torch.arange(first, first + len(source)))
        cells = {"source": torch.cat(sources), "row": torch.cat(rows), "column": torch.cat(columns)}
        batch["packed"] = {"trees": packing.trees, **cells}
        return batch


def _branches(examples: Sequence[dict[str, Any]]) -> list[tuple[list[int], list[int]]]:
    """The chosen branch of every pair, then the rejected one of every pair."""
    return [(pair["prompt_ids"], pair[side]) for side in ("chosen_ids", "rejected_ids") for pair in examples]


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


@contextmanager
def borrowed(model: PeftModel) -> Iterator[PeftModel]:
    """Lend the model to a TRL trainer; afterwards its adapters, its forward and its mode are as before."""
    base = model.get_base_model()
    own_forward = vars(base).get("forward")
    active = model.active_adapter
    try:
        yield model
    finally:
        if _STOCK_REFERENCE in model.peft_config:
            model.delete_adapter(_STOCK_REFERENCE)
        model.set_adapter(active)
        vars(base).pop("forward", None)
        if own_forward is not None:
            base.forward = own_forward
        model.eval()
