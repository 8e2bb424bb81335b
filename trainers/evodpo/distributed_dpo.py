"""Packed DPO in several processes: the same batches as in one, each divided among the processes.

A batch is divided by prompts, since the pairs of a prompt are one packed sequence; only where there are fewer
prompts than processes are a prompt's pairs divided too. So processes have different numbers of pairs, the last
batch may have too few for all, and neither Accelerate's sampler nor TRL's averages are made for that: here
each process's loss is weighted by its share of the pairs, whereupon the mean over the processes, which is what
gradients and logs are, is the mean over the batch. The supervised term, a mean over the tokens of what was chosen, is
weighted by its share of these. A process that would have nothing computes a pair that counts nothing, for every process
has to take part in every exchange.

The rest is TRL and Accelerate: gradients are exchanged by DistributedDataParallel over whatever backend
`accelerate launch` was told.
"""

from collections.abc import Hashable, Sequence
from typing import Any

import torch
from peft import PeftModel
from torch.utils.data import DataLoader, Dataset
from trl import DPOConfig

from atlas_gym.trainers.data.measures import grouped
from atlas_gym.trainers.evodpo import processes
from atlas_gym.trainers.evodpo.packed_dpo import PackedDPOTrainer
from atlas_gym.trainers.evodpo.settings import SUPERVISED


class DistributedDPOTrainer(PackedDPOTrainer):
    """The packed trainer where several processes share each batch."""

    def __init__(self, model: PeftModel, *, args: DPOConfig, **kwargs: Any) -> None:
        """`args.per_device_train_batch_size` is the number of pairs of a whole batch, of all processes."""
        # Processes run different numbers of prompts through the model, so that nothing may be exchanged in a
        # forward pass, and every parameter that is trained has a gradient.
        args.ddp_broadcast_buffers = False
        args.ddp_find_unused_parameters = False
        super().__init__(model, args=args, **kwargs)
        if self.is_fsdp_enabled or getattr(args.deepspeed_plugin, "zero_stage", 0) == 3:
            raise ValueError(
                "the processes of a phase each hold the whole model, so that adapters can be copied while it trains: "
                "choose a configuration that does not shard parameters (no FSDP, DeepSpeed ZeRO up to 2)"
            )
        self._counted = True
        self._whole = tuple(self.loss_weights)
        self._gather = self.accelerator.gather
        self.accelerator.gather = self._gather_counted

    def get_train_dataloader(self) -> DataLoader:
        """This process's part of every batch, in order."""
        return DataLoader(
            _Parts(self.train_dataset, self._train_batch_size, self.data_collator), batch_size=None
        )

    def _compute_loss(self, model: Any, inputs: dict[str, Any], return_outputs: bool) -> Any:
        pairs, tokens = inputs.pop("shares")
        self._counted = pairs > 0.0
        kinds = zip(self.loss_types, self._whole, strict=True)
        self.loss_weights = [weight * (tokens if kind == SUPERVISED else pairs) for kind, weight in kinds]
        return super()._compute_loss(model, inputs, return_outputs)

    def _gather_counted(self, values: torch.Tensor) -> torch.Tensor:
        """What TRL's averages are taken over: sums (scalars) and values by pair, of those that count."""
        if values.ndim == 0:
            return self._gather(values * self._counted)
        values = values if self._counted else torch.full_like(values, torch.nan)
        padded = self.accelerator.pad_across_processes(values, pad_index=torch.nan)
        gathered = self._gather(padded)
        return gathered[~gathered.isnan()]


class _Parts(Dataset):
    """Item k is this process's part of batch k, collated, with its shares of the batch's pairs and of the tokens of
    what was chosen, 1 where all processes have the same."""

    def __init__(self, pairs: Any, batch_size: int, collate: Any) -> None:
        self._pairs, self._collate = pairs, collate
        self._batches = [
            range(start, min(start + batch_size, len(pairs))) for start in range(0, len(pairs), batch_size)
        ]

    def __len__(self) -> int:
        return len(self._batches)

    def __getitem__(self, index: int) -> dict[str, Any]:
        batch = self._pairs.select(self._batches[index]).to_list()
        parts = divide([tuple(pair["prompt_ids"]) for pair in batch], processes.size())
        own = parts[processes.rank()]
        tokens = [len(pair["chosen_ids"]) for pair in batch]
        shares = (len(own) / len(batch), sum(tokens[i] for i in own) / sum(tokens))
        collated = self._collate([batch[i] for i in own or [0]])
        return collated | {"shares": tuple(share * processes.size() for share in shares)}


def divide(prompts: Sequence[Hashable], processes: int) -> list[list[int]]:
    """The indices of a batch's pairs for each process: whole prompts if possible, the longest lists halved
    else; empty only where there are fewer pairs than processes."""
    parts: list[list[int]] = [[] for _ in range(processes)]
    groups = grouped(range(len(prompts)), lambda index: prompts[index]).values()
    for group in sorted(groups, key=len, reverse=True):
        min(parts, key=len).extend(group)
    while (longest := max(parts, key=len)) and len(longest) > 1 and not all(parts):
        empty = parts.index([])
        parts[empty] = longest[len(longest) // 2 :]
        del longest[len(longest) // 2 :]
    return parts
