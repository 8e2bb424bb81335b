"""One EvoDPO phase in several processes against the same phase in one: the figures and the time.

    python -m experiments.benchmarks.processes --processes 2

Both start from the same adapters and have the same pairs (those of `experiments.benchmarks.dpo`). With weights in
float32 they may differ by the order of summation only; goal: losses to 1e-4, adapters to 1e-3 of their norm. With
bfloat16 weights sequences of other shapes round differently, and the difference is that of the rounding. Starting
the processes and loading the model in each is part of the time.
"""

import argparse
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import torch

from agents.models.loading import resolve_model
from agents.models.policy import POLICY, Policy
from experiments.benchmarks.dpo import make_pairs
from trainers.evodpo.candidate_set import Tune, Tuned, TuneJob, tune_here
from trainers.evodpo.launch import LaunchSettings, launched
from trainers.evodpo.phase import gate_subset
from trainers.evodpo.training import TrainingSettings

LOSS_GOAL, ADAPTER_GOAL = 1e-4, 1e-3


def main(arguments: list[str] | None = None) -> int:
    """Print both phases and their differences; 1 if float32 misses a goal."""
    parser = argparse.ArgumentParser(
        prog="python -m experiments.benchmarks.processes",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--model", default="embedded")
    parser.add_argument("--prompts", type=int, default=4)
    parser.add_argument("--pairs", type=int, default=4, help="pairs per prompt, at most 4")
    parser.add_argument("--batch", type=int, default=8, help="pairs per optimiser step")
    parser.add_argument("--dtype", default="float32", choices=["float32", "bfloat16"])
    parser.add_argument("--device", default="cpu", choices=["cpu", "cuda"])
    options = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory() as folder:
        other = launched(LaunchSettings(processes=options.processes), Path(folder))
        found = [run(options, name, tune) for name, tune in (("one process", tune_here), ("several", other))]
    return compare(options.dtype, *found)


def run(options: argparse.Namespace, name: str, tune: Tune) -> tuple[Tuned, dict[str, torch.Tensor]]:
    """One phase from the beginning: what came of it, and the adapter."""
    policy = Policy.load(
        resolve_model(options.model),
        dtype=getattr(torch, options.dtype),
        device=options.device,
    )
    pairs = make_pairs(options.prompts, options.pairs)
    settings = TrainingSettings(batch_size=options.batch, max_tokens=4096)
    items = gate_subset(pairs, 4, np.random.default_rng(0))
    began = time.perf_counter()
    tuned = tune(policy, TuneJob(tuple(pairs), settings, 1, tuple(items), phase=1, seed=0), None)
    seconds = time.perf_counter() - began
    losses = ", ".join(f"{step.loss:.4f}" for step in tuned.training.steps)
    print(f"{name}: {seconds:.1f} s, losses {losses}, KL {tuned.kls[POLICY].mean:.5f}", flush=True)
    return tuned, {key: tensor.detach().clone() for key, tensor in policy.tensors(POLICY).items()}


def compare(
    dtype: str, one: tuple[Tuned, dict[str, torch.Tensor]], other: tuple[Tuned, dict[str, torch.Tensor]]
) -> int:
    """Print the differences; 1 if they are larger than the goals, in float32."""
    steps = zip(one[0].training.steps, other[0].training.steps, strict=True)
    loss = max(abs(a.loss - b.loss) for a, b in steps)
    apart = sum((tensor - other[1][key]).pow(2).sum().item() for key, tensor in one[1].items())
    norm = sum(tensor.pow(2).sum().item() for key, tensor in one[1].items() if ".lora_B." in key)
    adapter = (apart / norm) ** 0.5
    kl = abs(one[0].kls[POLICY].mean - other[0].kls[POLICY].mean)
    print(
        f"largest difference of a step's loss {loss:.1e} (goal {LOSS_GOAL}), of the adapters {adapter:.1e} of the norm "
        f"of what was learned (goal {ADAPTER_GOAL}), of Eq. 3 {kl:.1e}"
    )
    return int(dtype == "float32" and (loss > LOSS_GOAL or adapter > ADAPTER_GOAL))


if __name__ == "__main__":
    sys.exit(main())
