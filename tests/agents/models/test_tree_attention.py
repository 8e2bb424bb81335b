from unittest import mock

import pytest
import torch
from hypothesis import example, given
from hypothesis import strategies as st
from transformers import (
    AutoModelForCausalLM,
    FalconConfig,
    Gemma3TextConfig,
    GPT2Config,
    LlamaConfig,
    Qwen3Config,
)
from transformers.integrations.sdpa_attention import sdpa_attention_forward

from atlas_gym.agents.models import tree_attention
from atlas_gym.agents.models.token_trie import token_trie
from atlas_gym.agents.models.tree_attention import NAME, tree_blocks, tree_options, use_tree_attention

sequences = st.lists(st.lists(st.integers(0, 2), min_size=1, max_size=12), min_size=1, max_size=8)


def blocks_of(mask, rows):
    with mock.patch.object(tree_attention, "_ROWS", rows):
        return tree_blocks(mask)


def trie_mask(sequences):
    return token_trie(sequences).visible()[None, None]


def attend(attention, mask, queries, keys, values, **options):
    module = torch.nn.Module()
    module.num_key_value_groups = queries.shape[1] // keys.shape[1]
    output, _ = attention(module, queries, keys, values, mask, **options)
    return output


# A branch after others, whose tokens see two runs, of which the first is not in front.
@example(sequences=[[0] * 8, [0, 0, 1, 0, 0], [0, 1], [1] + [0] * 8], rows=1, heads=(1, 1))
@given(sequences=sequences, rows=st.integers(1, 12), heads=st.sampled_from([(1, 1), (4, 2), (3, 1)]))
def test_values_and_gradients_are_those_of_the_dense_mask(sequences, rows, heads):
    mask = trie_mask(sequences)
    mask = torch.cat([mask, torch.ones_like(mask).tril()])  # a second tree, all trunk
    random = torch.Generator().manual_seed(len(sequences))
    inputs = [
        torch.randn(2, number, mask.shape[-1], 8, generator=random).requires_grad_()
        for number in (heads[0], heads[1], heads[1])
    ]
    weights = torch.randn(2, mask.shape[-1], heads[0], 8, generator=random)
    found = []
    for attention, options in (
        (sdpa_attention_forward, {}),
        (tree_attention._attend, {"tree_blocks": blocks_of(mask, rows)}),
    ):
        output = attend(attention, mask, *inputs, scaling=0.3, **options)
        found.append([output, *torch.autograd.grad((output * weights).sum(), inputs)])
    for dense, blocks in zip(*found, strict=True):
        torch.testing.assert_close(blocks, dense, atol=1e-5, rtol=1e-5)


def test_autocast_does_not_round_the_scores():
    """As the backward pass, which runs outside it, computes them again."""
    mask = trie_mask([list(range(12)), [*range(6), 20, 21]])
    random = torch.Generator().manual_seed(0)
    inputs = [torch.randn(1, 2, mask.shape[-1], 16, generator=random).bfloat16() for _ in range(3)]
    outside = attend(tree_attention._attend, mask, *inputs, tree_blocks=blocks_of(mask, 8))
    with torch.autocast("cpu", torch.bfloat16):
        within = attend(tree_attention._attend, mask, *inputs, tree_blocks=blocks_of(mask, 8))
    torch.testing.assert_close(within, outside, atol=0, rtol=0)


SIZES = {"vocab_size": 40, "hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 4}
SHARED = {**SIZES, "intermediate_size": 24, "num_key_value_heads": 2}
FAMILIES = {
    "llama": LlamaConfig(**SHARED),
    "qwen3": Qwen3Config(**SHARED, head_dim=8),
    "gpt2": GPT2Config(vocab_size=40, n_embd=16, n_layer=2, n_head=4, n_positions=32),
    "gemma3": Gemma3TextConfig(**SHARED, head_dim=8),
    # No part in transformers' attention interface: it keeps what it had.
    "falcon": FalconConfig(**SIZES),
}


@pytest.mark.parametrize("family", FAMILIES)
def test_a_model_answers_for_a_tree_as_for_its_sequences(family):
    with torch.random.fork_rng():
        torch.manual_seed(0)
        model = AutoModelForCausalLM.from_config(FAMILIES[family], attn_implementation="sdpa").eval()
    use_tree_attention(model)
    assert (model.config._attn_implementation == NAME) is (family != "falcon")
    sequences = [[1, 2, 3, 4, 5, 6, 7, 8], [1, 2, 3, 9, 9], [1, 2, 3, 9, 4, 4], [1, 7]]
    trie = token_trie(sequences)
    mask = trie.visible()[None, None]
    with mock.patch.object(tree_attention, "_ROWS", 3), torch.no_grad():
        packed = model(
            input_ids=torch.tensor([trie.tokens]),
            position_ids=torch.tensor([trie.depths]),
            attention_mask=mask,
            **tree_options(model, mask),
        ).logits[0]
        for sequence, path in zip(sequences, trie.paths, strict=True):
            alone = model(input_ids=torch.tensor([sequence])).logits[0]
            torch.testing.assert_close(packed[path], alone, atol=1e-5, rtol=1e-5)
