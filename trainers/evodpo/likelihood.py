"""How likely a policy is to write known answers.

Where good programs are so rare that no sample is one, a score of samples is 0 for every policy. The likelihood of
answers that are known to be good still tells two policies apart.
"""

import math
from collections.abc import Mapping, Sequence
from statistics import fmean

import torch
from scipy.special import logsumexp

from atlas_gym.agents.models.policy import Policy
from atlas_gym.trainers.evodpo.kl import Item
from atlas_gym.trainers.evodpo.packing import encode_branch
from atlas_gym.trainers.evodpo.token_values import branch_log_probs


def log_likelihoods(policy: Policy, adapter: str, items: Sequence[Item]) -> list[float]:
    """log π(y|x) in nats of each (prompt, completion) under an adapter, the completion's end included."""
    branches = [encode_branch(policy.tokenizer, *item) for item in items]
    with policy.using(adapter) as model, torch.inference_mode():
        return branch_log_probs(model, branches, policy.device)


def log_known_gain(
    policy: Policy, adapter: str, answers: Mapping[str, Sequence[tuple[str, float]]]
) -> list[float]:
    """w(x) · log Σ_y π(y|x) · gain(y) for each prompt x over its known answers y: the logarithm of what these answers
    contribute to the gain that is expected of a sample, in nats.

    Prompts count by what there is to gain: w(x) is the largest known gain at x, divided by its mean over the prompts.

    Args:
        policy: its adapters.
        adapter: the one in question.
        answers: by prompt, the distinct completions that improve, each with its gain > 0; none may be empty.
    """
    if not answers:
        return []
    items = [(prompt, text) for prompt, known in answers.items() for text, _ in known]
    values = iter(log_likelihoods(policy, adapter, items))
    logs = [logsumexp([next(values) + math.log(gain) for _, gain in known]) for known in answers.values()]
    largest = [max(gain for _, gain in known) for known in answers.values()]
    return [float(value) * gain / fmean(largest) for value, gain in zip(logs, largest, strict=True)]
