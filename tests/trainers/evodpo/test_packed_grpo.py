"""GRPO's packed loss against the formula, one sequence at a time; and phases that learn by it."""

import dataclasses

import pytest
import torch
from datasets import Dataset
from trl import GRPOConfig, GRPOTrainer

from atlas_gym.agents.models.policy import POLICY, REFERENCE
from atlas_gym.trainers.data.groups import CompletionGroup
from atlas_gym.trainers.evodpo.packed_grpo import clipped_surrogate, collate, sides, token_groups
from atlas_gym.trainers.evodpo.phase import run_phase
from atlas_gym.trainers.evodpo.token_values import token_values
from atlas_gym.trainers.loop.redo import redo_phase
from atlas_gym.trainers.store.plain import plain
from tests.tiny_model import tuned_policy
from tests.trainers.small_phases import BETTER, OPEN, SETTINGS, digests

CLIP, BETA = 0.2, 0.3
# Prompts that begin alike, completions of different lengths, one that was written twice and earned differently.
GROUPS = [
    CompletionGroup(prompt, texts, rewards, tuple(range(len(texts))))
    for prompt, texts, rewards in (
        ("def f(x):\n    y =", (" x + 1\n", " x\n", " 22222\n", " x\n"), (0.5, -0.75, -1.0, -0.5)),
        ("def f(x):\n    y = x\n    z =", (" 0\n", " y\n"), (0.1, -1.0)),
        ("window =", (" 10\n", " 9.5e3\n", " 12\n"), (1.0, -1.0, -0.2)),
    )
]


@pytest.fixture
def policy(folder):
    """Its reference is another policy, and so will be what it begins with: see `moved`."""
    return tuned_policy(folder)


def moved(policy):
    """The groups as the policy's tokens, and the policy a good way from there."""
    tokens = token_groups(policy, GROUPS)
    generator = torch.Generator().manual_seed(9)
    for tensor in policy.tensors(POLICY).values():
        tensor.data += 0.03 * torch.randn(tensor.shape, generator=generator)
    return tokens


def token_log_probs(policy, prompt, completion):
    """log π of each token of a completion, the ordinary way: one sequence, no packing."""
    before, after = (policy.tokenizer(text)["input_ids"] for text in (prompt, completion))
    logits = policy.model(input_ids=torch.tensor([before + after])).logits[0, len(before) - 1 : -1]
    return logits.log_softmax(-1)[torch.arange(len(after)), torch.tensor(after)]


def all_log_probs(policy, adapter):
    with policy.using(adapter), torch.no_grad():
        return [
            [token_log_probs(policy, group.prompt, text) for text in group.completions] for group in GROUPS
        ]


def by_the_formula(policy, before, reference):
    """DeepSeekMath's Eqs. 3 and 4, token by token, averaged over all tokens; and how many tokens are clipped."""
    terms, clipped = [], 0
    for group, own_before, own_reference in zip(GROUPS, before, reference, strict=True):
        mean = sum(group.rewards) / len(group.rewards)
        for i, text in enumerate(group.completions):
            now, advantage = token_log_probs(policy, group.prompt, text), group.rewards[i] - mean
            for t in range(len(now)):
                ratio = torch.exp(now[t] - own_before[i][t])
                bounded = min(max(ratio, torch.tensor(1 - CLIP)), torch.tensor(1 + CLIP))
                gain = min(ratio * advantage, bounded * advantage)
                clipped += bool(gain != ratio * advantage)
                q = torch.exp(own_reference[i][t] - now[t])
                terms.append(-gain + BETA * (q - torch.log(q) - 1))
    return torch.stack(terms).mean(), clipped


def packed_loss(policy, tokens):
    batch = collate(tokens)
    log_probs = torch.cat([token_values(policy.model, tree).log_probs for tree in batch["trees"]])[
        batch["source"]
    ]
    return clipped_surrogate(log_probs, batch, CLIP, BETA), log_probs, batch


def gradient(policy, loss):
    policy.model.zero_grad()
    loss.backward()
    return {name: tensor.grad.clone() for name, tensor in policy.tensors(POLICY).items()}


def test_loss_and_gradient_are_those_of_the_formula(policy):
    before, reference = all_log_probs(policy, POLICY), all_log_probs(policy, REFERENCE)
    tokens = moved(policy)
    expected, clipped = by_the_formula(policy, before, reference)
    assert 3 < clipped < 40  # of 55 tokens: both sides of the clip are seen
    loss, _, _ = packed_loss(policy, tokens)
    assert loss.item() == pytest.approx(expected.item(), abs=1e-5)
    packed, plain_gradient = gradient(policy, loss), gradient(policy, expected)
    assert max(tensor.abs().max() for tensor in packed.values()) > 1e-3
    for name, tensor in packed.items():
        torch.testing.assert_close(tensor, plain_gradient[name], atol=2e-5, rtol=1e-4)


def test_it_is_trls_loss_by_token(policy, tmp_path):
    tokens = moved(policy)
    loss, log_probs, batch = packed_loss(policy, tokens)
    trainer = trl_trainer(policy, tmp_path)
    rows = torch.nn.utils.rnn.pad_sequence
    lengths = batch["owner"].bincount().tolist()

    def padded(values):
        return rows(values.split(lengths), batch_first=True)

    trainer._get_per_token_logps_and_entropies = lambda *_, **__: (
        padded(log_probs), torch.zeros_like(padded(log_probs)), None
    )  # fmt: skip
    mask = padded(torch.ones_like(log_probs)).int()
    inputs = {
        "prompt_ids": mask[:, :1], "prompt_mask": mask[:, :1], "completion_ids": mask, "completion_mask": mask,
        "advantages": batch["advantage"], "old_per_token_logps": padded(batch["before"]),
        "ref_per_token_logps": padded(batch["reference"]),
    }  # fmt: skip
    trainer.model.train()
    trainer.current_gradient_accumulation_steps = 1
    assert trainer._compute_loss(policy.model, inputs).item() == pytest.approx(loss.item(), abs=1e-6)


def trl_trainer(policy, folder):
    config = GRPOConfig(
        output_dir=str(folder), loss_type="bnpo", beta=BETA, epsilon=CLIP, num_generations=2,
        per_device_train_batch_size=2, use_cpu=True, bf16=False, report_to="none", use_bias_correction_kl=False,
        activation_checkpointing=False,
    )  # fmt: skip
    base = policy.model.get_base_model()
    return GRPOTrainer(
        base, reward_funcs=lambda completions, **_: [0.0] * len(completions), args=config,
        train_dataset=Dataset.from_list([{"prompt": "x"}] * 2), processing_class=policy.tokenizer,
    )  # fmt: skip


def test_what_is_logged_are_the_two_sides_of_each_group(policy):
    reference = all_log_probs(policy, REFERENCE)
    now = all_log_probs(policy, POLICY)
    _, log_probs, batch = packed_loss(policy, token_groups(policy, GROUPS))
    found = sides(log_probs.detach(), batch, BETA)
    chosen, rejected = [], []
    for group, own, theirs in zip(GROUPS, now, reference, strict=True):
        ratios = [BETA * float((a - b).sum()) for a, b in zip(own, theirs, strict=True)]
        mean = sum(group.rewards) / len(group.rewards)
        for side, is_on in ((chosen, lambda r, m=mean: r > m), (rejected, lambda r, m=mean: r < m)):
            mine = [ratio for ratio, reward in zip(ratios, group.rewards, strict=True) if is_on(reward)]
            side.append(sum(mine) / len(mine))
    margins = [a - b for a, b in zip(chosen, rejected, strict=True)]
    assert found["rewards/chosen"] == pytest.approx(sum(chosen) / 3, abs=1e-5)
    assert found["rewards/rejected"] == pytest.approx(sum(rejected) / 3, abs=1e-5)
    assert found["rewards/margins"] == pytest.approx(sum(margins) / 3, abs=1e-5)
    assert found["rewards/accuracies"] == pytest.approx(sum(margin > 0 for margin in margins) / 3)


BY_GROUPS = dataclasses.replace(SETTINGS, objective="grpo", beta=0.04, epochs=4, batch_size=2)


GATE = dataclasses.replace(OPEN, prompts=2)


def phase(policy, settings=BY_GROUPS):
    return run_phase(policy, GROUPS, settings, GATE, BETTER, phase=1, seed=0)


def best_and_worst(policy):
    """Log-probabilities of the groups' best and worst completions, summed."""
    found = all_log_probs(policy, POLICY)
    return [
        sum(float(own[g.rewards.index(end(g.rewards))].sum()) for own, g in zip(found, GROUPS, strict=True))
        for end in (max, min)
    ]


def test_a_phase_makes_what_was_rewarded_more_likely(policy):
    policy.copy(REFERENCE, POLICY)
    before = best_and_worst(policy)
    result = phase(policy)
    after = best_and_worst(policy)
    assert after[0] > before[0] + 0.5
    assert after[1] < before[1] - 0.5
    first, last = result.steps[0], result.steps[-1]
    assert first.loss == pytest.approx(0.0, abs=1.0)
    assert first.margin == pytest.approx(0.0, abs=1e-5)
    assert last.margin > 0.01
    assert last.accuracy == 1.0
    assert (result.pairs, result.prompts, len(result.steps)) == (3, 3, 6)
    assert result.promoted
    assert result.candidates[-1].kl > 0.0
    assert policy.adapters == (POLICY, REFERENCE)


def test_without_a_learning_rate_nothing_changes(policy):
    before = best_and_worst(policy)
    result = phase(policy, dataclasses.replace(BY_GROUPS, learning_rate=1e-30))
    assert best_and_worst(policy) == pytest.approx(before, abs=1e-6)
    assert result.candidates[-1].kl == pytest.approx(result.candidates[0].kl, abs=1e-6)


def test_the_kl_term_holds_the_policy_near_the_reference(policy):
    policy.copy(REFERENCE, POLICY)
    kls = []
    for beta in (0.01, 10.0):
        policy.copy(REFERENCE, POLICY)
        settings = dataclasses.replace(BY_GROUPS, beta=beta, reference="fixed")
        kls.append(phase(policy, settings).candidates[-1].kl)
    assert kls[1] < 0.5 * kls[0]


def test_training_ends_at_the_target(policy):
    policy.copy(REFERENCE, POLICY)
    settings = dataclasses.replace(BY_GROUPS, checks=2, target_kl=1e-6)
    result = phase(policy, settings)
    assert len(result.steps) == result.kls[-1][0] < 6


def test_a_phase_done_again_leaves_the_same_adapters(policy):
    policy.add("before", copy_of=POLICY)
    policy.add("reference before", copy_of=REFERENCE)
    result = phase(policy)
    after = digests(policy)
    policy.copy("before", POLICY)
    policy.copy("reference before", REFERENCE)

    def again(score, review):
        return run_phase(policy, GROUPS, BY_GROUPS, GATE, score, phase=1, seed=0, review=review)

    redo_phase(plain(result), again)
    assert digests(policy) == after
