"""Line edits and free text with the embedded model: our engine, transformers' own `generate`, and vLLM.

    OMP_NUM_THREADS=1 python -m atlas_gym.experiments.benchmarks.generation
    python -m atlas_gym.experiments.benchmarks.generation --device cuda

`lines` is what a round asks for: 4 prompts of 8 samples, each until its line ends, in ms per sample; our engine also
with non-copy decoding, which has no counterpart. `text` is 32 tokens of one prompt for 1, 8 or 32 samples, in ms per
token. Loading is left out. vLLM takes part where it is installed, on the device it was built for.
"""

import argparse
import importlib.util
import re
import tempfile
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np
import torch

from atlas_gym import make_task
from atlas_gym.agents.engines.engine import Engine, Request, Sampling
from atlas_gym.agents.engines.open_engine import open_engine
from atlas_gym.agents.engines.settings import EngineSettings
from atlas_gym.agents.models.loading import load_model, resolve_model
from atlas_gym.agents.models.policy import Policy
from atlas_gym.experiments.benchmarks import compare, seconds_of
from atlas_gym.trainers.data.pairs import PreferencePair

PROMPTS, SAMPLES, LINE, TOKENS = 4, 8, 48, 32


def prompts_of(go: int) -> list[tuple[str, str]]:
    """Line-edit prompts and what the parent has at their place; others for each go, so that no cache knows them."""
    start, found = make_task("ATLAS-Bandit-v0").starts["named"], []
    for index in range(PROMPTS):
        parent = re.sub(r"window = \d+", f"window = {1000 + 10 * go + index}", start)
        site = list(re.finditer(r"(?m)^    \w+ =(.*\n)", parent))[index]
        found.append((f"{parent}\n\n{parent[: site.start(1)]}", site[1]))
    return found


def make_pairs(prompts: int, pairs: int) -> list[PreferencePair]:
    """`pairs` pairs, at most 4, of each of `prompts` line-edit prompts of some 600 tokens; always the same."""
    start, rng, made = make_task("ATLAS-Bandit-v0").starts["named"], np.random.default_rng(0), []
    for number in range(prompts):
        worse, parent = (re.sub(r"window = \d+", f"window = {rng.integers(5, 200)}", start) for _ in range(2))
        sites = list(re.finditer(r"(?m)^    \w+ =(.*)\n", parent))
        prompt = f"# score: -0.16\n{worse}\n\n# score: -0.15\n{parent[: sites[number % len(sites)].start(1)]}"
        sides = [sites[i][1] for i in rng.permutation(len(sites))[:8]]
        for i in range(pairs):
            good = f"{sides[i]} + {rng.integers(2, 100)}\n"
            bad = f" ({sides[-1 - i].strip()} * {rng.integers(2, 100)}\n"
            made.append(
                PreferencePair(prompt, good, bad, "failed", 1.0, 2 * number, 2 * number + 1, str(number))
            )
    return made


def main(arguments: list[str] | None = None) -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(prog="python -m atlas_gym.experiments.benchmarks.generation")
    parser.add_argument("--model", default="embedded", help="embedded, a folder or a Hugging Face id")
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    parser.add_argument("--batches", type=int, nargs="+", default=[1, 8, 32], help="samples of `text`")
    parser.add_argument("--repeats", type=int, default=3, help="rounds in which every contender runs once")
    options = parser.parse_args(arguments)
    torch.set_num_threads(1)
    sampling = Sampling(max_new_tokens=LINE, max_function_tokens=TOKENS)
    policy, go = Policy.load(resolve_model(options.model), device=options.device), count()
    model, tokenizer = load_model(resolve_model(options.model))
    model = model.to(options.device)
    with tempfile.TemporaryDirectory() as folder:

        def engine(name: Any) -> Engine:
            return open_engine(
                EngineSettings(name), sampling, model=options.model, folder=Path(folder), policy=policy
            )

        engines = {"ours": engine("transformers")}
        if importlib.util.find_spec("vllm"):
            engines["vLLM"] = engine("vllm")

        def lines(name: str, avoid: bool) -> float:
            pairs = prompts_of(next(go))
            requests = [Request(prompt, SAMPLES, avoid=own if avoid else None) for prompt, own in pairs]
            return seconds_of(lambda: engines[name].generate(requests), options.device) / (PROMPTS * SAMPLES)

        def text(name: str, batch: int) -> float:
            request, drawn = Request(prompts_of(next(go))[0][0], batch, stop="function"), []
            spent = seconds_of(lambda: drawn.extend(engines[name].generate([request])[0]), options.device)
            return spent / sum(completion.tokens for completion in drawn)

        def theirs(prompts: list[str], samples: int, **how: Any) -> float:
            given = [tokenizer(prompt, return_tensors="pt").to(options.device) for prompt in prompts]
            how |= {"temperature": sampling.temperature, "top_k": sampling.top_k, "do_sample": True}
            how["num_return_sequences"] = samples
            with torch.inference_mode():
                return seconds_of(lambda: [model.generate(**each, **how) for each in given], options.device)

        def their_lines() -> float:
            prompts, stop = [prompt for prompt, _ in prompts_of(next(go))], {"stop_strings": ["\n"]}
            spent = theirs(prompts, SAMPLES, max_new_tokens=LINE, tokenizer=tokenizer, **stop)
            return spent / (PROMPTS * SAMPLES)

        def their_text(batch: int) -> float:
            length = {"min_new_tokens": TOKENS, "max_new_tokens": TOKENS}
            return theirs([prompts_of(next(go))[0][0]], batch, **length) / (batch * TOKENS)

        contenders = {"transformers' generate": their_lines}
        for name in engines:
            contenders[f"{name}, plain"] = partial(lines, name, False)
            contenders[f"{name}, non-copy"] = partial(lines, name, True)
        compare("lines, ms per sample", contenders, options.repeats)
        for batch in options.batches:
            contenders = {"transformers' generate": partial(their_text, batch)}
            contenders |= {name: partial(text, name, batch) for name in engines}
            compare(f"text of {batch} samples, ms per token", contenders, options.repeats)
        for each in engines.values():
            each.close()


if __name__ == "__main__":
    main()
