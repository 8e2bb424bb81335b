"""Who minimises a phase's objective: TRL's trainer for DPO, Hugging Face's with our loss for GRPO, told alike."""

from collections.abc import Sequence
from typing import Any

from transformers import Trainer, TrainingArguments
from trl import DPOConfig

from atlas_gym.agents.models.policy import REFERENCE, Policy
from atlas_gym.trainers.data.groups import CompletionGroup, Examples
from atlas_gym.trainers.data.pairs import PreferencePair
from atlas_gym.trainers.evodpo import processes
from atlas_gym.trainers.evodpo.distributed_dpo import DistributedDPOTrainer
from atlas_gym.trainers.evodpo.packed_dpo import PackedDPOTrainer, PreparedDPOTrainer, pair_dataset
from atlas_gym.trainers.evodpo.packed_grpo import PackedGRPOTrainer, token_groups
from atlas_gym.trainers.evodpo.settings import SUPERVISED, TrainingSettings

# transformers before 5.20, which vLLM wants, has it by its old name.
_CHECKPOINTING = next(
    name
    for name in ("activation_checkpointing", "gradient_checkpointing")
    if name in DPOConfig.__dataclass_fields__
)


def trainer_of(
    policy: Policy,
    examples: Examples,
    order: Sequence[int],
    settings: TrainingSettings,
    folder: str,
    seed: int,
) -> Trainer:
    """The trainer of the settings' objective.

    Args:
        policy: its adapter `POLICY` is trained against `REFERENCE`.
        examples: pairs for DPO, groups for GRPO.
        order: in which the trainer walks through them once.
        settings: the training's.
        folder: what the trainer may write to.
        seed: of the trainer.
    """
    common = _arguments(settings, folder, seed, policy.device.type == "cpu")
    if settings.objective == "grpo":
        groups = [example for example in examples if isinstance(example, CompletionGroup)]
        tokens = token_groups(policy, groups, bf16=settings.bf16)
        return PackedGRPOTrainer(
            policy.model,
            clip=settings.clip,
            beta=settings.beta,
            args=TrainingArguments(**common, label_names=[], remove_unused_columns=False),
            train_dataset=[tokens[i] for i in order],
        )
    pairs = [example for example in examples if isinstance(example, PreferencePair)]
    rows = [(pairs[i].prompt, pairs[i].chosen, pairs[i].rejected) for i in order]
    trainer: type[PreparedDPOTrainer] = PackedDPOTrainer if settings.packed else PreparedDPOTrainer
    if processes.size() > 1:
        trainer = DistributedDPOTrainer
    return trainer(
        policy.model,
        args=_dpo_config(settings, common),
        train_dataset=pair_dataset(policy.tokenizer, rows),
        processing_class=policy.tokenizer,
        reference_adapter=REFERENCE,
    )


def _arguments(settings: TrainingSettings, folder: str, seed: int, cpu: bool) -> dict[str, Any]:
    """What Hugging Face's trainer is told, whatever is minimised."""
    return {
        "output_dir": folder,
        "learning_rate": settings.learning_rate,
        "lr_scheduler_type": "constant_with_warmup",
        "warmup_steps": settings.warmup_steps,
        "max_grad_norm": settings.max_grad_norm,
        "weight_decay": 0.0,
        "num_train_epochs": 1,
        "per_device_train_batch_size": settings.batch_size,
        "train_sampling_strategy": "sequential",
        _CHECKPOINTING: settings.activation_checkpointing,
        # The base has its own dtype and the adapters are float32; autocast only rounds the latter.
        "bf16": settings.bf16,
        "seed": seed,
        "use_cpu": cpu,
        "logging_steps": 1,
        "save_strategy": "no",
        "report_to": "none",
        "disable_tqdm": True,
    }


def _dpo_config(settings: TrainingSettings, common: dict[str, Any]) -> DPOConfig:
    return DPOConfig(
        **common,
        beta=settings.beta,
        loss_type=[settings.loss, *([SUPERVISED] if settings.supervised else [])],
        loss_weights=[1.0, settings.supervised] if settings.supervised else None,
        f_divergence_type=settings.divergence,
        precompute_ref_log_probs=settings.packed,
        max_length=None,
    )
