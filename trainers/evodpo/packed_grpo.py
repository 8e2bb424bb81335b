"""GRPO on packed batches: the clipped surrogate and its KL term, on the trees that DPO is trained on.

For token t of completion i with advantage A_i (`trainers.data.groups`), and ρ = π(t) / π_before(t), where π_before is
the policy that the training begins with,

    loss = mean over the batch's tokens of  − min(ρ A_i, clip(ρ, 1 − ε, 1 + ε) A_i) + β (q − ln q − 1),   q = π_ref / π

(Shao et al., 2024, arXiv 2402.03300, Eqs. 3 and 4: the last term is an unbiased estimate of KL(π ‖ π_ref), never
negative). The mean is over tokens, so that a long failure is pushed down at every token as a short one is; a mean over
completions favours long failures (Liu et al., 2025, arXiv 2503.20783). In TRL's words it is `loss_type="bnpo"` with
`scale_rewards="none"` and `use_bias_correction_kl=False`. TRL's own trainer has to draw the completions itself; here
they are what exploration wrote and scored with this very policy, so nothing is sampled twice.

What a step is logged by has DPO's names, with a group in the place of a pair: its completions with a positive advantage
are the chosen side, those with a negative one the rejected side.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from peft import PeftModel
from transformers import Trainer

from atlas_gym.agents.models.policy import POLICY, REFERENCE, Policy
from atlas_gym.trainers.data.groups import CompletionGroup
from atlas_gym.trainers.evodpo.packed_dpo import require_own_mask
from atlas_gym.trainers.evodpo.packing import Branch, encode_branch, plant, to_device
from atlas_gym.trainers.evodpo.token_values import token_values


@dataclass(frozen=True)
class TokenGroup:
    """A group as tokens, with what two frozen policies make of them."""

    branches: Sequence[Branch]
    """The prompt with each completion."""
    advantages: tuple[float, ...]
    """Of each completion."""
    before: list[torch.Tensor]
    """log π of each completion's tokens under the policy that the training begins with."""
    reference: list[torch.Tensor]
    """The same under the reference."""


def token_groups(
    policy: Policy, groups: Sequence[CompletionGroup], *, bf16: bool = False
) -> list[TokenGroup]:
    """The groups as tokens; `bf16`: multiply in bfloat16, as in the training."""
    branches = [
        [encode_branch(policy.tokenizer, group.prompt, text) for text in group.completions]
        for group in groups
    ]
    together = [branch for own in branches for branch in own]
    with torch.autocast(policy.device.type, torch.bfloat16, enabled=bf16):
        before, reference = (iter(_log_probs(policy, name, together)) for name in (POLICY, REFERENCE))
    return [
        TokenGroup(own, group.advantages, [next(before) for _ in own], [next(reference) for _ in own])
        for own, group in zip(branches, groups, strict=True)
    ]


@torch.no_grad()
def _log_probs(policy: Policy, adapter: str, branches: Sequence[Branch]) -> list[torch.Tensor]:
    """log π of the tokens of each completion."""
    forest = plant(branches)
    trees = [to_device(tree, policy.device) for tree in forest.trees]
    with policy.using(adapter) as model:
        values = torch.cat([token_values(model, tree).log_probs for tree in trees]).cpu()
    return [values[source] for source in forest.sources()]


def collate(groups: Sequence[TokenGroup]) -> dict[str, Any]:
    """A batch. With G groups of C completions of M tokens in all, these in the order of the groups:

    - ``trees``: the completions, packed; ``source`` (M,): where each token is among the trees' tokens;
    - ``before``, ``reference`` (M,): its log-probabilities; ``owner`` (M,): its completion;
    - ``advantage`` (C,); ``group`` (C,): the group of each completion.
    """
    forest = plant([branch for group in groups for branch in group.branches])
    sources = forest.sources()
    sizes = torch.tensor([len(group.branches) for group in groups])
    return {
        "trees": forest.trees,
        "source": torch.cat(sources),
        "before": torch.cat([values for group in groups for values in group.before]),
        "reference": torch.cat([values for group in groups for values in group.reference]),
        "owner": torch.repeat_interleave(torch.tensor([len(source) for source in sources])),
        "advantage": torch.tensor([advantage for group in groups for advantage in group.advantages]),
        "group": torch.repeat_interleave(sizes),
    }


def clipped_surrogate(
    log_probs: torch.Tensor, batch: dict[str, torch.Tensor], clip: float, beta: float
) -> torch.Tensor:
    """The loss, a scalar.

    Args:
        log_probs: log π of the batch's tokens, (M,).
        batch: what `collate` made.
        clip: ε, in ratios of probabilities.
        beta: weight of the KL term.
    """
    advantage = batch["advantage"][batch["owner"]]
    ratio = (log_probs - batch["before"]).exp()
    gain = torch.minimum(ratio * advantage, ratio.clamp(1.0 - clip, 1.0 + clip) * advantage)
    away = batch["reference"] - log_probs
    return (beta * (away.exp() - away - 1.0) - gain).mean()


class PackedGRPOTrainer(Trainer):
    """Hugging Face's trainer with this loss, on a data set of `TokenGroup`."""

    def __init__(self, model: PeftModel, *, clip: float, beta: float, **kwargs: Any) -> None:
        """`clip` and `beta` as for `clipped_surrogate`."""
        require_own_mask(model)
        super().__init__(model, data_collator=collate, **kwargs)
        self._clip, self._beta = clip, beta
        self._figures: dict[str, float] = {}

    def compute_loss(
        self, model: Any, inputs: dict[str, Any], return_outputs: bool = False, num_items_in_batch: Any = None
    ) -> torch.Tensor:
        """The loss of a batch."""
        log_probs, entropy = (
            torch.cat(values)[inputs["source"]]
            for values in zip(*(token_values(model, tree)[:2] for tree in inputs["trees"]), strict=True)
        )
        self._figures = sides(log_probs.detach(), inputs, self._beta) | {"entropy": entropy.mean().item()}
        return clipped_surrogate(log_probs, inputs, self._clip, self._beta)

    def log(self, logs: dict[str, float], start_time: float | None = None) -> None:
        """Hugging Face's log of a step, with what TRL's DPO logs."""
        super().log(logs | self._figures if "loss" in logs else logs, start_time)


def sides(log_probs: torch.Tensor, batch: dict[str, torch.Tensor], beta: float) -> dict[str, float]:
    """β · log π/π_ref of the completions with positive and with negative advantages: the means over the groups, of
    their difference, and the share of groups in which it is positive."""
    advantage, group = batch["advantage"], batch["group"]
    ratios = torch.zeros_like(advantage).index_add_(0, batch["owner"], log_probs - batch["reference"])

    def mean(side: torch.Tensor) -> torch.Tensor:
        weighted = torch.stack([ratios * side, side.to(ratios)])
        sums, counts = ratios.new_zeros(2, int(group[-1]) + 1).index_add_(1, group, weighted)
        return beta * sums / counts

    chosen, rejected = mean(advantage > 0), mean(advantage < 0)
    margin = chosen - rejected
    return {
        "rewards/chosen": chosen.mean().item(),
        "rewards/rejected": rejected.mean().item(),
        "rewards/margins": margin.mean().item(),
        "rewards/accuracies": (margin > 0).float().mean().item(),
    }
