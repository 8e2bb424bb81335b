"""A DPO phase of 64 same-prompt pairs with the embedded model: ours against TRL's trainer.

    OMP_NUM_THREADS=1 python -m atlas_gym.experiments.benchmarks.phase
    python -m atlas_gym.experiments.benchmarks.phase --device cuda

Every contender trains in a process of its own on the same pairs in the same batches from the same weights, and reports
seconds (reference included, loading excluded), peak memory and its losses: ours, as it lays out sequences on the device
(`trainers.dpo.packed`); ours on rows of tries; TRL's `DPOTrainer` on padded rows; the same with checkpointing,
TRL's default. That all train the same is shown by the largest difference of their losses (in float32: in bfloat16 other
shapes round differently). Then what Eq. 3 of the checkpoints takes. Completions are lines of the prompts' own programs
and broken ones: no model is asked.
"""

import argparse
import multiprocessing
import resource
import tempfile
import time
import warnings
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from typing import Any

import torch
from datasets import Dataset
from trl import DPOConfig, DPOTrainer

from atlas_gym.agents.models.loading import resolve_model
from atlas_gym.agents.models.policy import Policy
from atlas_gym.experiments.benchmarks.generation import make_pairs
from atlas_gym.trainers.dpo.settings import PhaseSettings
from atlas_gym.trainers.dpo.train import TrainJob, train, training_data

CONTENDERS = ("ours", "ours, even rows", "TRL", "TRL, checkpointed")
GATE_ITEMS = 4  # completions along which Eq. 3 is taken


def main(arguments: list[str] | None = None) -> None:
    """Run every contender in turn and print the table."""
    parser = argparse.ArgumentParser(prog="python -m atlas_gym.experiments.benchmarks.phase")
    parser.add_argument("--model", default="embedded", help="embedded, a folder or a Hugging Face id")
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    parser.add_argument("--dtype", default="bfloat16", choices=["bfloat16", "float32"])
    parser.add_argument("--prompts", type=int, default=16, help="distinct prompts (default 16)")
    parser.add_argument("--pairs", type=int, default=4, help="pairs per prompt, at most 4")
    parser.add_argument("--batch-size", type=int, default=4, help="pairs per optimiser step")
    parser.add_argument("--without", nargs="*", default=[], choices=CONTENDERS[1:], help="to leave out")
    options = parser.parse_args(arguments)
    spawned, found = multiprocessing.get_context("spawn"), {}
    print(
        f"{'a phase':24}{'seconds':>9}{'CPU s':>9}{'GB':>7}   of TRL's time, memory   largest difference of a loss"
    )
    for name in CONTENDERS[::-1]:
        if name not in options.without:
            with ProcessPoolExecutor(1, mp_context=spawned) as process:
                found[name] = process.submit(contend, name, options).result()
    clock = "cpu" if options.device == "cpu" else "seconds"
    for name, ours in found.items():
        other = found.get("TRL", ours)
        apart = max(abs(a - b) for a, b in zip(ours["losses"], other["losses"], strict=True))
        share, memory = ours[clock] / other[clock], ours["memory"] / other["memory"]
        figures = f"{ours['seconds']:9.1f}{ours['cpu']:9.1f}{ours['memory']:7.2f}"
        print(f"{name:24}{figures}   {share:.3f}, {memory:.3f}            {apart:.1e}")
    print(f"Eq. 3 of the checkpoints: {found[CONTENDERS[0]]['kl']:.1f} s")


def contend(name: str, options: argparse.Namespace) -> dict[str, Any]:
    """Be one contender: train, and return the figures."""
    torch.set_num_threads(1)
    dtype = getattr(torch, options.dtype)
    policy = Policy.load(resolve_model(options.model), dtype=dtype, device=options.device)
    pairs = tuple(make_pairs(options.prompts, options.pairs))
    settings = PhaseSettings(batch_size=options.batch_size, epochs=1, target_kl=0.0, max_tokens=4096)
    items = tuple((pair.prompt, pair.chosen) for pair in pairs[:: options.pairs][:GATE_ITEMS])
    job, kl = TrainJob(pairs, settings, 1, items, phase=1, seed=0), 0.0
    began, began_cpu = time.perf_counter(), time.process_time()
    if name.startswith("TRL"):
        steps = [log["loss"] for log in stock(policy, job, activation_checkpointing="checkpointed" in name)]
    else:
        trained = train(policy, job, even=name == "ours, even rows")
        steps, kl = [record.loss for record in trained.steps], trained.seconds["kl"]
    seconds, cpu = time.perf_counter() - began, time.process_time() - began_cpu
    memory = 1e3 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss  # Linux reports kilobytes
    if options.device == "cuda":
        memory = torch.cuda.max_memory_allocated()
    return {"seconds": seconds - kl, "cpu": cpu, "memory": memory / 1e9, "kl": kl, "losses": steps}


def stock(
    policy: Policy, job: TrainJob, callbacks: Sequence[Any] = (), **changes: Any
) -> list[dict[str, Any]]:
    """Do a job's training with TRL's trainer, against the policy as it is now; its log of every step, and what
    `callbacks` log of a gate. `changes`: to TRL's configuration."""
    settings = job.settings
    data, order = training_data(policy.tokenizer, job)
    columns = {
        "prompt_ids": [data[i].chosen[0] for i in order],
        "chosen_ids": [data[i].chosen[1] for i in order],
        "rejected_ids": [data[i].rejected[1] for i in order],
    }
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
        # TRL 1.16 asks transformers for things by their old names.
        warnings.filterwarnings("ignore", ".*gradient_checkpointing", FutureWarning)
        options: dict[str, Any] = {
            "output_dir": folder, "learning_rate": settings.learning_rate, "lr_scheduler_type": "constant",
            "num_train_epochs": 1, "per_device_train_batch_size": settings.batch_size, "max_length": None,
            "train_sampling_strategy": "sequential", "bf16": settings.bf16, "use_cpu": policy.device.type == "cpu",
            "logging_steps": 1, "save_strategy": "no", "report_to": "none", "disable_tqdm": True,
            "beta": settings.beta, "f_divergence_type": settings.divergence, "activation_checkpointing": False,
            "loss_type": ["sigmoid", *(["sft"] if settings.supervised else [])],
            "loss_weights": [1.0, settings.supervised] if settings.supervised else None,
        }  # fmt: skip
        trainer = StockDPOTrainer(
            policy.model, args=DPOConfig(**options | changes), train_dataset=Dataset.from_dict(columns),
            processing_class=policy.tokenizer, callbacks=list(callbacks),
        )  # fmt: skip
        trainer.train()
    return [entry for entry in trainer.state.log_history if "loss" in entry or "gate/kl" in entry]


class StockDPOTrainer(DPOTrainer):
    """TRL's trainer as it is, on data that is tokenised already."""

    def _prepare_dataset(self, dataset: Any, *args: Any, **kwargs: Any) -> Any:
        return dataset


if __name__ == "__main__":
    main()
