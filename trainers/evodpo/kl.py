"""Eq. 3: how far a candidate policy has moved from the reference, in nats per token.

    K̂L(π) = mean over items of  (1/L_y) Σ_ℓ KL( π(·|x, y_<ℓ) ‖ π_ref(·|x, y_<ℓ) )

along the completion y of each item, over the whole vocabulary, on completion tokens only. The
direction is candidate ‖ reference. Items that begin alike are one packed sequence (`trainers.evodpo.packing`),
and the reference is computed once: one pass of the reference, and one of each candidate at each look, over each
tree. Several processes (`trainers.evodpo.processes`) take trees in turn and add up.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean

import torch
from torch.nn.functional import kl_div

from atlas_gym.agents.models.policy import Policy
from atlas_gym.intervals import standard_error
from atlas_gym.trainers.evodpo import processes
from atlas_gym.trainers.evodpo.packing import Tree, encode_branch, plant, to_device, tree_logits

Item = tuple[str, str]
"""(prompt, completion)."""

_ROWS = 128
"""Positions whose distributions over the vocabulary are held at once (float32: 25 MB each at 49k tokens)."""

_KEPT = 1024
"""Positions whose logits under the reference are kept for the next look (200 MB at 49k tokens); what is beyond is
computed again."""


@dataclass(frozen=True)
class KLEstimate:
    """Eq. 3 for one candidate."""

    mean: float
    """K̂L, nats per token."""
    standard_error: float
    """Of the mean, over items (0 for a single one). Items of one prompt are correlated, so it is a lower
    bound."""
    per_item: tuple[float, ...]
    """Token average of each item, in their order."""


class Divergence:
    """Eq. 3 along the same completions, again and again: the reference, which must stay as it is, is computed once,
    and so is a candidate that has not changed.

    Args:
        policy: its adapters.
        reference: the adapter that candidates are compared with.
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
        self._forest = plant(branches) if packed else plant(branches, limit=0)
        self._kept: dict[int, torch.Tensor] = {}
        # The reference itself, which most phases begin with, is nowhere to be looked at.
        self._known = {policy.digest(reference): KLEstimate(0.0, 0.0, (0.0,) * len(items))}

    def of(self, candidates: Sequence[str]) -> dict[str, KLEstimate]:
        """Eq. 3 of each candidate adapter."""
        digests = {name: self._policy.digest(name) for name in candidates}
        averages: dict[str, dict[tuple[int, int], float]] = {
            name: {} for name, digest in digests.items() if digest not in self._known
        }
        for index in processes.share(range(len(self._forest.trees))) if averages else ():
            tree = to_device(self._forest.trees[index], self._policy.device)
            reference_logits = self._reference_logits(index, tree)
            for name, own in averages.items():
                found = _branch_averages(_logits(self._policy, name, tree), reference_logits, tree)
                own |= {(index, branch): value for branch, value in enumerate(found)}
        self._known |= {digests[name]: self._estimate(own) for name, own in averages.items()}
        return {name: self._known[digest] for name, digest in digests.items()}

    def _reference_logits(self, index: int, tree: Tree) -> torch.Tensor:
        if index in self._kept:
            return self._kept[index]
        logits = _logits(self._policy, self._reference, tree)
        if sum(map(len, self._kept.values())) + len(logits) <= _KEPT:
            self._kept[index] = logits
        return logits

    def _estimate(self, averages: dict[tuple[int, int], float]) -> KLEstimate:
        values = [averages.get(place, 0.0) for place in self._forest.places]
        totals = processes.totals(values, self._policy.device)
        error = float(standard_error(totals)) if len(totals) > 1 else 0.0
        return KLEstimate(fmean(totals), error, tuple(totals))


def _logits(policy: Policy, adapter: str, tree: Tree) -> torch.Tensor:
    with policy.using(adapter) as model, torch.inference_mode():
        return tree_logits(model, tree)


def _branch_averages(candidate: torch.Tensor, reference: torch.Tensor, tree: Tree) -> list[float]:
    """Token averages of KL(candidate ‖ reference) of each branch of the tree."""
    parts = zip(candidate.split(_ROWS), reference.split(_ROWS), strict=True)
    divergences = [
        kl_div(q.log_softmax(-1), p.log_softmax(-1), reduction="none", log_target=True).sum(-1)
        for p, q in parts
    ]
    per_token = torch.cat(divergences)[tree["rows"]]
    counts = tree["owners"].bincount()
    sums = per_token.new_zeros(len(counts)).index_add_(0, tree["owners"], per_token)
    return (sums / counts).tolist()
