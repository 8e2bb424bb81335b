import itertools
import math
import re
from collections import Counter

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from transformers import (
    AutoModelForCausalLM,
    FalconConfig,
    Gemma3TextConfig,
    GPT2Config,
    LlamaConfig,
    Qwen3Config,
)

from atlas_gym.agents.engines.engine import EngineError, Sampling
from atlas_gym.agents.engines.hf_transformers import TransformersEngine
from atlas_gym.agents.engines.sampling import deviation_weights, draw, truncate
from atlas_gym.agents.models.tokens import encode_prompt
from atlas_gym.agents.population.candidate import Proposal
from tests.agents.constants import with_constants
from tests.agents.tiny import CHARACTERS, character_model, character_tokenizer

SAMPLING = Sampling(temperature=0.9, top_k=4, max_new_tokens=6, max_function_tokens=9)

REQUESTS = [
    Proposal("ab\nc", 5, avoid="abca", seed=1),
    Proposal("c", 3, seed=2),
    Proposal("abcabcab", 4, avoid="c", seed=3),
    Proposal("a\n", 2, avoid="", seed=4),
    Proposal("bb", 3, stop="function", seed=5),
    Proposal("abc\na", 2, stop="function", seed=6),
    Proposal("ab", 4, avoid="c\n\nab", stop="function", seed=7),
    Proposal("abca", 2, avoid="", stop="function", seed=8),
]


def generator(sampling=SAMPLING, *, padding=0, **options):
    return TransformersEngine(character_model(padding=padding), character_tokenizer(), sampling, **options)


def texts(generated):
    return [[completion.text for completion in row] for row in generated]


def one_by_one(backend, request, sample):
    """The same sampling written plainly: no cache, no batch, one full forward pass per token."""
    sampling, model, tokenizer = backend.sampling, backend.model, backend.tokenizer
    line = request.stop == "line"  # may go on behind what it avoids
    limit = sampling.max_new_tokens if line else sampling.max_function_tokens
    source = torch.Generator().manual_seed(request.seed)
    numbers = torch.rand(request.n, limit + 1, generator=source, dtype=torch.float64)[sample]
    ends = torch.tensor([character in ("\n", "<eos>") for character in [*CHARACTERS, "<eos>"]])

    def distribution(tokens):
        with torch.no_grad():
            logits = model(input_ids=torch.tensor([tokens])).logits[0, -1]
        if line:
            logits[CHARACTERS.index("#")] = -torch.inf
        return *truncate(logits, sampling.temperature, sampling.top_k), logits

    prompt, kept, drawn = encode_prompt(tokenizer, request.prompt), [], []
    for index in range(limit):
        if index == 0 and request.avoid is not None and (line or request.avoid):
            parent = tokenizer(request.avoid, add_special_tokens=False)["input_ids"]
            # What would copy the parent at each place: its token there, and behind the last one whatever ends the line.
            banned = [torch.arange(len(ends)) == token for token in parent] + [ends] * line
            steps = [distribution(prompt + parent[:place]) for place in range(len(banned))]
            copying = [
                weights[copy[tokens]].sum() for copy, (weights, tokens, _) in zip(banned, steps, strict=True)
            ]
            copying = torch.stack(copying)[None]
            texts = [request.prompt[-1:], *(tokenizer.decode([token]) for token in parent)]
            within = [
                bool(re.search(r"\w\Z", a) and re.match(r"\w", b)) for a, b in itertools.pairwise(texts)
            ] + [False] * line
            everywhere = torch.ones_like(copying).bool()
            inside = torch.tensor([within])
            weights = deviation_weights(copying, sampling.uniform_deviation, everywhere, inside)
            place = int(draw(weights, numbers[:1]))
            kept = parent[:place]
            weights, tokens, logits = steps[place]
            weights = weights * ~banned[place][tokens]
            if not weights.any():  # nothing else is among the likeliest
                weights, tokens = truncate(logits.masked_fill(banned[place], -torch.inf), 1.0, 1)
        else:
            weights, tokens, _ = distribution(prompt + kept + drawn)
        drawn.append(int(tokens[int(draw(weights.unsqueeze(0), numbers[index + 1 : index + 2]))]))
        text = tokenizer.decode(kept + drawn, skip_special_tokens=True)
        stops = [i for i in range(1, len(text)) if text[i - 1] == "\n" and text[i] != "\n"]
        if drawn[-1] == len(CHARACTERS) or (line and "\n" in text) or (not line and stops):
            return text[: stops[0]] if not line and stops else text
    return text


SIZES = {"vocab_size": 6, "hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 4,
         "pad_token_id": 5, "eos_token_id": 5, "bos_token_id": None, "initializer_range": 0.6}  # fmt: skip
GROUPED = {**SIZES, "intermediate_size": 24, "num_key_value_heads": 2}
FAMILIES = {
    "llama": LlamaConfig(**GROUPED),
    "qwen3": Qwen3Config(**GROUPED, head_dim=8),
    "gpt2": GPT2Config(vocab_size=6, n_embd=16, n_layer=2, n_head=4, n_positions=32, initializer_range=0.6),
    "gemma3": Gemma3TextConfig(**GROUPED, head_dim=8),
}


def family(config, attention="sdpa"):
    with torch.random.fork_rng():
        torch.manual_seed(0)
        model = AutoModelForCausalLM.from_config(config, attn_implementation=attention).eval()
    return TransformersEngine(model, character_tokenizer(), SAMPLING)


@pytest.mark.parametrize(("name", "attention"), [*((name, "sdpa") for name in FAMILIES), ("llama", "eager")])
def test_samples_say_what_a_plain_loop_says(name, attention):
    backend = family(FAMILIES[name], attention)
    found = texts(backend.generate(REQUESTS))
    expected = [[one_by_one(backend, r, sample) for sample in range(r.n)] for r in REQUESTS]
    assert found == expected
    assert len({text for row in found for text in row}) > 10
    assert backend.model.config._attn_implementation == attention


def test_a_model_whose_attention_cannot_be_chosen_is_refused():
    with pytest.raises(EngineError, match="use the engine vllm"):
        family(FalconConfig(**SIZES)).generate(REQUESTS[:1])


def test_a_completion_does_not_depend_on_its_batch():
    together = texts(generator().generate(REQUESTS))
    assert texts(generator(max_samples=1).generate(REQUESTS)) == together
    assert texts(generator(padding=3).generate(REQUESTS[:1]))[0] != []
    backend = generator()
    for request, expected in zip(REQUESTS, together, strict=True):
        assert texts(backend.generate([request]))[0] == expected


@given(
    trunk=st.text("abc\n", min_size=4, max_size=14),
    sites=st.lists(
        st.tuples(st.integers(1, 13), st.text("abc", max_size=2), st.integers(1, 3)), min_size=1, max_size=6
    ),
    max_samples=st.integers(1, 16),
)
def test_sites_of_one_program_are_sampled_as_if_each_had_been_asked_alone(trunk, sites, max_samples):
    """Prompts that are beginnings of one text, some with a remark of their own, each avoiding what comes next there."""
    requests = [
        Proposal(trunk[:end] + remark, n, avoid=trunk[end : end + 3].partition("\n")[0], seed=index)
        for index, (end, remark, n) in enumerate(sites)
    ]
    together = texts(generator(max_samples=max_samples).generate(requests))
    assert together == [texts(generator().generate([request]))[0] for request in requests]


@pytest.mark.parametrize(
    "device",
    ["cpu", pytest.param("cuda", marks=pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU"))],
)
def test_steps_of_few_shapes_and_graphs_of_them_say_what_plain_steps_say(device):
    """Twice, since the second batch finds the shapes of the first; and other requests between."""
    plain, fixed = (
        TransformersEngine(character_model().to(device), character_tokenizer(), SAMPLING, graphs=graphs)
        for graphs in (False, True)
    )
    for requests in (REQUESTS, REQUESTS[2:4], REQUESTS):
        assert texts(fixed.generate(requests)) == texts(plain.generate(requests))


def test_what_prompts_have_in_common_is_read_once():
    backend, read = generator(), []
    backend.model.model.embed_tokens.register_forward_hook(
        lambda module, given, _: read.append(given[0].numel())
    )
    backend.generate([Proposal("abcab", 2), Proposal("abcabca", 1)])
    assert read[0] == 7


def test_global_randomness_is_neither_used_nor_disturbed():
    backend = generator()
    torch.manual_seed(1)
    one = texts(backend.generate(REQUESTS))
    state = torch.random.get_rng_state()
    torch.manual_seed(2)
    before = torch.random.get_rng_state()
    assert texts(backend.generate(REQUESTS)) == one
    assert torch.equal(torch.random.get_rng_state(), before)
    assert not torch.equal(state, before)


def test_non_copy_decoding_is_sampling_conditioned_on_another_line():
    """Against the enumeration of everything the model can write in three tokens."""
    parent, samples = "ab", 6000
    sampling = with_constants(Sampling, temperature=1.0, top_k=4, max_new_tokens=3, uniform_deviation=0.0)
    backend = TransformersEngine(character_model(3), character_tokenizer(), sampling)
    expected = _conditional_distribution(backend, "ca", parent, sampling)
    (row,) = backend.generate([Proposal("ca", samples, avoid=parent, seed=5)])
    found = Counter(completion.text for completion in row)
    assert set(found) <= set(expected)
    assert sum(expected.values()) == pytest.approx(1, abs=1e-6)
    statistic = sum((found[text] - samples * p) ** 2 / (samples * p) for text, p in expected.items() if p > 0)
    degrees = len(expected) - 1
    assert statistic < degrees + 5 * math.sqrt(2 * degrees)


def _conditional_distribution(backend, prompt, parent, sampling):
    """P(text | not the parent's line) with at most three tokens after leaving the parent."""
    tokenizer, model = backend.tokenizer, backend.model
    start = encode_prompt(tokenizer, prompt)
    copy = tokenizer(parent, add_special_tokens=False)["input_ids"]
    ends = {CHARACTERS.index("\n"), len(CHARACTERS)}

    def next_tokens(tokens):
        with torch.no_grad():
            logits = model(input_ids=torch.tensor([start + tokens])).logits[0, -1]
        logits[CHARACTERS.index("#")] = -torch.inf
        weights, ids = truncate(logits, sampling.temperature, sampling.top_k)
        return dict(zip(ids.tolist(), weights.tolist(), strict=True))

    def follow(tokens, chance, followed, drawn):
        if followed is None and (tokens[-1] in ends or drawn == sampling.max_new_tokens):
            outcomes[tokenizer.decode(tokens, skip_special_tokens=True)] += chance
            return
        for token, p in next_tokens(tokens).items():
            still = followed is not None and followed < len(copy) and token == copy[followed]
            if followed == len(copy) and token in ends:
                continue  # the copy itself: left out, and normalised away below
            if still:
                follow([*tokens, token], chance * p, followed + 1, drawn)
            else:
                follow([*tokens, token], chance * p, None, drawn + 1)

    outcomes = Counter()
    follow([], 1.0, 0, 0)
    total = sum(outcomes.values())
    return {text: chance / total for text, chance in outcomes.items() if chance > 0}


def _common_prefix(one, other):
    return sum(1 for _ in itertools.takewhile(lambda pair: pair[0] == pair[1], zip(one, other, strict=False)))


def test_completions_end_where_they_should():
    sampling = Sampling(temperature=2.0, top_k=0, max_new_tokens=5, max_function_tokens=12)
    line, body = generator(sampling).generate(
        [Proposal("ab", 60, seed=1), Proposal("ab", 60, stop="function", seed=2)]
    )
    for completion in line:
        assert "#" not in completion.text
        assert "\n" not in completion.text[:-1]
        assert completion.finished or completion.tokens == 5
    assert any(not completion.finished for completion in line)
    for completion in body:
        if "\n" in completion.text:
            first = completion.text.index("\n")
            assert completion.text[first + 1 :].strip("\n") == ""
        assert completion.finished or completion.tokens == 12
    assert any("#" in completion.text for completion in body)


def test_each_sample_is_handed_over_once_and_as_early_as_it_ends():
    backend = generator()
    calls = []
    backend.stream(REQUESTS, lambda *call: calls.append(call))
    assert sorted((r, s) for r, s, _ in calls) == [
        (index, sample) for index, request in enumerate(REQUESTS) for sample in range(request.n)
    ]
    lines = [completion.tokens for request, _, completion in calls if REQUESTS[request].stop == "line"]
    assert lines == sorted(lines)  # all these requests run together: the shortest is there first
