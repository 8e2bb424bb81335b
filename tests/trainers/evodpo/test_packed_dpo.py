import math

import pytest
import torch
import torch.nn.functional as F
from datasets import Dataset
from tokenizers import processors
from transformers import TrainerCallback
from trl import DPOConfig, DPOTrainer

from atlas_gym.agents.models.policy import POLICY, REFERENCE
from atlas_gym.agents.models.tokens import encode_prompt
from atlas_gym.trainers.data.pairs import PreferencePair
from atlas_gym.trainers.evodpo.packed_dpo import (
    PackedDPOTrainer,
    PreparedDPOTrainer,
    borrowed,
    pair_dataset,
    require_own_mask,
)
from tests.tiny_model import byte_tokenizer, code_tokenizer, tuned_policy


def pairs(*rows):
    return [PreferencePair(*row, "score", 0.1, 2 * i, 2 * i + 1, "hole") for i, row in enumerate(rows)]


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


def config(tmp_path, packed, **changes):
    settings = {
        "output_dir": str(tmp_path),
        "per_device_train_batch_size": 4,
        "num_train_epochs": 1,
        "learning_rate": 5e-3,
        "lr_scheduler_type": "constant",
        "train_sampling_strategy": "sequential",
        "precompute_ref_log_probs": packed,
        "max_length": None,
        "activation_checkpointing": False,
        "bf16": False,
        "use_cpu": True,
        "logging_steps": 1,
        "save_strategy": "no",
        "report_to": "none",
        "disable_tqdm": True,
    }
    return DPOConfig(**{**settings, **changes})


def train(trainer_class, policy, dataset, args, **kwargs):
    """Per-step logs of one training, the trained adapter, and the model left as it was lent."""
    with borrowed(policy.model) as model:
        trainer = trainer_class(
            model, args=args, train_dataset=dataset, processing_class=policy.tokenizer, **kwargs
        )
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


def text_dataset():
    return Dataset.from_list([{"prompt": p, "chosen": c, "rejected": r} for p, c, r in ROWS])


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"num_train_epochs": 2, "gradient_accumulation_steps": 2, "per_device_train_batch_size": 2},
        {"per_device_train_batch_size": 5, "loss_type": ["ipo", "sft"]},
    ],
    ids=["one epoch", "two epochs, accumulated", "other losses, incomplete batch"],
)
def test_packed_training_equals_the_stock_trainer(policy, folder, tmp_path, changes):
    """TRL untouched (its own collation, tokenisation and reference) against the packed trainer, step by
    step."""
    start = {name: tensor.detach().clone() for name, tensor in policy.tensors(POLICY).items()}
    stock = train(DPOTrainer, policy, text_dataset(), config(tmp_path, packed=False, **changes))
    for name, tensor in policy.tensors(POLICY).items():
        tensor.data.copy_(start[name])
    packed = train(PackedDPOTrainer, policy, text_dataset(), config(tmp_path, packed=True, **changes))
    assert_same_training(packed, stock)
    assert any(not torch.equal(start[name], tensor) for name, tensor in packed[1].items())


def test_packed_training_equals_stock_training_against_a_named_reference(policy, tmp_path):
    start = {name: tensor.detach().clone() for name, tensor in policy.tensors(POLICY).items()}
    reference = policy.digest(REFERENCE)
    data = pair_dataset(policy.tokenizer, pairs(*ROWS))
    stock = train(
        PreparedDPOTrainer, policy, data, config(tmp_path, packed=False), reference_adapter=REFERENCE
    )
    for name, tensor in policy.tensors(POLICY).items():
        tensor.data.copy_(start[name])
    packed = train(PackedDPOTrainer, policy, data, config(tmp_path, packed=True), reference_adapter=REFERENCE)
    assert_same_training(packed, stock)
    assert abs(stock[0][0]["loss"] - math.log(2)) > 1e-3
    assert policy.digest(REFERENCE) == reference


def test_evaluation_is_packed_too(policy, tmp_path):
    data, results = pair_dataset(policy.tokenizer, pairs(*ROWS)), []
    for trainer_class, packed in ((PackedDPOTrainer, True), (PreparedDPOTrainer, False)):
        with borrowed(policy.model) as model:
            trainer = trainer_class(
                model,
                args=config(tmp_path, packed, per_device_eval_batch_size=5),
                train_dataset=data,
                eval_dataset=data,
                processing_class=policy.tokenizer,
                reference_adapter=REFERENCE,
            )
            results.append(trainer.evaluate())
    for key in ("eval_loss", "eval_rewards/margins", "eval_logps/chosen"):
        assert results[0][key] == pytest.approx(results[1][key], abs=1e-5), key


def log_prob(policy, name, prompt, completion):
    ids = [policy.tokenizer(text, add_special_tokens=False)["input_ids"] for text in (prompt, completion)]
    with policy.using(name) as model, torch.no_grad():
        logits = model(input_ids=torch.tensor([ids[0] + ids[1]])).logits[0].log_softmax(-1)
    return sum(logits[len(ids[0]) - 1 + i, token].item() for i, token in enumerate(ids[1]))


def test_the_first_loss_is_the_formula_of_dpo(policy, tmp_path):
    beta = 0.3
    logits = []
    for prompt, chosen, rejected in ROWS[:4]:
        ratio = [
            log_prob(policy, POLICY, prompt, text) - log_prob(policy, REFERENCE, prompt, text)
            for text in (chosen, rejected.rstrip("\n"))
        ]
        logits.append(beta * (ratio[0] - ratio[1]))
    expected = -F.logsigmoid(torch.tensor(logits)).mean().item()
    logs, _ = train(
        PackedDPOTrainer,
        policy,
        pair_dataset(policy.tokenizer, pairs(*ROWS)),
        config(tmp_path, packed=True, beta=beta),
        reference_adapter=REFERENCE,
    )
    assert logs[0]["loss"] == pytest.approx(expected, abs=1e-5)
    assert logs[0]["rewards/margins"] == pytest.approx(sum(logits) / 4, abs=1e-5)


def test_against_itself_the_first_loss_is_ln_2(policy, tmp_path):
    policy.copy(POLICY, REFERENCE)
    logs, _ = train(
        PackedDPOTrainer,
        policy,
        pair_dataset(policy.tokenizer, pairs(*ROWS)),
        config(tmp_path, packed=True),
        reference_adapter=REFERENCE,
    )
    assert logs[0]["loss"] == pytest.approx(math.log(2), abs=1e-6)
    assert logs[0]["rewards/margins"] == pytest.approx(0.0, abs=1e-6)
    assert logs[-1]["loss"] < math.log(2)


def test_the_model_comes_back_as_it_was_lent(policy, tmp_path):
    forward, names = policy.model.get_base_model().forward, policy.adapters
    for _ in range(2):  # a second trainer on the same model is the case that would fail
        train(
            PackedDPOTrainer,
            policy,
            pair_dataset(policy.tokenizer, pairs(*ROWS)),
            config(tmp_path, packed=True, max_steps=1),
            reference_adapter=REFERENCE,
        )
        assert policy.adapters == names
        assert policy.model.get_base_model().forward == forward
        assert not policy.model.training


def test_callbacks_see_the_adapter_of_their_step(policy, tmp_path):
    seen = []

    class Watch(TrainerCallback):
        def on_step_end(self, args, state, control, **kwargs):
            seen.append((state.global_step, policy.digest(POLICY)))

    train(
        PackedDPOTrainer,
        policy,
        pair_dataset(policy.tokenizer, pairs(*ROWS)),
        config(tmp_path, packed=True),
        reference_adapter=REFERENCE,
        callbacks=[Watch()],
    )
    assert [step for step, _ in seen] == [1, 2, 3]
    assert len({digest for _, digest in seen}) == 3
    assert seen[-1][1] == policy.digest(POLICY)


def test_other_attention_is_an_error(policy, monkeypatch):
    monkeypatch.setattr(policy.model.config, "_attn_implementation", "eager")
    with pytest.raises(ValueError, match="sdpa"):
        require_own_mask(policy.model)
