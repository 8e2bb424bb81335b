"""A language model over six characters, small enough to enumerate everything it can say."""

import torch
from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

CHARACTERS = ["a", "b", "c", "#", "\n"]


def character_tokenizer() -> PreTrainedTokenizerFast:
    """One token per character, and an end of sequence."""
    vocabulary = {token: index for index, token in enumerate([*CHARACTERS, "<eos>"])}
    tokenizer = Tokenizer(models.WordLevel(vocab=vocabulary, unk_token="<eos>"))
    tokenizer.pre_tokenizer = pre_tokenizers.Split(Regex(r"[\s\S]"), behavior="isolated")
    tokenizer.decoder = decoders.Fuse()
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer, eos_token="<eos>", pad_token="<eos>")


def character_model(seed: int = 0, padding: int = 0) -> LlamaForCausalLM:
    """Random weights, grouped-query attention; `padding` adds logits that no token belongs to."""
    config = LlamaConfig(
        vocab_size=len(CHARACTERS) + 1 + padding,
        hidden_size=16,
        intermediate_size=24,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        initializer_range=0.6,
        pad_token_id=len(CHARACTERS),
        eos_token_id=len(CHARACTERS),
        bos_token_id=None,
    )
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        return LlamaForCausalLM(config).eval()
