"""The embedded model through transformers and through vLLM: tokens per second, adapters, non-copy decoding.

    OMP_NUM_THREADS=1 python -m atlas_gym.experiments.benchmarks.generation

Every contender (an engine, and how its adapter is applied) runs in a process of its own, vLLM's in the environment
that `make vllm` makes; the whole round is repeated, and of each figure the best is kept, since other work on the
machine only ever slows one down. For the same reason time on a CPU is that of the process, which on an idle machine
and with one thread is the time that passes. Loading is excluded, and each workload is gone through once in small
before it is measured.

- `decode`: 1, 8 or 32 samples of one line-edit prompt (the bandit's initial program) that run on past the line, for
  at most 32 tokens; reading the prompt is included in the time.
- `lines`: what a run asks for: 4 prompts of 8 samples that end with their line, plainly and with non-copy decoding.
"""

import argparse
import json
import os
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import reduce
from pathlib import Path

import numpy as np
import pandas as pd
import torch

from atlas_gym import make_task
from atlas_gym.agents.engines.engine import Engine, Sampling
from atlas_gym.agents.engines.hf_transformers import TransformersEngine
from atlas_gym.agents.engines.open_engine import open_engine
from atlas_gym.agents.engines.settings import EngineSettings, VLLMSettings
from atlas_gym.agents.models.loading import resolve_model
from atlas_gym.agents.models.policy import POLICY, Policy
from atlas_gym.agents.population.candidate import Proposal
from atlas_gym.agents.proposals.edit_line import EditLine
from atlas_gym.agents.proposals.style import Showing
from atlas_gym.arguments import Parser
from atlas_gym.experiments.benchmarks.dpo import variant
from atlas_gym.experiments.benchmarks.side_by_side import in_own_process, show

CONTENDERS = ("transformers base", "transformers merged", "transformers unmerged")
VLLM_CONTENDERS = ("vllm base", "vllm merged", "vllm unmerged")
BATCHES = (1, 8, 32)
TOKENS = 32


def main() -> None:
    """Run every contender in turn and print the tables; with `--contender`, be one."""
    parser = Parser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    default = Path(os.environ.get("VENV_VLLM", ".venv-vllm")) / "bin" / "python"
    parser.add_argument("--vllm-python", type=Path, default=default, help="interpreter that has vLLM")
    parser.add_argument("--rounds", type=int, default=2, help="how often everything is measured")
    parser.add_argument("--device", default="cpu", help="where the policy's weights are (vLLM finds its own)")
    parser.add_argument("--model", default="embedded")
    parser.add_argument("--only", nargs="*", default=[], help="contenders to measure; default: all")
    parser.add_argument("--contender", choices=CONTENDERS + VLLM_CONTENDERS, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.contender:
        print(json.dumps(contend(arguments)))
        return
    contenders = CONTENDERS + (VLLM_CONTENDERS if arguments.vllm_python.exists() else ())
    if contenders == CONTENDERS:
        print(
            f"{arguments.vllm_python} does not exist, so vLLM is left out: make vllm, or name --vllm-python"
        )
    asked = [name for name in contenders if name in (arguments.only or contenders)]
    vllm = str(arguments.vllm_python)
    rounds = [pd.DataFrame({name: spawn(name, vllm) for name in asked}).T for _ in range(arguments.rounds)]
    report(reduce(np.minimum, rounds))


def spawn(contender: str, vllm_python: str) -> dict[str, float]:
    """Run one contender in a fresh process with this process's arguments."""
    python = vllm_python if contender in VLLM_CONTENDERS else sys.executable
    figures: dict[str, float] = in_own_process(
        "atlas_gym.experiments.benchmarks.generation", contender, python
    )
    print(contender, {name: round(value, 2) for name, value in figures.items()}, flush=True)
    return figures


def contend(arguments: argparse.Namespace) -> dict[str, float]:
    """Be one contender: seconds of each workload."""
    torch.set_num_threads(1)
    engine, adapter = arguments.contender.split()
    policy = Policy.load(resolve_model(arguments.model), device=arguments.device)
    if adapter != "base":
        source = torch.Generator().manual_seed(0)
        for name, tensor in policy.tensors(POLICY).items():
            if ".lora_B." in name:
                tensor.data.copy_(torch.randn(tensor.shape, generator=source) * 0.005)
    with serving(engine, adapter, arguments.model, policy) as (generator, swap):
        return {"swap": swap} | measure(generator)


@contextmanager
def serving(engine: str, adapter: str, model: str, policy: Policy) -> Iterator[tuple[Engine, float]]:
    """A generator with the adapter applied as the contender's name says, and the seconds that took."""
    sampling = Sampling(max_function_tokens=TOKENS)
    if engine == "transformers" and adapter == "unmerged":
        with policy.using(POLICY) as adapted:
            yield TransformersEngine(adapted.get_base_model(), policy.tokenizer, sampling), 0.0
        return
    options = VLLMSettings(adapter="lora" if adapter == "unmerged" else "merged", max_model_len=2048)
    settings = EngineSettings("vllm" if engine == "vllm" else "transformers", vllm=options)
    with tempfile.TemporaryDirectory() as folder:
        backend = open_engine(settings, sampling, model=model, folder=Path(folder), policy=policy)
        start = time.perf_counter()
        with backend.serving(POLICY) as generator:
            yield generator, time.perf_counter() - start
        backend.close()


def measure(generator: Engine) -> dict[str, float]:
    """Seconds per drawn token of `decode` by batch, seconds per sample of `lines`, plainly and without copies."""
    figures = {}
    for batch in BATCHES:
        # The same prompts, continued past the line.
        lines = [replace(make_lines(go)[0], n=batch, avoid=None, stop="function") for go in (batch, 0)]
        seconds, tokens, _ = timed(generator, [[line] for line in lines])
        figures[f"decode {batch}"] = seconds / tokens
    for name, goes in (("plain", (100, 101)), ("non-copy", (200, 201))):
        requests = [make_lines(go, copies=name == "plain") for go in goes]
        seconds, tokens, samples = timed(generator, requests)
        figures |= {f"lines {name}": seconds / samples, f"lines {name}, per token": seconds / tokens}
    return figures


def timed(generator: Engine, goes: Sequence[Sequence[Proposal]]) -> tuple[float, int, int]:
    """Seconds, drawn tokens and samples of the first go, after the second in small: other prompts, so that no
    engine finds the measured ones in its cache, as it would not in a run."""
    generator.generate([replace(request, n=max(1, request.n // 8)) for request in goes[1]])
    clock = time.perf_counter if torch.cuda.is_available() else time.process_time
    start = clock()
    completions = [completion for row in generator.generate(goes[0]) for completion in row]
    seconds = clock() - start
    return seconds, sum(completion.tokens for completion in completions), len(completions)


def make_lines(go: int, copies: bool = False) -> list[Proposal]:
    """Four line-edit prompts on variants of the bandit's initial program, eight samples each; other ones for
    each go, always the same."""
    spec = make_task("ATLAS-Bandit-v0")
    style = EditLine(spec.function)
    requests = []
    for index in range(4):
        # The number stands at the beginning of the prompt: nothing behind it is shared with another go.
        windows = (1000 * shift + 10 * go + index for shift in (1, 2))
        parent, worse = (variant(spec.starts["named"], window) for window in windows)
        site = style.sites(parent.program)[index]
        proposal = style.propose(parent, site, Showing(worse=worse))
        avoid = None if copies else proposal.avoid
        requests.append(Proposal(proposal.prompt, 8, avoid=avoid, seed=index))
    return requests


def report(seconds: pd.DataFrame) -> None:
    """Print both tables; a row a contender."""
    speeds = {f"batch {batch}": (1 / seconds[f"decode {batch}"]).map("{:.0f}".format) for batch in BATCHES}
    swap = {"adapter in place, s": seconds["swap"].map("{:.1f}".format)}
    show("tokens a second", pd.DataFrame(speeds | swap))
    plain, without = (1000 * seconds[f"lines {way}"] for way in ("plain", "non-copy"))
    show("line edits, 4 × 8", pd.DataFrame({
        "plain, ms per sample": plain.map("{:.0f}".format),
        "non-copy, ms per sample": without.map("{:.0f}".format),
        "cost of non-copy": (without / plain - 1).map("{:+.0%}".format),
    }))  # fmt: skip


if __name__ == "__main__":
    main()
