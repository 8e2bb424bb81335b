import math

import pytest
import torch

from atlas_gym.agents.models.policy import POLICY, REFERENCE, Policy
from atlas_gym.agents.models.settings import LoraSettings
from atlas_gym.agents.models.tokens import encode_completion, encode_prompt
from atlas_gym.trainers.dpo import kl
from atlas_gym.trainers.dpo.kl import Divergence, log_known_gain
from tests.tiny_model import save_tiny_model

ITEMS = [
    ("window =", " 10\n"),
    ("def f(x):\n    y =", " x + 1\n"),
    ("window =", " max(t, 3)\n"),
    ("window =", " 10.5\n"),
]


@pytest.fixture(scope="module")
def policy(tmp_path_factory):
    """Its adapters have all moved, each elsewhere."""
    folder = save_tiny_model(tmp_path_factory.mktemp("tiny"))
    policy = Policy.load(folder, dtype=torch.float32, lora=LoraSettings(rank=4, alpha=8))
    policy.add("checkpoint-1", copy_of=POLICY)
    generator = torch.Generator().manual_seed(5)
    for name in (POLICY, REFERENCE, "checkpoint-1"):
        for tensor in policy.tensors(name).values():
            tensor.data.normal_(0.0, 0.2, generator=generator)
    return policy


def token_kl(policy, adapter, reference, items, **options):
    return Divergence(policy, reference, items, **options).of([adapter])[adapter]


def next_token_distribution(policy, name, ids):
    """π(·|ids) in float64 from a forward pass over this prefix alone."""
    with policy.using(name) as model, torch.no_grad():
        return model(input_ids=torch.tensor([ids])).logits[0, -1].double().softmax(-1)


def brute_force(policy, adapter, prompt, completion):
    """The definition, one prefix and one word of the vocabulary at a time."""
    ids = policy.tokenizer(prompt)["input_ids"]
    total = 0.0
    tokens = policy.tokenizer(completion)["input_ids"]
    for token in tokens:
        p = next_token_distribution(policy, adapter, ids)
        q = next_token_distribution(policy, REFERENCE, ids)
        total += sum(p[v].item() * math.log(p[v].item() / q[v].item()) for v in range(len(p)))
        ids = [*ids, token]
    return total / len(tokens)


@pytest.mark.parametrize("even", [False, True])
def test_equals_brute_force_over_the_vocabulary(policy, even):
    expected = [brute_force(policy, POLICY, prompt, completion) for prompt, completion in ITEMS]
    estimate = token_kl(policy, POLICY, REFERENCE, ITEMS, even=even)
    assert min(expected) > 0.01
    assert estimate.per_item == pytest.approx(expected, abs=1e-5)
    assert estimate.mean == pytest.approx(sum(expected) / 4, abs=1e-5)
    spread = torch.tensor(expected).std().item() / 2
    assert estimate.standard_error == pytest.approx(spread, abs=1e-5)


def test_each_checkpoint_has_its_own_value(policy):
    together = Divergence(policy, REFERENCE, ITEMS).of([POLICY, "checkpoint-1"])
    for name, estimate in together.items():
        assert estimate == token_kl(policy, name, REFERENCE, ITEMS)
    assert together[POLICY].mean != together["checkpoint-1"].mean


def test_long_completions_are_computed_in_blocks(policy, monkeypatch):
    whole = token_kl(policy, POLICY, REFERENCE, ITEMS)
    monkeypatch.setattr(kl, "chunk", lambda device: 3)
    assert token_kl(policy, POLICY, REFERENCE, ITEMS).per_item == pytest.approx(whole.per_item, abs=1e-6)


@pytest.fixture
def asked(monkeypatch):
    names, logits = [], Divergence._logits
    monkeypatch.setattr(
        Divergence, "_logits", lambda self, name, batch: names.append(name) or logits(self, name, batch)
    )
    return names


@pytest.mark.parametrize(("room", "again"), [(0, True), (1024, False)])
def test_the_reference_is_computed_once_where_there_is_room(policy, monkeypatch, asked, room, again):
    monkeypatch.setattr(kl, "_KEPT", room)
    divergence = Divergence(policy, REFERENCE, ITEMS)
    first = divergence.of([POLICY])
    asked.clear()
    second = divergence.of(["checkpoint-1", POLICY])
    assert (REFERENCE in asked) == again
    assert second[POLICY] == first[POLICY]
    assert second == Divergence(policy, REFERENCE, ITEMS).of(["checkpoint-1", POLICY])


def log_likelihood(policy, adapter, prompt, completion):
    ids, total = list(encode_prompt(policy.tokenizer, prompt)), 0.0
    for token in encode_completion(policy.tokenizer, prompt, completion):
        total += math.log(next_token_distribution(policy, adapter, ids)[token].item())
        ids.append(token)
    return total


@pytest.mark.parametrize("adapter", [POLICY, REFERENCE])
def test_the_known_answers_of_a_prompt_add_up_by_what_they_gain(policy, adapter):
    answers = {
        "window =": [(" 10\n", 0.05), (" max(t, 3)\n", 0.01)],
        "def f(x):\n    y =": [(" x + 1\n", 0.02)],
    }
    found = log_known_gain(policy, adapter, answers)
    expected = [
        math.log(sum(gain * math.exp(log_likelihood(policy, adapter, prompt, text)) for text, gain in known))
        for prompt, known in answers.items()
    ]
    assert found == pytest.approx(expected, abs=1e-4)
    assert log_known_gain(policy, adapter, {}) == []


def test_answers_far_out_of_reach_still_count(policy):
    """exp of their log-likelihoods is 0 in double precision."""
    (found,) = log_known_gain(policy, POLICY, {"window =": [(" " + "10 + " * 150 + "1\n", 0.01)]})
    assert -math.inf < found < -745
