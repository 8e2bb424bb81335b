"""Eq. 3: how far a policy has moved from the reference, in nats per token; and how likely it writes known answers.

    K̂L(π) = mean over items of  (1/L_y) Σ_ℓ KL( π(·|x, y_<ℓ) ‖ π_ref(·|x, y_<ℓ) )

along the completion y of each item, over the whole vocabulary, on completion tokens only. The direction is policy ‖
reference. Items that begin alike are one packed sequence (`trainers.dpo.packed`), and the reference is computed once:
one pass of the reference, and one of each policy at each look, over each tree. Several processes take trees in turn and
add up.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean

import torch
from scipy.special import logsumexp
from torch.nn.functional import kl_div

from atlas_gym.agents.models.policy import Policy
from atlas_gym.intervals import standard_error
from atlas_gym.trainers.dpo.packed import (
    Tree,
    encode_branch,
    log_likelihoods,
    pack,
    share,
    to_device,
    totals,
    tree_logits,
)

Item = tuple[str, str]
"""(prompt, completion)."""

_ROWS = 128
"""Positions whose distributions over the vocabulary are held at once (float32: 25 MB each at 49k tokens)."""
_KEPT = 1024
"""Positions whose logits under the reference are kept for the next look (200 MB at 49k tokens); what is beyond is
computed again."""


@dataclass(frozen=True)
class KLEstimate:
    """Eq. 3 of one policy."""

    mean: float
    """K̂L, nats per token."""
    standard_error: float
    """Of the mean, over items (0 for a single one). Items of one prompt are correlated, so it is a lower bound."""
    per_item: tuple[float, ...]
    """Token average of each item, in their order."""


class Divergence:
    """Eq. 3 along the same completions, again and again: the reference, which must stay as it is, is computed once,
    and so is a policy that has not changed.

    Args:
        policy: its adapters.
        reference: the adapter that others are compared with.
        items: what they are compared along, at least one.
        packed: False runs every item as a sequence of its own; same numbers, more work (for comparison).

    Raises:
        ValueError: there are no items.
    """

    def __init__(self, policy: Policy, reference: str, items: Sequence[Item], *, packed: bool = True) -> None:
        if not items:
            raise ValueError("the divergence is an average over completions, and none were given")
        branches = [encode_branch(policy.tokenizer, *item) for item in items]
        self._policy, self._reference = policy, reference
        self._packing = pack(branches) if packed else pack(branches, limit=0)
        self._kept: dict[int, torch.Tensor] = {}
        # The reference itself, which most phases begin with, has not moved.
        self._known = {policy.digest(reference): KLEstimate(0.0, 0.0, (0.0,) * len(items))}

    def of(self, adapters: Sequence[str]) -> dict[str, KLEstimate]:
        """Eq. 3 of each adapter."""
        digests = {name: self._policy.digest(name) for name in adapters}
        averages: dict[str, dict[tuple[int, int], float]] = {
            name: {} for name, digest in digests.items() if digest not in self._known
        }
        for index in share(range(len(self._packing.trees))) if averages else ():
            tree = to_device(self._packing.trees[index], self._policy.device)
            reference = self._kept.get(index)
            if reference is None:
                reference = self._logits(self._reference, tree)
                if sum(map(len, self._kept.values())) + len(reference) <= _KEPT:
                    self._kept[index] = reference
            for name, own in averages.items():
                found = _branch_averages(self._logits(name, tree), reference, tree)
                own |= {(index, branch): value for branch, value in enumerate(found)}
        for name, own in averages.items():
            values = totals([own.get(place, 0.0) for place in self._packing.places], self._policy.device)
            error = float(standard_error(values)) if len(values) > 1 else 0.0
            self._known[digests[name]] = KLEstimate(fmean(values), error, tuple(values))
        return {name: self._known[digest] for name, digest in digests.items()}

    def _logits(self, adapter: str, tree: Tree) -> torch.Tensor:
        with self._policy.using(adapter) as model, torch.inference_mode():
            return tree_logits(model, tree)


def _branch_averages(own: torch.Tensor, reference: torch.Tensor, tree: Tree) -> list[float]:
    """Token averages of KL(own ‖ reference) of each branch of the tree, from logits (K, vocabulary)."""
    parts = zip(own.split(_ROWS), reference.split(_ROWS), strict=True)
    divergences = [
        kl_div(q.log_softmax(-1), p.log_softmax(-1), reduction="none", log_target=True).sum(-1)
        for p, q in parts
    ]
    per_token = torch.cat(divergences)[tree["rows"]]
    counts = tree["owners"].bincount()
    sums = per_token.new_zeros(len(counts)).index_add_(0, tree["owners"], per_token)
    return (sums / counts).tolist()


def log_known_gain(
    policy: Policy, adapter: str, answers: Mapping[str, Sequence[tuple[str, float]]]
) -> list[float]:
    """w(x) · log Σ_y π(y|x) · gain(y) for each prompt x over its known answers y: the logarithm of what these answers
    contribute to the gain that is expected of a sample, in nats.

    Where good programs are so rare that no sample is one, a score of samples is 0 for every policy; this one still
    tells two policies apart. Prompts count by what there is to gain: w(x) is the largest known gain at x, over its
    mean over the prompts.

    Args:
        policy: its adapters.
        adapter: the one in question.
        answers: by prompt, the distinct completions that improve, each with its gain > 0; none may be empty.
    """
    if not answers:
        return []
    branches = [encode_branch(policy.tokenizer, x, text) for x, known in answers.items() for text, _ in known]
    with policy.using(adapter) as model, torch.inference_mode():
        values = iter(log_likelihoods(model, branches, policy.device))
    logs = [logsumexp([next(values) + math.log(gain) for _, gain in known]) for known in answers.values()]
    largest = [max(gain for _, gain in known) for known in answers.values()]
    return [float(value) * gain / fmean(largest) for value, gain in zip(logs, largest, strict=True)]
