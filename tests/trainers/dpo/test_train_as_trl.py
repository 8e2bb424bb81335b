"""The training against TRL's trainer, step by step, and against the formula of DPO; and its data."""

import math

import pytest
import torch
import torch.nn.functional as F
from tokenizers import processors

from atlas_gym.agents.models.policy import POLICY, REFERENCE
from atlas_gym.agents.models.tokens import encode_prompt
from atlas_gym.experiments.benchmarks.phase import stock
from atlas_gym.trainers.data.pairs import PreferencePair
from atlas_gym.trainers.dpo.accumulation import divide
from atlas_gym.trainers.dpo.settings import PhaseSettings
from atlas_gym.trainers.dpo.train import TrainJob, encoded, train
from tests.tiny_model import byte_tokenizer, code_tokenizer, tuned_policy


def pairs(*rows):
    return [PreferencePair(*row, "score", 0.1, 2 * i, 2 * i + 1, "site") for i, row in enumerate(rows)]


# Three prompts; completions are shared between pairs, chosen here and rejected there, and differ in length.
ROWS = [
    ("def f(x):\n    y =", " x + 1\n", " x\n"),
    ("def f(x):\n    y =", " x + 1\n", " 22222\n"),
    ("def f(x):\n    y =", " x\n", " 22222\n"),
    ("window =", " 10\n", " 9.5e3\n"),
    ("window =", " 12\n", " 10\n"),
    ("scores = base +", " alpha * width\n", " 0\n"),
    ("window =", " 12\n", " 9.5e3\n"),
    ("scores = base +", " alpha\n", " 0\n"),
    ("scores = base +", " alpha * width\n", " alpha\n"),
    ("window =", " 10\n", " 1\n"),
    ("def f(x):\n    y =", " x + 1\n", " nan\n"),
    ("scores = base +", " alpha\n", " beta\n"),
]


@pytest.fixture
def policy(folder):
    return tuned_policy(folder)


def job(**changes):
    defaults = {"batch_size": 4, "epochs": 1, "learning_rate": 5e-3, "target_kl": 0.0}
    settings = PhaseSettings(**defaults | changes)
    return TrainJob(tuple(pairs(*ROWS)), settings, 0, (("window =", " 10\n"),), phase=1, seed=0)


def test_prompts_begin_in_training_as_they_do_in_generation():
    """A Llama tokenizer opens a text with a token of its own, and chat templates write it out as text."""
    tokenizer = byte_tokenizer()
    tokenizer.add_special_tokens({"bos_token": "<s>"})
    tokenizer.backend_tokenizer.post_processor = processors.TemplateProcessing(
        single="<s> $A", special_tokens=[("<s>", tokenizer.bos_token_id)]
    )
    first, second = (encoded(tokenizer, own) for own in pairs(("ab", " 1", " 2"), ("<s>ab", " 1", " 2")))
    assert first.chosen[0] == second.rejected[0] == encode_prompt(tokenizer, "ab")
    assert first.chosen[0].count(tokenizer.bos_token_id) == 1
    assert tokenizer.bos_token_id not in first.chosen[1] + first.rejected[1]


def test_a_line_ends_in_training_with_the_token_that_ends_it_in_generation():
    tokenizer = code_tokenizer()
    (pair,) = pairs(("def f(x):\n    y =", " x + 1\n", " x\n"))
    assert encoded(tokenizer, pair).chosen[1][-1] == tokenizer.convert_tokens_to_ids("ĊĠĠĠ")


@pytest.mark.parametrize("rejected", [" x\n", " x", "\n    return x\n\n\n"])
def test_what_is_rejected_has_no_end(rejected):
    tokenizer = code_tokenizer()
    (pair,) = pairs(("def f(x):\n    y =", " x + 1\n", rejected))
    assert tokenizer.decode(encoded(tokenizer, pair).rejected[1]) == rejected.rstrip("\n")


def test_an_empty_line_is_rejected_as_it_is():
    (pair,) = pairs(("y =", " 1\n", "\n"))
    assert encoded(code_tokenizer(), pair).rejected[1]


@pytest.mark.parametrize("even", [False, True])
@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"epochs": 2},
        {"batch_size": 5, "supervised": 4.0},
        {"divergence": "forward_kl"},
        {"activation_checkpointing": True},
    ],
    ids=["one epoch", "two epochs", "supervised term, incomplete batch", "forward KL", "checkpointing"],
)
def test_training_equals_that_of_the_stock_trainer(folder, even, changes):
    own, other = tuned_policy(folder), tuned_policy(folder)
    own.copy(POLICY, REFERENCE)  # the stock trainer's reference is the policy as it is
    steps, logs = train(own, job(**changes), even=even).steps, stock(other, job(**changes))
    assert len(steps) == len(logs) > 2
    for step, log in zip(steps, logs, strict=True):
        pairs = {
            "loss": step.loss, "rewards/margins": step.margin, "rewards/chosen": step.chosen_reward,
            "rewards/rejected": step.rejected_reward, "grad_norm": step.grad_norm, "entropy": step.entropy,
            # A policy that equals its reference has margins of ±1e-8, whose signs would count.
            "rewards/accuracies": step.accuracy if step.step > 1 else log["rewards/accuracies"],
        }  # fmt: skip
        for name, value in pairs.items():
            assert value == pytest.approx(log[name], rel=2e-4, abs=1e-5), name
    for name, tensor in own.tensors(POLICY).items():
        torch.testing.assert_close(tensor, other.tensors(POLICY)[name], atol=2e-5, rtol=1e-4)
    assert not own.equal(POLICY, REFERENCE)


def test_passes_that_memory_bounds_change_nothing(folder, monkeypatch):
    one, other = tuned_policy(folder), tuned_policy(folder)
    expected = train(one, job(supervised=1.0), even=True)
    monkeypatch.setattr("atlas_gym.trainers.dpo.train.room", lambda *args, **kwargs: 128)
    found = train(other, job(supervised=1.0), even=True)
    for step, wanted in zip(found.steps, expected.steps, strict=True):
        assert vars(step) == pytest.approx(vars(wanted), rel=1e-4, abs=1e-6)


def log_prob(policy, name, prompt, completion):
    ids = [policy.tokenizer(text, add_special_tokens=False)["input_ids"] for text in (prompt, completion)]
    with policy.using(name) as model, torch.no_grad():
        logits = model(input_ids=torch.tensor([ids[0] + ids[1]])).logits[0].log_softmax(-1)
    return sum(logits[len(ids[0]) - 1 + i, token].item() for i, token in enumerate(ids[1]))


def test_the_first_loss_is_the_formula_of_dpo(policy):
    """Against a named reference, which stays as it is; and the model comes back as it was."""
    beta, logits = 0.3, []
    names, reference = policy.adapters, policy.digest(REFERENCE)
    first = train(policy, job(beta=beta, learning_rate=1e-30, batch_size=len(ROWS))).steps[0]
    for prompt, chosen, rejected in ROWS:
        ratio = [
            log_prob(policy, POLICY, prompt, text) - log_prob(policy, REFERENCE, prompt, text)
            for text in (chosen, rejected.rstrip("\n"))
        ]
        logits.append(beta * (ratio[0] - ratio[1]))
    expected = -F.logsigmoid(torch.tensor(logits)).mean().item()
    assert first.loss == pytest.approx(expected, abs=1e-5)
    assert abs(expected - math.log(2)) > 1e-3
    assert first.margin == pytest.approx(sum(logits) / len(ROWS), abs=1e-5)
    assert (policy.digest(REFERENCE), policy.adapters) == (reference, names)
    assert not policy.model.training


def test_a_batch_is_divided_by_prompts_where_it_can_be():
    assert divide(["a", "b", "a", "b"], 2) == [[0, 2], [1, 3]]
    assert divide(["a", "b", "b", "c", "b"], 2) == [[1, 2, 4], [0, 3]]
    assert divide(["a", "a", "a", "a"], 2) == [[0, 1], [2, 3]]
    assert sorted(map(len, divide(["a", "a", "a"], 2))) == [1, 2]
    assert sorted(map(len, divide(["a", "a", "b"], 4))) == [0, 1, 1, 1]
    assert divide(["a"], 2) == [[0], []]
