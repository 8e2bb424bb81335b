"""What a GPU makes of the package: ratios to transformers' `generate` and to TRL's DPO steps, and how busy it is.

    python -m atlas_gym.experiments.benchmarks.gpu
    python -m atlas_gym.experiments.benchmarks.gpu --device cpu --batches 4 --pairs 4 --repeats 1

It installs nothing and asks no network. `busy` is the share of the time in which the GPU computes, by the profiler's
kernels. That texts and trainings are those of a CPU is what `tests/test_gpu.py` tests.
"""

import argparse
import time
from collections.abc import Callable
from itertools import count

import torch

from atlas_gym.agents.engines.engine import Request, Sampling
from atlas_gym.agents.engines.hf_transformers import TransformersEngine
from atlas_gym.agents.models.loading import load_model, resolve_model
from atlas_gym.agents.models.policy import POLICY, REFERENCE, Policy
from atlas_gym.experiments.benchmarks import compare, seconds_of
from atlas_gym.experiments.benchmarks.generation import prompts_of
from atlas_gym.experiments.benchmarks.phase import make_pairs, stock
from atlas_gym.trainers.dpo.settings import PhaseSettings
from atlas_gym.trainers.dpo.train import TrainJob, train

NEW = 48
"""Tokens that a sample draws at most."""


def main(arguments: list[str] | None = None) -> None:
    """Time and print."""
    parser = argparse.ArgumentParser(prog="python -m atlas_gym.experiments.benchmarks.gpu")
    parser.add_argument("--model", default="embedded", help="embedded, a folder or a Hugging Face id")
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cuda")
    parser.add_argument("--batches", type=int, nargs="+", default=[32, 128, 512], help="samples, times 4")
    parser.add_argument("--pairs", type=int, default=64, help="pairs of the phase, a multiple of 4")
    parser.add_argument("--repeats", type=int, default=3, help="rounds in which both sides run once")
    options = parser.parse_args(arguments)
    device, go = options.device, count()
    name = torch.cuda.get_device_name() if device == "cuda" else "a CPU"
    print(f"{options.model} on {name}, torch {torch.__version__}")
    policy = Policy.load(resolve_model(options.model), device=device)
    model, tokenizer = load_model(resolve_model(options.model), dtype=policy.dtype)
    model.to(device)
    sampling = Sampling(max_function_tokens=NEW)
    engine = TransformersEngine(policy.base, tokenizer, sampling, policy=policy, max_samples=2**20)
    for batch in options.batches:

        def ours(batch: int = batch) -> float:
            requests = [
                Request(p, batch // 4, stop="function", seed=next(go)) for p, _ in prompts_of(next(go))
            ]
            found = []
            spent = seconds_of(lambda: found.extend(engine.generate(requests)), device)
            return spent / sum(completion.tokens for row in found for completion in row)

        def theirs(batch: int = batch) -> float:
            prompts = [prompt for prompt, _ in prompts_of(next(go)) for _ in range(batch // 4)]
            given = tokenizer(prompts, return_tensors="pt", padding=True, padding_side="left").to(device)
            how = {"temperature": 0.8, "top_k": 40, "min_new_tokens": NEW, "max_new_tokens": NEW}
            with torch.inference_mode():
                spent = seconds_of(lambda: model.generate(**given, do_sample=True, **how), device)
            return spent / (batch * NEW)

        with engine.serving(POLICY):
            compare(
                f"{batch} samples, ms a token",
                {"transformers' generate": theirs, "ours": ours},
                options.repeats,
            )
            print_busy(ours, device)
    pairs = make_pairs(options.pairs // 4, 4)
    settings = PhaseSettings(batch_size=4, epochs=1, target_kl=0.0, max_tokens=4096)
    job = TrainJob(tuple(pairs), settings, 1, ((pairs[0].prompt, pairs[0].chosen),), phase=1, seed=0)

    def phase(steps: Callable[[Policy, TrainJob], object]) -> float:
        for name in set(policy.adapters) - {POLICY, REFERENCE}:
            policy.remove(name)
        if "ref" in policy.model.peft_config:  # TRL's own, of the round before
            policy.model.delete_adapter("ref")
        policy.reset(0)
        return seconds_of(lambda: steps(policy, job), device)

    contenders = {"TRL": lambda: phase(stock), "ours": lambda: phase(train)}
    compare(f"a phase of {options.pairs} pairs, s", contenders, options.repeats, unit=1.0)
    print_busy(contenders["ours"], device)


def print_busy(work: Callable[[], object], device: str) -> None:
    """Share of the work's time in which the GPU computes."""
    if device == "cpu":
        return
    from torch.profiler import ProfilerActivity, profile

    with profile(activities=[ProfilerActivity.CUDA]) as profiled:
        began = time.perf_counter()
        work()
        torch.cuda.synchronize()
        passed = time.perf_counter() - began
    kernels = [e for e in profiled.events() if e.device_type == torch.autograd.DeviceType.CUDA]
    print(f"  busy: {sum(event.device_time for event in kernels) / 1e6 / passed:.0%}")


if __name__ == "__main__":
    main()
