"""A Llama of 20 thousand random weights with a byte tokenizer: everything real but the size."""

from collections.abc import Sequence
from pathlib import Path

import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

from atlas_gym.agents.models.policy import POLICY, REFERENCE, Policy
from atlas_gym.agents.models.settings import LoraSettings

# Matrices this small gain nothing from threads, and threads that wait for each other cost minutes on busy
# cores.
torch.set_num_threads(1)


def byte_tokenizer(merges: Sequence[tuple[str, str]] = ()) -> PreTrainedTokenizerFast:
    """One token per byte and per merge, and an end of sequence."""
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    tokens = ["<eos>", *alphabet, *("".join(pair) for pair in merges)]
    vocabulary = {token: index for index, token in enumerate(tokens)}
    tokenizer = Tokenizer(models.BPE(vocab=vocabulary, merges=list(merges)))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer, eos_token="<eos>", pad_token="<eos>")


def code_tokenizer() -> PreTrainedTokenizerFast:
    """One that joins a line break with the indentation behind it, as those for code do."""
    return byte_tokenizer([("Ċ" + "Ġ" * spaces, "Ġ") for spaces in range(8)])


def save_tiny_model(folder: Path, dtype: torch.dtype = torch.float32, width: int = 32) -> Path:
    """Write the model and its tokenizer to `folder` as Hugging Face would."""
    tokenizer = byte_tokenizer()
    config = LlamaConfig(
        vocab_size=len(tokenizer),
        hidden_size=width,
        intermediate_size=width * 3 // 2,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        initializer_range=0.3,
        tie_word_embeddings=True,
        pad_token_id=tokenizer.pad_token_id,
        eos_token_id=tokenizer.eos_token_id,
        bos_token_id=None,
    )
    with torch.random.fork_rng():
        torch.manual_seed(0)
        model = LlamaForCausalLM(config)
    model.to(dtype).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


def tuned_policy(folder: Path, device: str = "cpu") -> Policy:
    """A policy that has learned something and a reference that has learned something else."""
    policy = Policy.load(folder, dtype=torch.float32, lora=LoraSettings(rank=4, alpha=8), device=device)
    generator = torch.Generator().manual_seed(3)
    for name in (POLICY, REFERENCE):
        for tensor in policy.tensors(name).values():
            tensor.data.copy_(torch.empty(tensor.shape).normal_(0.0, 0.1, generator=generator))
    return policy
