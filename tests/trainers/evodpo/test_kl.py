import math

import pytest
import torch

from atlas_gym.agents.models.policy import POLICY, REFERENCE
from atlas_gym.trainers.evodpo import kl
from atlas_gym.trainers.evodpo.kl import Divergence
from tests.trainers.evodpo.moved import moved_policy

ITEMS = [
    ("window =", " 10\n"),
    ("def f(x):\n    y =", " x + 1\n"),
    ("window =", " max(t, 3)\n"),
    ("window =", " 10.5\n"),
]


@pytest.fixture(scope="module")
def policy(tmp_path_factory):
    return moved_policy(tmp_path_factory.mktemp("tiny"))


def token_kl(policy, candidate, reference, items, **how):
    return Divergence(policy, reference, items, **how).of([candidate])[candidate]


def next_token_distribution(policy, name, ids):
    """π(·|ids) in float64 from a forward pass over this prefix alone."""
    with policy.using(name) as model, torch.no_grad():
        return model(input_ids=torch.tensor([ids])).logits[0, -1].double().softmax(-1)


def brute_force(policy, candidate, prompt, completion):
    """The definition, one prefix and one word of the vocabulary at a time."""
    ids = policy.tokenizer(prompt)["input_ids"]
    total = 0.0
    tokens = policy.tokenizer(completion)["input_ids"]
    for token in tokens:
        p = next_token_distribution(policy, candidate, ids)
        q = next_token_distribution(policy, REFERENCE, ids)
        total += sum(p[v].item() * math.log(p[v].item() / q[v].item()) for v in range(len(p)))
        ids = [*ids, token]
    return total / len(tokens)


@pytest.mark.parametrize("packed", [True, False])
def test_equals_brute_force_over_the_vocabulary(policy, packed):
    expected = [brute_force(policy, POLICY, prompt, completion) for prompt, completion in ITEMS]
    estimate = token_kl(policy, POLICY, REFERENCE, ITEMS, packed=packed)
    assert min(expected) > 0.01
    assert estimate.per_item == pytest.approx(expected, abs=1e-5)
    assert estimate.mean == pytest.approx(sum(expected) / 4, abs=1e-5)
    spread = torch.tensor(expected).std().item() / 2
    assert estimate.standard_error == pytest.approx(spread, abs=1e-5)


def test_a_candidate_set_gives_each_candidate_its_own_value(policy):
    together = Divergence(policy, REFERENCE, ITEMS).of([POLICY, "candidate-1"])
    for name, estimate in together.items():
        assert estimate == token_kl(policy, name, REFERENCE, ITEMS)
    assert together[POLICY].mean != together["candidate-1"].mean


def test_the_direction_is_candidate_to_reference(policy):
    forward = token_kl(policy, POLICY, REFERENCE, ITEMS).mean
    backward = token_kl(policy, REFERENCE, POLICY, ITEMS).mean
    assert forward > 0.01 < backward
    assert abs(forward - backward) > 1e-4


def test_a_policy_has_not_moved_from_itself(policy):
    estimate = token_kl(policy, REFERENCE, REFERENCE, ITEMS)
    assert estimate.per_item == (0.0,) * len(ITEMS)
    assert estimate.standard_error == 0.0


def test_long_completions_are_computed_in_blocks(policy, monkeypatch):
    whole = token_kl(policy, POLICY, REFERENCE, ITEMS)
    monkeypatch.setattr("atlas_gym.trainers.evodpo.kl._ROWS", 3)
    assert token_kl(policy, POLICY, REFERENCE, ITEMS).per_item == pytest.approx(whole.per_item, abs=1e-6)


@pytest.mark.parametrize(("room", "again"), [(0, True), (1024, False)])
def test_the_reference_is_computed_once_where_there_is_room(policy, monkeypatch, room, again):
    monkeypatch.setattr(kl, "_KEPT", room)
    asked, logits = [], kl._logits
    monkeypatch.setattr(
        kl, "_logits", lambda policy, name, tree: asked.append(name) or logits(policy, name, tree)
    )
    divergence = Divergence(policy, REFERENCE, ITEMS)
    first = divergence.of([POLICY])
    asked.clear()
    second = divergence.of(["candidate-1", POLICY])
    assert (REFERENCE in asked) == again
    assert second[POLICY] == first[POLICY]
    assert second == Divergence(policy, REFERENCE, ITEMS).of(["candidate-1", POLICY])


def test_a_candidate_that_has_not_changed_is_not_computed_again(policy, monkeypatch):
    asked, logits = [], kl._logits
    monkeypatch.setattr(
        kl, "_logits", lambda policy, name, tree: asked.append(name) or logits(policy, name, tree)
    )
    divergence = Divergence(policy, REFERENCE, ITEMS)
    first = divergence.of([POLICY])
    policy.add("copy", copy_of=POLICY)
    asked.clear()
    assert divergence.of(["copy"])["copy"] == first[POLICY]
    assert asked == []
    next(iter(policy.tensors("copy").values())).data.add_(0.1)
    changed = divergence.of(["copy"])["copy"]
    assert changed == token_kl(policy, "copy", REFERENCE, ITEMS) != first[POLICY]
    policy.remove("copy")


def test_no_items_are_an_error(policy):
    with pytest.raises(ValueError, match="none were given"):
        token_kl(policy, POLICY, REFERENCE, [])
