"""What a step computes, against transformers' own forward pass."""

import torch
from torch.nn.functional import scaled_dot_product_attention

from atlas_gym.agents.engines.attention import attend_to_both, bias
from atlas_gym.agents.engines.engine import Sampling
from atlas_gym.agents.engines.hf_transformers import TransformersEngine
from atlas_gym.agents.models.tokens import encode_prompt
from atlas_gym.agents.population.candidate import Proposal
from tests.agents.tiny import character_model, character_tokenizer


def test_logits_of_a_step_are_those_of_the_whole_text():
    sampling = Sampling(temperature=2.0, top_k=0, max_function_tokens=7)
    engine, seen = TransformersEngine(character_model(), character_tokenizer(), sampling), []
    hook = engine.model.register_forward_hook(lambda *call: seen.append(call[-1].logits[0, -1]))
    ((completion,),) = engine.generate([Proposal("abca", 1, stop="function", seed=4)])
    hook.remove()
    text = encode_prompt(engine.tokenizer, "abca" + completion.text)
    assert len(seen) == completion.tokens > 3
    with torch.no_grad():
        whole = engine.model(input_ids=torch.tensor([text])).logits[0, 3 : 3 + len(seen)]
    torch.testing.assert_close(torch.stack(seen), whole, atol=1e-5, rtol=1e-5)


def test_attention_to_both_parts_is_attention_to_all_columns():
    families, rows, tokens, columns, own_columns, width = 2, 3, 2, 5, 4, 8
    random = torch.Generator().manual_seed(0)

    def normal(*shape):
        return torch.randn(*shape, width, generator=random)

    query, prompt = normal(families, 4, tokens * rows), [normal(families, 2, columns) for _ in "kv"]
    own = [normal(families, rows, 2, own_columns) for _ in "kv"]
    in_prompt = torch.rand(families, tokens * rows, columns, generator=random) < 0.6
    in_own = torch.rand(families, rows, tokens, own_columns, generator=random) < 0.6
    in_own[..., 0] = True
    found = attend_to_both(query, prompt, bias(in_prompt), own, bias(in_own), 0.3)
    for family in range(families):
        for row in range(rows):
            keys, values = (
                torch.cat([p[family], o[family, row]], 1) for p, o in zip(prompt, own, strict=True)
            )
            at = slice(row, None, rows)
            mask = torch.cat([in_prompt[family, at], in_own[family, row]], -1)
            alone = scaled_dot_product_attention(
                query[family, :, at][None],
                keys[None],
                values[None],
                attn_mask=mask,
                scale=0.3,
                enable_gqa=True,
            )
            torch.testing.assert_close(found[family, :, at], alone[0], atol=1e-5, rtol=1e-5)
