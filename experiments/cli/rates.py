"""The rates an estimate divides by: what was measured, and what is assumed.

Everything here is printed by `--dry-run`, so that whoever knows better can correct the result in their head.
"""

import re
from dataclasses import dataclass


@dataclass(frozen=True)
class MainJob:
    """Measured on two CPU cores with the embedded model by the main job:
    `python -m experiments.run --config experiments/configs/default.yaml`."""

    characters_per_token: float = 2.79
    """Of its 144 prompts."""
    line_tokens: float = 8.3
    """Tokens drawn of a sample of the line-edit style (9570 of 1152 samples)."""
    generated: float = 227.0
    """Tokens per second, read and drawn together (66.7 thousand in 294 s)."""
    trained: float = 175.0
    """Tokens per second through the model in a phase, the reference's included (38.2 thousand in 218 s)."""
    compared: float = 350.0
    """Tokens per second of Eq. 3."""
    evaluated: float = 0.54
    """Share of the samples that are valid and new (626 of 1152); the others cost hardly anything."""
    batch_shared: float = 0.55
    """Share of a batch whose pairs have one prompt, where the phase has so many of a prompt."""


MAIN_JOB = MainJob()

EVALUATION_CPU_S = {"ATLAS-Bandit-v0": 0.44, "ATLAS-Burgers-v0": 3.7}
"""CPU seconds of evaluating the starting program in a confined worker, both processes together:
`python -m experiments.benchmarks.gpu --device cpu --only evaluation`. Busy cores need up to twice that."""


@dataclass(frozen=True)
class GPU:
    """Assumed, not measured: a data-centre GPU of 80 GB."""

    bandwidth: float = 3.3e12
    """Bytes per second from its memory."""
    used_bandwidth: float = 0.5
    """Share of it that decoding reaches."""
    flops: float = 9.9e14
    """Dense bfloat16 operations per second."""
    used_flops: float = 0.1
    """Share of it that short sequences and small batches reach."""
    step_s: dict[str, float] | None = None
    """Least time of a decoding step by backend, seconds: launching a model's kernels."""
    stream: float = 60.0
    """Tokens per second of one request to a supporter's server."""

    def step(self, backend: str) -> float:
        """Least time of a decoding step."""
        return (self.step_s or {"transformers": 0.03, "vllm": 0.006, "openai": 0.006})[backend]


ASSUMED_GPU = GPU()

MEMORY_BYTES = 80e9
"""Of one assumed GPU."""

PARAMETERS = {
    "embedded": 0.135e9,
    "meta-llama/Llama-3.2-1B-Instruct": 1.24e9,
    "meta-llama/Llama-3.1-8B-Instruct": 8.0e9,
    "openai/gpt-oss-120b": 117e9,
    "deepseek-ai/DeepSeek-R1-Distill-Qwen-32B": 32.8e9,
    "meta-llama/Llama-4-Scout-17B-16E-Instruct": 109e9,
}
"""Weights of the models that the shipped configurations name, as published."""

BYTES_PER_PARAMETER = {"openai/gpt-oss-120b": 0.56}
"""Of weights that are published quantised; else 2 (bfloat16)."""


def parameters_of(model: str) -> float | None:
    """How many weights a model has: known, or as its name says (`…-7B-…`); None if neither."""
    if model in PARAMETERS:
        return PARAMETERS[model]
    said = re.search(r"(\d+(?:\.\d+)?)[bB](?![a-zA-Z])", model)
    return float(said.group(1)) * 1e9 if said else None


def gpus_for(model: str) -> int | None:
    """GPUs that a server of the model needs: its weights and a fifth more."""
    parameters = parameters_of(model)
    if parameters is None:
        return None
    needed = 1.2 * parameters * BYTES_PER_PARAMETER.get(model, 2.0)
    gpus = 1
    while gpus * MEMORY_BYTES < needed:
        gpus *= 2  # tensor parallelism wants powers of two
    return gpus
