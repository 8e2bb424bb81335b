"""What the tests of vLLM, in process and behind a server, ask of both engines: one model and the same requests."""

import os
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from transformers import LlamaConfig, LlamaForCausalLM

from atlas_gym.agents.engines.engine import Sampling
from atlas_gym.agents.models.policy import POLICY
from atlas_gym.agents.population.candidate import Proposal
from tests.tiny_model import byte_tokenizer

ROOT = Path(__file__).parents[3]
PYTHON = ROOT / os.environ.get("VENV_VLLM", ".venv-vllm") / "bin" / "python"

SAMPLING = Sampling(temperature=0.9, top_k=12, max_new_tokens=12, max_function_tokens=20)
REQUESTS = [
    Proposal("def f(x):\n    a =", 12, avoid=" x + 1", seed=1),
    Proposal("a = 1\nb =", 6, seed=2),
    Proposal("a = 1\nb =", 6, avoid="", seed=3),
    Proposal("def f(x):", 4, avoid="\n    return x", stop="function", seed=4),
    Proposal("def f(x):", 4, stop="function", seed=5),
    Proposal("b =", 6, seed=6),
]


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    """A Llama of random weights whose heads are wide enough for vLLM's attention, in float32."""
    folder = tmp_path_factory.mktemp("model")
    tokenizer = byte_tokenizer()
    config = LlamaConfig(
        vocab_size=len(tokenizer), hidden_size=128, intermediate_size=128, num_hidden_layers=2,
        num_attention_heads=4, num_key_value_heads=2, initializer_range=0.2, tie_word_embeddings=True,
        pad_token_id=tokenizer.pad_token_id, eos_token_id=tokenizer.eos_token_id, bos_token_id=None,
        max_position_embeddings=512,
    )  # fmt: skip
    torch.manual_seed(0)
    LlamaForCausalLM(config).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


def tune(policy, seed):
    source = torch.Generator().manual_seed(seed)
    for name, tensor in policy.tensors(POLICY).items():
        if ".lora_B." in name:
            tensor.data.copy_(torch.randn(tensor.shape, generator=source) * (0.3 if seed else 0.0))


def firsts(backend, adapter=POLICY):
    """What 60 samples keep of their parent, and their first token: equal numbers, so equal models agree."""
    with backend.serving(adapter) as generator:
        drawing = getattr(generator, "_sampler", generator)
        drawing.sampling = replace(SAMPLING, max_new_tokens=1)
        try:
            (row,) = generator.generate([Proposal("def f(x):\n    a =", 60, avoid=" x + 1", seed=9)])
        finally:
            drawing.sampling = SAMPLING
    return [completion.text for completion in row]
