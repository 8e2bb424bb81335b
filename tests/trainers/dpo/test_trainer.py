"""The packed trainer against TRL's own, step by step, and against the formula of DPO."""

import math
from itertools import chain
from statistics import fmean

import pytest
import torch
import torch.nn.functional as F
from datasets import Dataset
from tokenizers import processors
from trl import DPOConfig, DPOTrainer

from atlas_gym.agents.models.policy import POLICY, REFERENCE
from atlas_gym.agents.models.tokens import encode_prompt
from atlas_gym.trainers.data.pairs import PreferencePair
from atlas_gym.trainers.dpo.trainer import PackedDPOTrainer, _Batches, borrowed, divide, pair_dataset
from tests.tiny_model import byte_tokenizer, code_tokenizer, tuned_policy


class Stock(DPOTrainer):
    """TRL's trainer as it is, on data that is tokenised already; its reference is the policy as it is."""

    def __init__(self, model, *, args, reference_adapter, **kwargs):
        args.precompute_ref_log_probs = False
        super().__init__(model, args=args, **kwargs)

    def _prepare_dataset(self, dataset, *args, **kwargs):
        return dataset


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


def train(policy, tmp_path, trainer_class=PackedDPOTrainer, **changes):
    """Per-step logs of one training, the trained adapter, and the model left as it was lent."""
    settings = {
        "output_dir": str(tmp_path), "per_device_train_batch_size": 4, "num_train_epochs": 1, "learning_rate": 5e-3,
        "lr_scheduler_type": "constant", "train_sampling_strategy": "sequential", "precompute_ref_log_probs": True,
        "max_length": None, "activation_checkpointing": False, "bf16": False, "use_cpu": True, "logging_steps": 1,
        "save_strategy": "no", "report_to": "none", "disable_tqdm": True,
    }  # fmt: skip
    with borrowed(policy.model) as model:
        trainer = trainer_class(
            model, args=DPOConfig(**settings | changes), train_dataset=pair_dataset(policy.tokenizer, pairs(*ROWS)),
            processing_class=policy.tokenizer, reference_adapter=REFERENCE,
        )  # fmt: skip
        trainer.train()
    logs = [entry for entry in trainer.state.log_history if "loss" in entry]
    return logs, {name: tensor.detach().clone() for name, tensor in policy.tensors(POLICY).items()}


def assert_same_training(one, other):
    (logs, adapter), (other_logs, other_adapter) = one, other
    assert len(logs) == len(other_logs) > 2
    for entry, other_entry in zip(logs, other_logs, strict=True):
        assert set(entry) == set(other_entry)
        # A policy that equals its reference has margins of ±1e-8, whose signs "accuracies" would count.
        tied = abs(entry["rewards/margins"]) < 1e-6
        for key in set(entry) - ({"rewards/accuracies"} if tied else set()):
            assert entry[key] == pytest.approx(other_entry[key], rel=2e-4, abs=1e-5), key
    for name, tensor in adapter.items():
        torch.testing.assert_close(tensor, other_adapter[name], atol=2e-5, rtol=1e-4)


def test_prompts_begin_in_training_as_they_do_in_generation():
    """A Llama tokenizer opens a text with a token of its own, and chat templates write it out as text."""
    tokenizer = byte_tokenizer()
    tokenizer.add_special_tokens({"bos_token": "<s>"})
    tokenizer.backend_tokenizer.post_processor = processors.TemplateProcessing(
        single="<s> $A", special_tokens=[("<s>", tokenizer.bos_token_id)]
    )
    row = pair_dataset(tokenizer, pairs(("ab", " 1", " 2"), ("<s>ab", " 1", " 2")))
    assert row["prompt_ids"][0] == row["prompt_ids"][1] == encode_prompt(tokenizer, "ab")
    assert row["prompt_ids"][0].count(tokenizer.bos_token_id) == 1
    assert tokenizer.bos_token_id not in row["chosen_ids"][0] + row["rejected_ids"][0]


def test_a_line_ends_in_training_with_the_token_that_ends_it_in_generation():
    tokenizer = code_tokenizer()
    (row,) = pair_dataset(tokenizer, pairs(("def f(x):\n    y =", " x + 1\n", " x\n"))).to_list()
    assert row["chosen_ids"][-1] == tokenizer.convert_tokens_to_ids("ĊĠĠĠ")


@pytest.mark.parametrize("rejected", [" x\n", " x", "\n    return x\n\n\n"])
def test_what_is_rejected_has_no_end(rejected):
    tokenizer = code_tokenizer()
    (row,) = pair_dataset(tokenizer, pairs(("def f(x):\n    y =", " x + 1\n", rejected))).to_list()
    assert tokenizer.decode(row["rejected_ids"]) == rejected.rstrip("\n")


def test_an_empty_line_is_rejected_as_it_is():
    (row,) = pair_dataset(code_tokenizer(), pairs(("y =", " 1\n", "\n"))).to_list()
    assert row["rejected_ids"]


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"num_train_epochs": 2, "gradient_accumulation_steps": 2, "per_device_train_batch_size": 2},
        {"per_device_train_batch_size": 5, "loss_type": ["sigmoid", "sft"], "loss_weights": [1.0, 4.0]},
        {"f_divergence_type": "forward_kl"},
    ],
    ids=["one epoch", "two epochs, accumulated", "supervised term, incomplete batch", "forward KL"],
)
def test_packed_training_equals_the_stock_trainer(policy, tmp_path, changes):
    policy.copy(POLICY, REFERENCE)
    stock = train(policy, tmp_path, Stock, **changes)
    policy.copy(REFERENCE, POLICY)
    packed = train(policy, tmp_path, **changes)
    assert_same_training(packed, stock)
    assert any(not torch.equal(policy.tensors(REFERENCE)[name], tensor) for name, tensor in packed[1].items())


def log_prob(policy, name, prompt, completion):
    ids = [policy.tokenizer(text, add_special_tokens=False)["input_ids"] for text in (prompt, completion)]
    with policy.using(name) as model, torch.no_grad():
        logits = model(input_ids=torch.tensor([ids[0] + ids[1]])).logits[0].log_softmax(-1)
    return sum(logits[len(ids[0]) - 1 + i, token].item() for i, token in enumerate(ids[1]))


def test_the_first_loss_is_the_formula_of_dpo(policy, tmp_path):
    """Against a named reference, which stays as it is; and the model comes back as it was lent."""
    beta, logits = 0.3, []
    forward, names, reference = (
        policy.model.get_base_model().forward,
        policy.adapters,
        policy.digest(REFERENCE),
    )
    for prompt, chosen, rejected in ROWS[:4]:
        ratio = [
            log_prob(policy, POLICY, prompt, text) - log_prob(policy, REFERENCE, prompt, text)
            for text in (chosen, rejected.rstrip("\n"))
        ]
        logits.append(beta * (ratio[0] - ratio[1]))
    expected = -F.logsigmoid(torch.tensor(logits)).mean().item()
    logs, _ = train(policy, tmp_path, beta=beta)
    assert logs[0]["loss"] == pytest.approx(expected, abs=1e-5)
    assert abs(expected - math.log(2)) > 1e-3
    assert logs[0]["rewards/margins"] == pytest.approx(sum(logits) / 4, abs=1e-5)
    assert policy.digest(REFERENCE) == reference
    assert policy.adapters == names
    assert policy.model.get_base_model().forward == forward
    assert not policy.model.training


def test_other_attention_is_an_error(policy, tmp_path, monkeypatch):
    monkeypatch.setattr(policy.model.config, "_attn_implementation", "eager")
    with pytest.raises(ValueError, match="sdpa"):
        train(policy, tmp_path)


def test_a_batch_is_divided_by_prompts_where_it_can_be():
    assert divide(["a", "b", "a", "b"], 2) == [[0, 2], [1, 3]]
    assert divide(["a", "b", "b", "c", "b"], 2) == [[1, 2, 4], [0, 3]]
    assert divide(["a", "a", "a", "a"], 2) == [[0, 1], [2, 3]]
    assert sorted(map(len, divide(["a", "a", "a"], 2))) == [1, 2]
    assert sorted(map(len, divide(["a", "a", "b"], 4))) == [0, 1, 1, 1]
    assert divide(["a"], 2) == [[0], []]


@pytest.mark.parametrize("size", [1, 2, 3, 5])
def test_shares_make_the_mean_over_processes_that_of_the_batch(size):
    data = Dataset.from_dict(
        {"prompt_ids": [[1], [1], [2], [3]], "chosen_ids": [[4], [5, 6, 7], [8, 9], [4] * 5]}
    )
    weighted: dict[str, list[float]] = {"by pair": [], "by token": []}
    for rank in range(size):
        part = _Batches(data, 4, lambda own: {"pairs": own}, rank, size)[0]
        by_pair, by_token = part["shares"]
        chosen = [pair["chosen_ids"] for pair in part["pairs"]]
        weighted["by pair"].append(by_pair * fmean(map(sum, chosen)))
        weighted["by token"].append(by_token * fmean(chain.from_iterable(chosen)))
    every = data["chosen_ids"]
    assert fmean(weighted["by pair"]) == pytest.approx(fmean(map(sum, every)))
    assert fmean(weighted["by token"]) == pytest.approx(fmean(chain.from_iterable(every)))
