"""The gate as a callback of TRL's own trainer, on the tiny model."""

import pytest
import torch
from datasets import Dataset
from peft import LoraConfig, get_peft_model
from transformers import AutoModelForCausalLM
from trl import DPOConfig, DPOTrainer

from atlas_gym.agents.models.policy import POLICY, REFERENCE
from atlas_gym.experiments.benchmarks.phase import stock
from atlas_gym.trainers.dpo.callback import GatedReference, _tensors
from atlas_gym.trainers.dpo.phase import run_phase
from atlas_gym.trainers.dpo.settings import GateSettings, PhaseSettings
from atlas_gym.trainers.dpo.train import TrainJob
from tests.tiny_model import byte_tokenizer, tuned_policy
from tests.trainers.small_phases import PAIRS

ITEMS = [("other =", " 1\n"), ("yet another =", " 2\n"), ("third =", " 3\n")]
LORA = LoraConfig(r=4, lora_alpha=8, target_modules="all-linear", task_type="CAUSAL_LM")
ROWS = [{"prompt": pair.prompt, "chosen": pair.chosen, "rejected": pair.rejected} for pair in PAIRS]


def trainer_of(folder, output, gate, given="adapter", **changes):
    model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32)
    if given == "adapter":
        torch.manual_seed(0)
        model = get_peft_model(model, LORA)
    options = {
        "output_dir": str(output), "per_device_train_batch_size": 4, "num_train_epochs": 1, "learning_rate": 5e-3,
        "logging_steps": 1, "report_to": "none", "use_cpu": True, "disable_tqdm": True, "bf16": False,
        "lr_scheduler_type": "constant", "save_strategy": "no", "activation_checkpointing": False,
    }  # fmt: skip
    return DPOTrainer(
        model, args=DPOConfig(**options | changes), train_dataset=Dataset.from_list(ROWS), callbacks=[gate],
        processing_class=byte_tokenizer(), peft_config=None if given == "adapter" else LORA,
    )  # fmt: skip


def grows(model):
    """Each prompt's score is more under the policy than under the reference, by amounts that differ a little."""
    return [0.0, 0.0, 0.0] if model.active_adapter == "ref" else [1.0, 1.1, 1.2]


def decisions(trainer):
    return [entry for entry in trainer.state.log_history if "gate/promoted" in entry]


def adapters(trainer):
    return [
        torch.cat([tensor.detach().flatten() for tensor in _tensors(trainer.model, name).values()])
        for name in ("default", "ref")
    ]


@pytest.mark.parametrize("given", ["adapter", "configuration"])
def test_the_reference_moves_if_the_score_grows_within_the_budget(folder, tmp_path, given):
    trainer = trainer_of(folder, tmp_path, GatedReference(grows, ITEMS, max_kl=100.0, every=5), given)
    trainer.train()
    (decision,) = decisions(trainer)
    assert decision["gate/promoted"]
    assert decision["gate/kl"] > 0.0
    assert torch.equal(*adapters(trainer))
    assert trainer.model.active_adapter == "default"
    trained = {name for name, tensor in trainer.model.named_parameters() if tensor.requires_grad}
    assert trained
    assert all(".default." in name for name in trained)


@pytest.mark.parametrize(
    ("rule", "max_kl", "better"),
    [("gated", 100.0, True), ("gated", 100.0, False), ("gated", 1e-9, True), ("every_phase", 100.0, True)],
    ids=["promoted", "refused", "beyond the budget", "every phase"],
)
def test_it_decides_and_leaves_what_a_phase_of_the_loop_does(folder, rule, max_kl, better):
    """The same pairs in the same order, by the loop's own training and by TRL's, each with its gate."""
    amounts = [1.0, 1.1, 1.2] if better else [1.0, -1.0, 0.1]
    loop, trl = tuned_policy(folder), tuned_policy(folder)
    loop.copy(POLICY, REFERENCE)  # TRL's reference is the policy as it is
    phase = PhaseSettings(rule, learning_rate=5e-3, epochs=1, batch_size=4, target_kl=0.0, checkpoints=0)
    gate = GateSettings(max_kl=max_kl)

    def score(adapter, prompts):
        return amounts if adapter == POLICY else [0.0, 0.0, 0.0]

    found = run_phase(loop, PAIRS, phase, gate, score, phase=1, seed=0, gate_items=ITEMS * 3)
    along = [item for item in dict.fromkeys(ITEMS) if item[0] in found.gate_prompts]
    callback = GatedReference(
        lambda model: score(model.active_adapter, ()), along, max_kl=max_kl, every=5, rule=rule
    )
    job = TrainJob(tuple(PAIRS), phase, 0, (), phase=1, seed=0)
    (log,) = (entry for entry in stock(trl, job, callbacks=[callback]) if "gate/kl" in entry)
    assert log["gate/promoted"] == found.promoted
    assert log["gate/kl"] == pytest.approx(found.checkpoints[-1].kl, rel=1e-3)
    if rule == "gated":
        assert log["gate/gain"] == found.decision.gain
        assert log["gate/reason"].split()[:3] == found.decision.reason.split()[:3]
    for mine, theirs in ((POLICY, POLICY), (REFERENCE, "ref")):
        for name, tensor in _tensors(trl.model, theirs).items():
            torch.testing.assert_close(loop.tensors(mine)[name], tensor, atol=2e-5, rtol=1e-4)


def test_after_a_promotion_the_loss_begins_anew(folder, tmp_path):
    losses = []
    for rule in ("every_phase", "fixed"):
        trainer = trainer_of(folder, tmp_path, GatedReference(grows, ITEMS, every=2, rule=rule))
        trainer.train()
        assert [entry["gate/promoted"] for entry in decisions(trainer)] == [rule == "every_phase"] * 2
        losses.append([entry["loss"] for entry in trainer.state.log_history if "loss" in entry])
    moving, fixed = losses
    assert moving[0] == moving[2] == moving[4] == pytest.approx(0.6931, abs=1e-4)
    assert fixed[2] != pytest.approx(0.6931, abs=1e-3)


@pytest.mark.parametrize("given", ["adapter", "configuration"])
def test_a_resumed_training_goes_on_with_the_reference_that_it_had(folder, tmp_path, given):
    gate = GatedReference(grows, ITEMS, max_kl=100.0, every=2)
    whole = trainer_of(folder, tmp_path / "whole", gate, given, save_strategy="steps", save_steps=3)
    whole.train()
    resumed = trainer_of(folder, tmp_path / "resumed", gate, given)
    resumed.train(resume_from_checkpoint=str(tmp_path / "whole" / "checkpoint-3"))
    assert [entry["step"] for entry in decisions(resumed)] == [2, 4]
    for own, other in zip(adapters(resumed), adapters(whole), strict=True):
        torch.testing.assert_close(own, other, atol=1e-6, rtol=1e-5)


def test_what_has_no_reference_to_move_is_told(folder, tmp_path):
    gate = GatedReference(grows, ITEMS)
    with pytest.raises(ValueError, match="turn it off"):
        trainer_of(folder, tmp_path, gate, precompute_ref_log_probs=True).train()
    with pytest.raises(ValueError, match="PEFT model"):
        gate.on_train_begin(None, None, None, model=torch.nn.Linear(1, 1))
