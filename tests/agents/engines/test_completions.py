"""The completions backend against scripted servers: what is sent and what is made of the answers."""

import threading
from collections import Counter

import pytest
import torch

from agents.engines.engine import BackendError, GenerationRequest, Sampling
from agents.engines.hf_transformers import TransformersGenerator
from agents.engines.settings import BackendSettings, OpenAISettings
from tests.agents.completions_server import generator, texts, write
from tests.agents.supporters import server as s
from tests.agents.tiny import character_model, character_tokenizer


def test_each_sample_is_one_seeded_request_with_the_request_s_own_sampling():
    own = Sampling(temperature=0.5, top_k=7, max_new_tokens=9, max_function_tokens=99)
    requests = [
        GenerationRequest("a =", 3, seed=5),
        GenerationRequest("def f():", 1, stop="function", sampling=own),
        GenerationRequest("", 2, written=("1\n", "2\n")),
    ]
    with s.serve(write(" 1", tokens=4)) as server:
        found = generator(server.base_url).generate(requests)
    assert texts(found) == [[" 1\n"] * 3, [" 1\n"], ["1\n", "2\n"]]
    assert [c.tokens for row in found for c in row] == [4, 4, 4, 4, 0, 0]
    assert all(c.finished for row in found for c in row)
    bodies = [r.body for r in server.requests]
    assert len(bodies) == 4
    lines = [b for b in bodies if b["prompt"] == "a ="]
    assert len({b["seed"] for b in lines}) == 3
    assert all(b["stop"] == ["\n", "#"] and b["max_tokens"] == 48 and b["top_k"] == 40 for b in lines)
    (function,) = (b for b in bodies if b["prompt"] == "def f():")
    assert (function["temperature"], function["top_k"], function["max_tokens"]) == (0.5, 7, 99)
    assert "#" not in function["stop"]
    with s.serve(write(" 1")) as again:
        generator(again.base_url).generate(requests[:1])
    assert {r.body["seed"] for r in again.requests} == {b["seed"] for b in lines}


def test_a_strict_server_is_sent_no_extensions():
    with s.serve(write("1")) as server:
        generator(server.base_url, extensions=False, extra={"user": "me"}).generate(
            [GenerationRequest("a", 1)]
        )
    assert "top_k" not in server.requests[0].body
    assert server.requests[0].body["user"] == "me"


def test_texts_are_cut_at_their_end():
    with s.serve(write(" 1\nb = 2", "length")) as server:
        (row,) = generator(server.base_url).generate([GenerationRequest("a =", 1)])
    assert (row[0].text, row[0].finished) == (" 1\n", True)
    with s.serve(write(" 1 +", "length")) as server:
        (row,) = generator(server.base_url).generate([GenerationRequest("a =", 1)])
    assert (row[0].text, row[0].finished) == (" 1 +", False)
    with s.serve(write("\n    return 1\n\nx = 1")) as server:
        (row,) = generator(server.base_url).generate([GenerationRequest("def f():", 1, stop="function")])
    assert (row[0].text, row[0].finished) == ("\n    return 1\n\n", True)


def test_copies_are_drawn_again_with_other_seeds_up_to_a_bound():
    with s.serve(write(" 50"), write(" 50"), write(" 7")) as server:
        (row,) = generator(server.base_url, concurrency=1).generate(
            [GenerationRequest("a =", 1, avoid=" 50")]
        )
    assert (row[0].text, row[0].tokens) == (" 7\n", 9)
    assert len({r.body["seed"] for r in server.requests}) == 3
    with s.serve(write(" 50")) as server:
        (row,) = generator(server.base_url, redraws=2).generate([GenerationRequest("a =", 2, avoid=" 50")])
    assert [c.text for c in row] == [" 50\n"] * 2
    assert len(server.requests) == 2 * 3


class Character:
    """A server around the six-character model, with log-probabilities in the form of vLLM or of llama.cpp."""

    def __init__(self, form, shown=6):
        self.form, self.shown = form, shown
        self.model, self.tokenizer = character_model(3), character_tokenizer()

    def __call__(self, received, send):
        body = received.body
        with torch.no_grad():
            logits = self.model(input_ids=torch.tensor([body["prompt"]])).logits[0, -1]
        if "logprobs" in body:
            top = logits.log_softmax(-1).topk(self.shown)
            found = dict(zip(top.indices.tolist(), top.values.tolist(), strict=True))
            vllm = {"top_logprobs": [{f"token_id:{t}": v for t, v in found.items()}]}
            llama = {"content": [{"top_logprobs": [{"id": t, "logprob": v} for t, v in found.items()]}]}
            send_text = write("?", "length", logprobs=vllm if self.form == "vllm" else llama)
        else:
            for token, bias in body.get("logit_bias", {}).items():
                logits[int(token)] += bias
            weights, ids = (logits / body["temperature"]).topk(body["top_k"])
            source = torch.Generator().manual_seed(body["seed"])
            token = ids[torch.multinomial(weights.softmax(-1), 1, generator=source)]
            text = self.tokenizer.decode(token, skip_special_tokens=True)
            # One token is all it ever writes: enough to tell distributions apart.
            send_text = write(
                "" if text == "\n" else text, "stop" if text in ("\n", "") else "length", tokens=1
            )
        send_text(received, send)


@pytest.mark.parametrize("form", ["vllm", "llama.cpp"])
def test_scored_samples_leave_their_parent_as_those_of_transformers_do(form):
    sampling = Sampling(temperature=0.9, top_k=4, max_new_tokens=2)
    request = GenerationRequest("ca", 300, avoid="abca", seed=3)
    with s.serve(Character(form)) as server:
        backend = generator(
            server.base_url, character_tokenizer(), sampling=sampling, non_copy="scored", concurrency=8
        )
        (row,) = backend.generate([request])
        asked = [r.body for r in server.requests]
    local = TransformersGenerator(character_model(3), character_tokenizer(), sampling)
    (expected,) = local.generate([request])
    # The place of leaving and the first token come from the same numbers; the rest from the server's.
    begins = [_begin(c.text, "abca") for c in row]
    assert begins == [_begin(c.text, "abca") for c in expected]
    assert not any(c.text.rstrip("\n") == "abca" and c.finished for c in row)
    assert sum("logprobs" in body for body in asked) == 5
    assert not any("#" in c.text for c in row)
    one, two = (Counter(c.text for c in r) for r in (row, expected))
    assert (
        sum((one - two).values()) < 60
    )  # the two draws of the last token differ, their distributions do not


def _begin(text, parent):
    kept = next(
        (i for i, (a, b) in enumerate(zip(text, parent, strict=False)) if a != b), min(len(text), len(parent))
    )
    return text[: kept + 1]


def test_a_server_without_token_ids_is_told_from_one_that_fails():
    words = {"top_logprobs": [{" 1": -0.1, " 2": -3.0}]}
    with s.serve(write("?", logprobs=words)) as server:
        backend = generator(server.base_url, character_tokenizer(), non_copy="scored")
        with pytest.raises(BackendError, match="non_copy: redraw"):
            backend.generate([GenerationRequest("ca", 1, avoid="ab")])


def test_completions_are_handed_over_in_the_callers_thread():
    threads = set()
    with s.serve(write(" 1")) as server:
        generator(server.base_url).stream(
            [GenerationRequest("a", 6)], lambda *_: threads.add(threading.current_thread())
        )
    assert threads == {threading.current_thread()}


def test_settings_that_make_no_sense_are_refused():
    with pytest.raises(ValueError, match=r"openai\.model"):
        BackendSettings("openai")
    with pytest.raises(ValueError, match="tokenizer"):
        BackendSettings("openai", openai=OpenAISettings(model="m", non_copy="scored"))
    with pytest.raises(ValueError, match="credentials"):
        OpenAISettings("http://me:secret@host/v1")
    with pytest.raises(ValueError):
        OpenAISettings(concurrency=0)
