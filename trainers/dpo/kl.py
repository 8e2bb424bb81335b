"""Eq. 3: how far a policy has moved from the reference, in nats per token; and how likely it writes known answers.

    K̂L(π) = mean over items of  (1/L_y) Σ_ℓ KL( π(·|x, y_<ℓ) ‖ π_ref(·|x, y_<ℓ) )

along the completion y of each item, over the whole vocabulary, on completion tokens only. The direction is policy ‖
reference. Items share passes (`trainers.dpo.packed`), and the reference's are made once. Several processes take passes
in turn and add up.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean

import torch
from scipy.special import logsumexp
from torch.nn.functional import kl_div

from atlas_gym.agents.models.policy import Policy
from atlas_gym.intervals import standard_error
from atlas_gym.trainers.dpo.likelihoods import chunk, lazy_logits, log_likelihoods, mine, totals
from atlas_gym.trainers.dpo.packed import Pass, encode_branch, pack, room, wants_even

Item = tuple[str, str]
"""(prompt, completion)."""

_KEPT = 1024
"""Places whose logits under the reference a CPU keeps for the next look (200 MB at 49k tokens); what is beyond is
computed again. A GPU keeps hidden states."""

Logits = Callable[[slice], torch.Tensor]
"""Next-token logits of a slice of a pass's M places, float32."""


@dataclass(frozen=True)
class KLEstimate:
    """Eq. 3 of one policy."""

    mean: float  # K̂L, nats per token
    # of the mean, over items (0 for a single one). Items of one prompt are correlated, so it is a lower bound
    standard_error: float
    per_item: tuple[float, ...]  # token average of each item, in their order


class Divergence:
    """Eq. 3 along the same completions, again and again, of adapters against a `reference` that stays as it is; `even`
    as `pack` has it, by default as suits the device. Raises ValueError without items."""

    def __init__(
        self, policy: Policy, reference: str, items: Sequence[Item], even: bool | None = None
    ) -> None:
        if not items:
            raise ValueError("the divergence is an average over completions, and none were given")
        even = wants_even(policy.device) if even is None else even
        branches = [encode_branch(policy.tokenizer, *item) for item in items]
        packing = pack(branches, room(policy.model, training=False), even)
        self._policy, self._reference, self._places = policy, reference, packing.places
        self._passes = [batch.to(policy.device) for batch in packing.passes]
        self._kept: dict[int, Logits] = {}
        self._places_left = _KEPT

    def of(self, adapters: Sequence[str]) -> dict[str, KLEstimate]:
        """Eq. 3 of each adapter."""
        if not adapters:
            return {}
        sizes = [len(batch.lengths) for batch in self._passes]
        averages = torch.zeros(len(adapters), sum(sizes), device=self._policy.device)
        with torch.inference_mode():
            for index, batch in enumerate(self._passes):
                if mine(index):
                    here = slice(sum(sizes[:index]), sum(sizes[: index + 1]))
                    reference = self._of_reference(index, batch)
                    for row, name in zip(averages, adapters, strict=True):
                        row[here] = _branch_averages(self._logits(name, batch), reference, batch)
            found = totals(averages)[:, self._places].double().tolist()
        return {name: _estimate(values) for name, values in zip(adapters, found, strict=True)}

    def _of_reference(self, index: int, batch: Pass) -> Logits:
        if index in self._kept:
            return self._kept[index]
        reference = self._logits(self._reference, batch)
        if self._policy.device.type != "cpu":
            self._kept[index] = reference
        elif len(batch.places) <= self._places_left:
            self._places_left -= len(batch.places)
            self._kept[index] = reference(slice(None)).__getitem__
        return reference

    def _logits(self, adapter: str, batch: Pass) -> Logits:
        with self._policy.using(adapter) as model:
            return lazy_logits(model, batch)


def _estimate(values: Sequence[float]) -> KLEstimate:
    error = float(standard_error(values)) if len(values) > 1 else 0.0
    return KLEstimate(fmean(values), error, tuple(values))


def _branch_averages(own: Logits, reference: Logits, batch: Pass) -> torch.Tensor:
    """Token averages of KL(own ‖ reference) along each branch."""
    size = chunk(batch.places.device)
    slices = [slice(first, first + size) for first in range(0, len(batch.places), size)]
    divergences = [
        kl_div(
            reference(here).log_softmax(-1), own(here).log_softmax(-1), reduction="none", log_target=True
        ).sum(-1)
        for here in slices
    ]
    sums = batch.per_branch(torch.cat(divergences))
    return sums / torch.tensor(batch.lengths, device=sums.device)


def log_known_gain(
    policy: Policy, adapter: str, answers: Mapping[str, Sequence[tuple[str, float]]]
) -> list[float]:
    """log Σ_y π(y|x) · gain(y) for each prompt x over its known answers y that improve, nats.

    Where good programs are so rare that no sample is one, a score of samples is 0 for every policy; this one still
    tells two policies apart. All prompts count alike, so that no single one decides. `answers`: by prompt, distinct
    completions, each with its gain > 0; none may be empty.
    """
    if not answers:
        return []
    branches = [encode_branch(policy.tokenizer, x, text) for x, known in answers.items() for text, _ in known]
    with policy.using(adapter) as model:
        values = iter(log_likelihoods(model, branches))
    return [
        float(logsumexp([next(values) + math.log(gain) for _, gain in known])) for known in answers.values()
    ]
