"""The likelihood of known answers against the definition, token by token."""

import math

import pytest
import torch

from atlas_gym.agents.models.policy import POLICY, REFERENCE
from atlas_gym.agents.models.tokens import encode_completion, encode_prompt
from atlas_gym.trainers.evodpo.likelihood import log_known_gain, log_likelihoods
from tests.trainers.evodpo.moved import moved_policy

ITEMS = [
    ("window =", " 10\n"),
    ("def f(x):\n    y =", " x + 1\n"),
    ("window =", " max(t, 3)\n"),
    ("window =", " 10\n"),
]


@pytest.fixture(scope="module")
def policy(tmp_path_factory):
    return moved_policy(tmp_path_factory.mktemp("tiny"))


def brute_force(policy, adapter, prompt, completion):
    ids, total = list(encode_prompt(policy.tokenizer, prompt)), 0.0
    for token in encode_completion(policy.tokenizer, prompt, completion):
        with policy.using(adapter) as model, torch.no_grad():
            logits = model(input_ids=torch.tensor([ids])).logits[0, -1].double()
        total += logits.log_softmax(-1)[token].item()
        ids.append(token)
    return total


@pytest.mark.parametrize("adapter", [POLICY, REFERENCE])
def test_equals_brute_force(policy, adapter):
    expected = [brute_force(policy, adapter, *item) for item in ITEMS]
    assert log_likelihoods(policy, adapter, ITEMS) == pytest.approx(expected, abs=1e-4)


def test_the_policies_differ(policy):
    assert log_likelihoods(policy, POLICY, ITEMS) != log_likelihoods(policy, REFERENCE, ITEMS)


def test_the_known_answers_of_a_prompt_add_up_by_what_they_gain(policy):
    answers = {
        "window =": [(" 10\n", 0.05), (" max(t, 3)\n", 0.01)],
        "def f(x):\n    y =": [(" x + 1\n", 0.02)],
    }
    found = log_known_gain(policy, POLICY, answers)
    first, second = [
        math.log(sum(gain * math.exp(brute_force(policy, POLICY, prompt, text)) for text, gain in known))
        for prompt, known in answers.items()
    ]
    expected = [first * 0.05 / 0.035, second * 0.02 / 0.035]  # what there is to gain, by the mean of both
    assert found == pytest.approx(expected, abs=1e-4)


def test_answers_far_out_of_reach_still_count(policy):
    """exp of their log-likelihoods is 0 in double precision."""
    text = " " + "10 + " * 150 + "1\n"
    (found,) = log_known_gain(policy, POLICY, {"window =": [(text, 0.01)]})
    assert -math.inf < found < -745


def test_without_an_answer_there_is_nothing_to_say(policy):
    assert log_known_gain(policy, POLICY, {}) == []
