"""What a GPU does here: generation, one EvoDPO phase, the gate, a batch of Burgers trainings.

    python -m atlas_gym.experiments.benchmarks.gpu --json gpu.json
    python -m atlas_gym.experiments.benchmarks.gpu --device cpu --pairs 2 --networks 3 24

Times are wall clock on a GPU, after its work is done, and CPU seconds with `--device cpu`, where other programs
may be running. The model's dtype is bfloat16, adapters are float32, and Burgers is float64 everywhere.

- generation: seconds of `experiments.benchmarks.generation` per token at several batch sizes, and per line edit,
adapter merged (by the clock wherever there is a GPU);
- phase: DPO on 16 prompts x `--pairs` pairs, packed, with and without autocast on a GPU, and peak memory;
- gate: Eq. 3 of the phase's candidates on four of the prompts;
- Burgers: one Adam step of stacked networks (`atlas_gym.tasks.burgers.stacked`), loss and gradient of the plain loss
included, beside the compiled kernel's time for the same networks one after the other on one CPU core;
- evaluation: CPU seconds of the starting programs in a confined worker, both processes together.
"""

import argparse
import json
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch

from atlas_gym import make_task
from atlas_gym.agents.models.loading import resolve_model
from atlas_gym.agents.models.policy import POLICY, REFERENCE, Policy
from atlas_gym.arguments import Parser
from atlas_gym.evaluation import ConfinedEvaluator
from atlas_gym.experiments.benchmarks.burgers import plain
from atlas_gym.experiments.benchmarks.dpo import GATE_PROMPTS, make_pairs
from atlas_gym.experiments.benchmarks.generation import measure, serving
from atlas_gym.experiments.benchmarks.side_by_side import confined_cpu
from atlas_gym.tasks.burgers.in_process import LocalLosses
from atlas_gym.tasks.burgers.params import BurgersParams
from atlas_gym.tasks.burgers.task import BurgersTask
from atlas_gym.tasks.burgers.training import Training, train
from atlas_gym.trainers.dpo.phase import gate_subset
from atlas_gym.trainers.dpo.settings import PhaseSettings
from atlas_gym.trainers.dpo.train import TrainJob
from atlas_gym.trainers.dpo.train import train as train_policy

BURGERS_STEPS = 20

Figures = Iterator[tuple[str, Any]]
"""What is measured, by name, one after the other."""


def main(arguments: list[str] | None = None) -> int:
    """Measure and print; 2 if there is no such device."""
    options = _parser().parse_args(arguments)
    if options.device == "cuda" and not torch.cuda.is_available():
        print(
            f"There is no GPU that torch {torch.__version__} can use. On a CPU: --device cpu", file=sys.stderr
        )
        return 2
    torch.set_num_threads(1)
    figures = {"device": describe(options.device)}
    print(figures["device"], flush=True)
    for section in options.only or SECTIONS:
        for name, figure in SECTIONS[section](options):
            print(f"{name}: {figure}", flush=True)
            figures[name] = figure
    if options.json:
        options.json.write_text(json.dumps(figures, indent=1) + "\n")
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = Parser(
        prog="python -m atlas_gym.experiments.benchmarks.gpu",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--device", default="cuda", choices=["cuda", "cpu"])
    parser.add_argument("--model", default="embedded", help="embedded, a folder or a Hugging Face id")
    parser.add_argument("--pairs", type=int, default=4, help="pairs per prompt of the phase, at most 4")
    parser.add_argument("--prompts", type=int, default=16, help="prompts of the phase")
    parser.add_argument("--networks", type=int, nargs="+", default=[3, 24, 96, 384], help="Burgers networks")
    parser.add_argument("--only", nargs="+", choices=SECTIONS, help="these sections alone")
    parser.add_argument("--json", type=Path, help="also write the figures to this file")
    return parser


def describe(device: str) -> str:
    """The device in words."""
    if device == "cpu":
        return "CPU, one thread, CPU seconds"
    properties = torch.cuda.get_device_properties(0)
    return f"{properties.name}, {properties.total_memory / 2**30:.0f} GiB, torch {torch.__version__}"


def seconds_of(device: str, work: Callable[[], object]) -> float:
    """Time of some work: wall clock on a GPU, CPU time on a CPU."""
    if device == "cpu":
        began = time.process_time()
        work()
        return time.process_time() - began
    torch.cuda.synchronize()
    began = time.perf_counter()
    work()
    torch.cuda.synchronize()
    return time.perf_counter() - began


def model_figures(options: argparse.Namespace) -> Figures:
    """A phase, the gate, and generation, on one policy."""
    policy = Policy.load(resolve_model(options.model), device=options.device)
    pairs = make_pairs(options.prompts, options.pairs)
    _phase(options, policy, PhaseSettings(max_tokens=4096), pairs[:2])  # a GPU's first work takes longer
    for bf16 in (False, True) if options.device == "cuda" else (False,):
        settings = PhaseSettings(max_tokens=4096, bf16=bf16)
        yield "phase, bf16" if bf16 else "phase", _phase(options, policy, settings, pairs)
    with serving("transformers", "merged", options.model, policy) as (generator, _):
        for name, each in measure(generator).items():
            yield f"generation, {name}, s", round(each, 5)


def _phase(
    options: argparse.Namespace, policy: Policy, settings: PhaseSettings, pairs: Any
) -> dict[str, Any]:
    policy.reset(POLICY, seed=0)
    for name in set(policy.adapters) - {POLICY, REFERENCE}:
        policy.remove(name)
    if options.device == "cuda":
        torch.cuda.reset_peak_memory_stats()
    rng = np.random.default_rng(0)
    items = gate_subset([(pair.prompt, pair.chosen) for pair in pairs], GATE_PROMPTS, rng)
    trained = train_policy(policy, TrainJob(tuple(pairs), settings, 1, tuple(items), phase=1, seed=0))
    figures = {"pairs": len(pairs), "s": round(trained.seconds["train"], 2), "tokens": trained.tokens}
    figures[f"Eq. 3 of {len(trained.kls)} checkpoints on {len(items)} completions, s"] = round(
        trained.seconds["kl"], 2
    )
    if options.device == "cuda":
        figures["peak GiB"] = round(torch.cuda.max_memory_allocated() / 2**30, 2)
    return figures


def burgers_figures(options: argparse.Namespace) -> Figures:
    """Milliseconds of a training step per network: stacked on the device, and the kernel on one core."""
    params = BurgersParams(steps=BURGERS_STEPS, replicas=1)
    stacked = replace(params, backend="torch", device=options.device)
    torch.set_default_dtype(torch.float64)
    try:
        for count in options.networks:
            tasks = [BurgersTask(**vars(params), seed=seed) for seed in range(count)]
            points, thetas = zip(*(task.beginning(0) for task in tasks), strict=True)
            losses = LocalLosses([plain] * count, params)
            together = Training(stacked, points, thetas)
            spent = seconds_of(options.device, partial(train, stacked, together, losses))
            each = round(1000 * spent / BURGERS_STEPS / count, 3)
            yield f"Burgers, {count} networks stacked, ms a step of each", each
        alone = Training(params, points[:1], thetas[:1])
        spent = seconds_of("cpu", lambda: train(params, alone, LocalLosses([plain], params)))
        loss = seconds_of("cpu", lambda: _losses_alone(params, alone))
    finally:
        torch.set_default_dtype(torch.float32)
    kernel, own = round(1000 * spent / BURGERS_STEPS, 3), round(1000 * loss / BURGERS_STEPS, 3)
    yield "Burgers, one network, compiled kernel, ms a step", kernel
    yield "of it the loss and its gradient, on the CPU in any case, ms", own


def _losses_alone(params: BurgersParams, training: Training) -> None:
    losses = LocalLosses([plain], params)
    losses.begin(training.points)
    (vectors,) = training.vectors()
    for epoch in range(params.steps):
        losses.ask(0, epoch, vectors)


def evaluation_figures(options: argparse.Namespace) -> Figures:
    """CPU seconds of a whole evaluation of each environment's starting program; the least of three."""
    with ConfinedEvaluator() as evaluator:
        for env in ("ATLAS-Bandit-v0", "ATLAS-Burgers-v0"):
            task = make_task(env, seed=0)
            unhurried = replace(task, limits=replace(task.limits, wall_s=10 * task.limits.wall_s))
            least = min(confined_cpu(evaluator, task.starts["named"], unhurried) for _ in range(3))
            yield f"evaluation, {env}, CPU s", round(least, 2)


SECTIONS: dict[str, Callable[[argparse.Namespace], Figures]] = {
    "model": model_figures, "burgers": burgers_figures, "evaluation": evaluation_figures
}  # fmt: skip


if __name__ == "__main__":
    sys.exit(main())
