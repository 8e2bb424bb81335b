"""What a GPU makes of the package: checks, then ratios to transformers' `generate` and to plain padded DPO steps.

    python -m atlas_gym.experiments.benchmarks.gpu
    python -m atlas_gym.experiments.benchmarks.gpu --device cpu --batches 4 --pairs 4 --repeats 1

It installs nothing and asks no network. First comes what must be equal: texts in float32 on the CPU and on the device,
and on a GPU, in the model's own type, those of the captured graph and of the same step run plainly. Then both sides of
each comparison take turns, and a short table stands last. `busy` is the share of the time in which the GPU computes, by
the profiler's kernels.
"""

import argparse
import time
from collections.abc import Callable
from itertools import count
from statistics import median
from typing import Any

import numpy as np
import torch
from peft import LoraConfig, get_peft_model
from torch.nn.functional import log_softmax, logsigmoid
from torch.nn.utils.rnn import pad_sequence

from atlas_gym.agents.engines.engine import Request, Sampling
from atlas_gym.agents.engines.hf_transformers import TransformersEngine
from atlas_gym.agents.models.loading import load_model, resolve_model
from atlas_gym.agents.models.policy import POLICY, REFERENCE, Policy
from atlas_gym.agents.models.tokens import encode_continuation, encode_prompt
from atlas_gym.experiments.benchmarks import seconds_of
from atlas_gym.experiments.benchmarks.generation import prompts_of
from atlas_gym.experiments.benchmarks.phase import make_pairs
from atlas_gym.trainers.dpo.settings import PhaseSettings
from atlas_gym.trainers.dpo.train import TrainJob, train

NEW = 48
"""Tokens that a sample draws at most."""
STEP, EPOCHS = 4, 2
"""Pairs of a DPO step, and epochs of a phase."""


def main(arguments: list[str] | None = None) -> None:
    """Check, time and print."""
    parser = argparse.ArgumentParser(prog="python -m atlas_gym.experiments.benchmarks.gpu")
    parser.add_argument("--model", default="embedded", help="embedded, a folder or a Hugging Face id")
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cuda")
    parser.add_argument(
        "--batches", type=int, nargs="+", default=[32, 128, 512], help="samples, multiples of 4"
    )
    parser.add_argument("--pairs", type=int, default=64, help="pairs of the phase, a multiple of 4")
    parser.add_argument("--repeats", type=int, default=3, help="rounds in which both sides run once")
    options = parser.parse_args(arguments)
    folder, device = resolve_model(options.model), options.device
    name = torch.cuda.get_device_name() if device == "cuda" else "a CPU"
    print(f"{options.model} on {name}, torch {torch.__version__}")
    if device == "cuda":
        check(folder)
    policy = Policy.load(folder, device=device)
    stock, tokenizer = load_model(folder, dtype=policy.dtype)
    stock.to(device)
    rows: list[tuple[str, float, float, float | None]] = []
    go = count()
    engine = TransformersEngine(
        policy.base, tokenizer, Sampling(max_function_tokens=NEW), policy=policy, max_samples=2**20
    )
    with engine.serving(POLICY):
        for batch in options.batches:
            drawn: list[int] = []

            def ours(batch: int = batch, drawn: list[int] = drawn) -> None:
                asked = [
                    Request(prompt, batch // 4, stop="function", seed=next(go))
                    for prompt, _ in prompts_of(next(go))
                ]
                found = engine.generate(asked)
                drawn.append(sum(completion.tokens for row in found for completion in row))

            def theirs(batch: int = batch) -> None:
                prompts = [
                    torch.tensor(encode_prompt(tokenizer, prompt)) for prompt, _ in prompts_of(next(go))
                ]
                ids = pad_sequence(prompts, batch_first=True, padding_side="left").repeat_interleave(
                    batch // 4, 0
                )
                with torch.inference_mode():
                    stock.generate(
                        ids.to(device), attention_mask=torch.ones_like(ids).to(device), do_sample=True,
                        temperature=0.8, top_k=40, min_new_tokens=NEW, max_new_tokens=NEW,
                    )  # fmt: skip

            own, other = turns(ours, theirs, device, options.repeats)
            # A function may end before: what counts is a token.
            own /= sum(drawn[1:]) / len(drawn[1:])
            other /= batch * NEW
            rows.append((f"writing {batch} samples, ms a token", 1e3 * own, 1e3 * other, busy(ours, device)))
            print(f"writing {batch} samples: {1 / own:,.0f} tokens/s, generate {1 / other:,.0f}", flush=True)
    plain = PlainPhase(stock, tokenizer)
    pairs = make_pairs(options.pairs // STEP, STEP)
    settings = PhaseSettings(batch_size=STEP, epochs=EPOCHS, target_kl=0.0, max_tokens=4096)
    judged = tuple((pair.prompt, pair.chosen) for pair in pairs[::STEP][:4])
    job = TrainJob(tuple(pairs), settings, 1, judged, phase=1, seed=0)

    def phase() -> None:
        for name in set(policy.adapters) - {POLICY, REFERENCE}:
            policy.remove(name)
        policy.reset(0)
        train(policy, job)

    own, other = turns(phase, lambda: plain.run(pairs), device, options.repeats)
    rows.append((f"a phase of {options.pairs} pairs, s", own, other, busy(phase, device)))
    print(f"\n{'':36}{'ours':>9}{'plain':>9}{'ratio':>7}{'busy':>7}")
    for what, own, other, share in rows:
        shown = "-" if share is None else f"{share:.0%}"
        print(f"{what:36}{own:9.3f}{other:9.3f}{own / other:7.2f}{shown:>7}")
    print("plain: transformers' generate; DPO steps on padded batches, reference included, and no Eq. 3")


def check(folder: Any) -> None:
    """Texts on the CPU and on the GPU, and by the graph and without it."""
    asked = [Request(prompt, 8, avoid=own, seed=seed) for seed, (prompt, own) in enumerate(prompts_of(0))]

    def texts(device: str, dtype: torch.dtype, graphs: bool) -> list[str]:
        model, tokenizer = load_model(folder, dtype=dtype)
        engine = TransformersEngine(model.to(device), tokenizer, graphs=graphs)
        return [completion.text for row in engine.generate(asked) for completion in row]

    exact = texts("cpu", torch.float32, False)
    for name, one, other in (
        ("CPU and GPU, float32", exact, texts("cuda", torch.float32, True)),
        (
            "graph and plain step, bfloat16",
            *(texts("cuda", torch.bfloat16, graphs) for graphs in (True, False)),
        ),
    ):
        same = np.mean([a == b for a, b in zip(one, other, strict=True)])
        print(f"the same texts, {name}: {same:.0%} of {len(one)}", flush=True)


def turns(
    ours: Callable[[], object], theirs: Callable[[], object], device: str, repeats: int
) -> tuple[float, float]:
    """Median seconds of both, which take turns; a first round is left out."""
    rounds = [(seconds_of(ours, device), seconds_of(theirs, device)) for _ in range(repeats + 1)][1:]
    own, other = zip(*rounds, strict=True)
    return median(own), median(other)


def busy(work: Callable[[], object], device: str) -> float | None:
    """Share of the work's time in which the GPU computes; None on a CPU."""
    if device == "cpu":
        return None
    from torch.profiler import ProfilerActivity, profile

    with profile(activities=[ProfilerActivity.CUDA]) as profiled:
        began = time.perf_counter()
        work()
        torch.cuda.synchronize()
        passed = time.perf_counter() - began
    kernels = [e for e in profiled.events() if e.device_type == torch.autograd.DeviceType.CUDA]
    return sum(event.device_time for event in kernels) / 1e6 / passed


class PlainPhase:
    """What one would write oneself: padded batches, PEFT's adapters as they are, a reference pass at each step."""

    def __init__(self, model: Any, tokenizer: Any) -> None:
        self.tokenizer, self.device = tokenizer, model.device
        self.model = get_peft_model(model, LoraConfig(r=16, lora_alpha=32, target_modules="all-linear"))

    def run(self, pairs: Any) -> None:
        """All epochs over the pairs."""
        weights = [p for p in self.model.parameters() if p.requires_grad]
        optimizer = torch.optim.AdamW(weights, lr=1e-4)
        for first in EPOCHS * list(range(0, len(pairs), STEP)):
            batch = pairs[first : first + STEP]
            with torch.no_grad(), self.model.disable_adapter():
                reference = self._log_probabilities(batch)
            margins = (self._log_probabilities(batch) - reference).view(2, -1)
            (-logsigmoid(0.1 * (margins[0] - margins[1])).mean()).backward()
            optimizer.step()
            optimizer.zero_grad()

    def _log_probabilities(self, batch: Any) -> torch.Tensor:
        sides = [
            (pair.prompt, text)
            for side in ("chosen", "rejected")
            for pair in batch
            for text in [getattr(pair, side)]
        ]
        prompts = [encode_prompt(self.tokenizer, prompt) for prompt, _ in sides]
        texts = [encode_continuation(self.tokenizer, text) for _, text in sides]
        rows = [torch.tensor(prompt + text) for prompt, text in zip(prompts, texts, strict=True)]
        ids = pad_sequence(rows, batch_first=True, padding_side="left").to(self.device)
        lengths = torch.tensor([len(row) for row in rows], device=self.device)
        places = torch.arange(ids.shape[1], device=self.device)
        mask = places >= ids.shape[1] - lengths[:, None]
        most = max(map(len, texts))
        logits = self.model(input_ids=ids, attention_mask=mask.long(), logits_to_keep=most + 1).logits[:, :-1]
        found = log_softmax(logits.float(), -1).gather(-1, ids[:, -most:, None])[..., 0]
        own = torch.tensor([len(text) for text in texts], device=self.device)
        return (found * (places[-most:] >= ids.shape[1] - own[:, None])).sum(-1)


if __name__ == "__main__":
    main()
