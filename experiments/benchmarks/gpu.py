"""What a GPU makes of the package: tokens a second beside transformers' `generate`, phases beside TRL's DPO steps, and
how busy it is.

    python -m atlas_gym.experiments.benchmarks.gpu
    python -m atlas_gym.experiments.benchmarks.gpu --device cpu --batches 4 --phases 4 --epochs 1

It installs nothing and asks no network. Each contender runs once before it is timed. `busy` is the share of the time in
which the GPU computes, by the profiler's kernels. That texts and trainings are those of a CPU is what
`tests/test_gpu.py` tests.
"""

import argparse
import importlib.util
import time
from collections.abc import Callable
from itertools import count

import torch

from atlas_gym.agents.engines.engine import Request, Sampling, Stop
from atlas_gym.agents.engines.hf_transformers import TransformersEngine
from atlas_gym.agents.models.loading import load_model, resolve_model
from atlas_gym.agents.models.policy import POLICY, REFERENCE, Policy
from atlas_gym.experiments.benchmarks.generation import make_pairs, prompts_of
from atlas_gym.trainers.dpo.settings import PhaseSettings
from atlas_gym.trainers.dpo.train import TrainJob, train

NEW = 48
"""Tokens that a sample draws at most."""


def main(arguments: list[str] | None = None) -> None:
    """Time and print, and the table of it all last."""
    parser = argparse.ArgumentParser(prog="python -m atlas_gym.experiments.benchmarks.gpu")
    parser.add_argument("--model", default="embedded", help="embedded, a folder or a Hugging Face id")
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cuda")
    parser.add_argument("--batches", type=int, nargs="*", default=[32, 128, 512], help="samples, times 4")
    parser.add_argument("--phases", type=int, nargs="*", default=[64, 512], help="pairs of a phase, times 4")
    parser.add_argument("--epochs", type=int, default=2)
    parser.add_argument(
        "--without", nargs="*", default=[], choices=("generate", "TRL", "busy"), help="to leave out"
    )
    options = parser.parse_args(arguments)
    if options.device == "cuda" and not torch.cuda.is_available():
        parser.error("torch finds no GPU here: --device cpu --batches 4 --phases 4 --epochs 1")
    device, table, began = options.device, [], time.perf_counter()
    name = torch.cuda.get_device_name() if device == "cuda" else "a CPU"

    def tell(what: str, value: str) -> None:
        table.append(f"{what:56}{value}")
        print(f"[{time.perf_counter() - began:5.0f} s] {table[-1]}", flush=True)

    tell(f"{options.model} on {name}", f"torch {torch.__version__}")
    policy = Policy.load(resolve_model(options.model), device=device)
    writing(policy, options, tell)
    for pairs in options.phases:
        phase(policy, options, pairs, 4 if pairs <= 64 else 32, tell)
    print("", *table, sep="\n", flush=True)


def seconds(work: Callable[[], object], device: str) -> float:
    """Seconds of some work by the clock, until the device is done."""
    began = time.perf_counter()
    work()
    if device != "cpu":
        torch.cuda.synchronize()
    return time.perf_counter() - began


def writing(policy: Policy, options: argparse.Namespace, tell: Callable[[str, str], None]) -> None:
    """Tokens a second: lines, which end where they end, the start of functions, and `generate`."""
    go, device = count(), options.device
    model, tokenizer = load_model(resolve_model(options.model), dtype=policy.dtype)
    model.to(device)
    sampling = Sampling(max_new_tokens=NEW, max_function_tokens=NEW)
    engine = TransformersEngine(policy.base, tokenizer, sampling, policy=policy, max_samples=2**20)
    for batch in options.batches:
        rates = {}

        def ours(stop: Stop, batch: int = batch) -> float:
            asked = [
                Request(prompt, batch // 4, stop=stop, avoid=own if stop == "line" else None, seed=next(go))
                for prompt, own in prompts_of(next(go))
            ]
            found: list[int] = []
            spent = seconds(
                lambda: found.extend(c.tokens for row in engine.generate(asked) for c in row), device
            )
            return sum(found) / spent

        def theirs(batch: int = batch) -> float:
            prompts = [prompt for prompt, _ in prompts_of(next(go)) for _ in range(batch // 4)]
            given = tokenizer(prompts, return_tensors="pt", padding=True, padding_side="left").to(device)
            how = {"temperature": 0.8, "top_k": 40, "min_new_tokens": NEW, "max_new_tokens": NEW}
            with torch.inference_mode():
                return batch * NEW / seconds(lambda: model.generate(**given, do_sample=True, **how), device)

        with engine.serving(POLICY):
            for stop in ("function", "line"):
                ours(stop)
                rates[stop] = max(ours(stop) for _ in range(2))
            busy = share_busy(lambda: ours("function"), options)
        tell(
            f"{batch} samples, tokens/s: lines, functions",
            f"{rates['line']:,.0f}, {rates['function']:,.0f}{busy}",
        )
        if "generate" not in options.without:
            if batch == options.batches[0]:
                theirs()
            rate = theirs()
            tell(
                "  transformers' generate, functions to it",
                f"{rate:,.0f}, {rates['function'] / rate:.1f} times",
            )


def phase(
    policy: Policy, options: argparse.Namespace, pairs: int, batch: int, tell: Callable[[str, str], None]
) -> None:
    """Seconds of a phase: Eq. 2 with the reference's pass, Eq. 3 of two policies, and TRL's steps."""
    made = make_pairs(pairs // 4, 4)
    settings = PhaseSettings(
        batch_size=batch, epochs=options.epochs, target_kl=0.0, max_tokens=4096, checks=1, checkpoints=1
    )
    items = tuple((pair.prompt, pair.chosen) for pair in made[:32:4])
    job = TrainJob(tuple(made), settings, 1, items, phase=1, seed=0)
    steps: list[float] = []

    def ours() -> None:
        for name in set(policy.adapters) - {POLICY, REFERENCE}:
            policy.remove(name)
        policy.reset(0)
        trained = train(policy, job)
        steps[:] = trained.seconds["train"], trained.seconds["kl"], trained.steps[-1].loss

    spent = [seconds(ours, options.device) for _ in range(2)]
    tell(
        f"phase of {pairs} pairs, {options.epochs} epochs, batch {batch}: s (the first)",
        f"{spent[1]:.2f} ({spent[0]:.2f})",
    )
    tell(
        "  Eq. 2, Eq. 3, last loss",
        f"{steps[0]:.2f}, {steps[1]:.2f}, {steps[2]:.4f}{share_busy(ours, options)}",
    )
    own = min(spent)
    if "TRL" in options.without or pairs > 64:
        return
    if not importlib.util.find_spec("datasets"):
        tell("  TRL", "left out: its trainer needs the package datasets")
        return
    from atlas_gym.experiments.benchmarks.phase import stock

    for _ in range(2):
        if "ref" in policy.model.peft_config:  # of the run before
            policy.model.delete_adapter("ref")
        policy.reset(0)
        theirs = seconds(lambda: stock(policy, job), options.device)
    tell("  TRL's steps alone: s, to all of ours", f"{theirs:.2f}, {theirs / own:.1f} times")


def share_busy(work: Callable[[], object], options: argparse.Namespace) -> str:
    """Share of the work's time in which the GPU computes, in words."""
    if options.device == "cpu" or "busy" in options.without:
        return ""
    from torch.profiler import ProfilerActivity, profile

    with profile(activities=[ProfilerActivity.CUDA]) as profiled:
        passed = seconds(work, options.device)
    kernels = [e for e in profiled.events() if e.device_type == torch.autograd.DeviceType.CUDA]
    return f", busy {sum(event.device_time for event in kernels) / 1e6 / passed:.0%}"


if __name__ == "__main__":
    main()
