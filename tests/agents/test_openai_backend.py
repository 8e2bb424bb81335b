"""The completions backend against scripted servers: what is sent, what is made of it, and every way to fail."""

import json
import socket
import threading
import time
from collections import Counter

import pytest
import torch

from agents.backend_settings import BackendSettings, OpenAISettings
from agents.completions import CompletionsClient
from agents.crew import Job, run_jobs
from agents.exchange import THREAD
from agents.generation import BackendError, GenerationRequest, Sampling
from agents.openai_backend import OpenAIGenerator
from agents.openai_serving import OpenAIBackend
from agents.policy import POLICY, REFERENCE, LoraSettings, Policy
from agents.transformers_backend import TransformersGenerator
from tests.agents.supporters import server as s
from tests.agents.tiny import character_model, character_tokenizer

QUICK = {"deadline_s": 20.0, "wait_s": 0.0, "pause_s": 0.0, "reply_bytes": 100_000, "concurrency": 4}


def settings(base_url, **options):
    return OpenAISettings(base_url, model="m", **(QUICK | options))


def generator(base_url, tokenizer=None, reload=None, sampling=None, **options):
    client = CompletionsClient(settings(base_url, **options))
    return OpenAIGenerator(client, sampling or Sampling(), tokenizer, reload)


def completion(text, reason="stop", tokens=3, **more):
    choice = {"index": 0, "text": text, "finish_reason": reason, **more}
    return json.dumps({"choices": [choice], "usage": {"completion_tokens": tokens}}).encode()


def write(text, reason="stop", **more):
    return s.respond(completion(text, reason, **more))


def texts(generated):
    return [[c.text for c in row] for row in generated]


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


ENDING = {
    "status 500": (s.respond(b"oops", "500 Internal Server Error"), "HTTP status 500"),
    "status 429": (s.respond(b"{}", "429 Too Many Requests"), "HTTP status 429"),
    "ten megabytes": (s.ten_megabytes, "exceeds 100000 bytes"),
    "endless stream": (s.endless, "exceeds 100000 bytes"),
    "endless headers": (s.endless_headers, "exchange failed"),
    "closes midway": (s.closes_midway, "exchange failed"),
    "not HTTP": (s.not_http, "exchange failed"),
    "compressed": (s.respond(b"\x1f\x8b", headers="Content-Encoding: gzip\r\n"), "compressed"),
    "HTML": (s.respond(b"<html>busy</html>"), "not a completion"),
    "nested JSON": (s.respond(b"[" * 90_000), "not a completion"),
    "a list": (s.respond(b"[]"), "not a completion"),
    "no choices": (s.respond(b'{"choices": []}'), "not a completion"),
    "a choice of the wrong type": (s.respond(b'{"choices": [7]}'), "not a completion"),
    "text null": (s.respond(b'{"choices": [{"text": null}]}'), "no text"),
    "chat instead": (s.say("hello"), "not a completion"),
}  # fmt: skip


@pytest.mark.parametrize("name", ENDING)
def test_a_broken_server_ends_the_run_with_what_to_do(name):
    behaviour, reason = ENDING[name]
    with s.serve(behaviour) as server:
        with pytest.raises(BackendError, match="resume the run") as raised:
            generator(server.base_url).generate([GenerationRequest("a", 8)])
        assert reason in str(raised.value)
        assert _calls_end()


@pytest.mark.parametrize("stalling", [s.silence, s.drip_headers, s.drip_body, s.endless_chunks])
def test_a_stalling_server_is_left_at_the_deadline(stalling):
    with s.serve(stalling) as server:
        with pytest.raises(BackendError, match="no complete reply within"):
            generator(server.base_url, deadline_s=0.3).generate([GenerationRequest("a", 2)])
        assert _calls_end()


def test_an_outage_is_waited_for():
    down = s.respond(b"", "503 Service Unavailable")
    with s.serve(*[down] * 9, write(" 1")) as server:
        (row,) = generator(server.base_url, wait_s=60.0, attempts=2).generate([GenerationRequest("a", 3)])
    assert [c.text for c in row] == [" 1\n"] * 3


def test_an_unreachable_server_ends_the_run_when_patience_does():
    with socket.socket() as taken:  # bound, not listening: connections are refused
        taken.bind(("127.0.0.1", 0))
        address = f"http://127.0.0.1:{taken.getsockname()[1]}/v1"
        with pytest.raises(BackendError, match="cannot be reached"):
            generator(address, wait_s=0.2, pause_s=0.05).generate([GenerationRequest("a", 1)])


def test_one_sample_that_keeps_failing_is_given_up_while_others_are_written():
    seeds = set()

    def moody(received, send):
        seed = received.body.get("seed")  # the question whether the server is alive has none
        seeds.add(seed)
        unlucky = seed is not None and seed == first[0]
        (s.respond(b"", "500 Internal Server Error") if unlucky else write(" 1"))(received, send)

    first = [None]
    request = GenerationRequest("a", 4)
    with s.serve(moody) as server:
        generator(server.base_url, concurrency=1).generate([request])
        first[0] = sorted(seeds)[0]
        backend = generator(server.base_url, wait_s=60.0, attempts=3, concurrency=2)
        (row,) = backend.generate([request])
    assert sorted(c.text for c in row) == ["", " 1\n", " 1\n", " 1\n"]
    assert [c.finished for c in row].count(False) == 1
    assert backend.given_up == 1


def test_requests_that_the_server_calls_wrong():
    def picky(received, send):
        long = len(received.body["prompt"]) > 10
        (s.respond(b"{}", "400 Bad Request") if long else write(" 1"))(received, send)

    with s.serve(picky) as server:
        backend = generator(server.base_url, wait_s=60.0)
        found = backend.generate([GenerationRequest("a", 1), GenerationRequest("a" * 50, 2)])
        assert texts(found) == [[" 1\n"], ["", ""]]
        with pytest.raises(BackendError, match="refused all of 2 requests"):
            backend.generate([GenerationRequest("a" * 50, 2)])


@pytest.mark.parametrize(("status", "help"), [("401 Unauthorized", "api_key_env"), ("404 Not Found", "'m'")])
def test_a_wrong_address_or_key_is_an_error_at_once(status, help):
    with s.serve(s.respond(b"{}", status)) as server:
        with pytest.raises(BackendError, match=help):
            generator(server.base_url, wait_s=3600.0, concurrency=1).generate([GenerationRequest("a", 4)])
        assert len(server.requests) == 1


def test_the_key_is_sent_and_appears_nowhere_else(monkeypatch, caplog):
    monkeypatch.setenv("GENERATION_TEST_KEY", "sk-very-secret")

    def echo(received, send):
        write(received.headers["authorization"])(received, send)

    with s.serve(echo) as server:
        (row,) = generator(server.base_url, api_key_env="GENERATION_TEST_KEY").generate(
            [GenerationRequest("a", 1)]
        )
    assert row[0].text == "Bearer [key]\n"
    assert "sk-very-secret" not in caplog.text
    monkeypatch.delenv("GENERATION_TEST_KEY")
    with s.serve(echo) as server:
        with pytest.raises(BackendError, match="GENERATION_TEST_KEY is not set"):
            generator(server.base_url, api_key_env="GENERATION_TEST_KEY").generate(
                [GenerationRequest("a", 1)]
            )
        assert server.requests == []


def test_completions_are_handed_over_in_the_callers_thread():
    threads = set()
    with s.serve(write(" 1")) as server:
        generator(server.base_url).stream(
            [GenerationRequest("a", 6)], lambda *_: threads.add(threading.current_thread())
        )
    assert threads == {threading.current_thread()}


def test_jobs_never_exceed_their_hands_and_follow_each_other():
    lock, running, most, done = threading.Lock(), [0], [0], []

    def work():
        with lock:
            running[0] += 1
            most[0] = max(most[0], running[0])
        time.sleep(0.005)
        with lock:
            running[0] -= 1
        return "x"

    def then(result, depth):
        done.append(depth)
        return [Job(work, lambda r: then(r, depth - 1))] if depth else []

    run_jobs([Job(work, lambda r: then(r, 2)) for _ in range(5)], hands=3)
    assert Counter(done) == {2: 5, 1: 5, 0: 5}
    assert most[0] <= 3


def test_settings_that_make_no_sense_are_refused():
    with pytest.raises(ValueError, match=r"openai\.model"):
        BackendSettings("openai")
    with pytest.raises(ValueError, match="tokenizer"):
        BackendSettings("openai", openai=OpenAISettings(model="m", non_copy="scored"))
    with pytest.raises(ValueError, match="credentials"):
        OpenAISettings("http://me:secret@host/v1")
    with pytest.raises(ValueError):
        OpenAISettings(concurrency=0)


def _calls_end():
    """Whether the threads of all calls end soon."""
    until = time.monotonic() + 10
    while any(thread.name == THREAD for thread in threading.enumerate()):
        if time.monotonic() > until:
            return False
        time.sleep(0.02)
    return True


class LoraServer:
    """Answers like a vLLM server: knows the model and the adapters that were loaded, and nothing else."""

    def __init__(self, forgets_after=10**9):
        self.loaded, self.calls, self.asked, self.left = {}, [], [], forgets_after

    def __call__(self, received, send):
        body = received.body
        if "lora_path" in body:
            known = body["lora_name"] in self.loaded
            self.loaded[body["lora_name"]] = body["lora_path"]
            self.calls.append(("load", body["lora_name"]))
            return s.respond(b"{}", "400 Bad Request" if known else "200 OK")(received, send)
        if "lora_name" in body:
            self.calls.append(("unload", body["lora_name"]))
            self.loaded.pop(body["lora_name"], None)
            return s.respond(b"Success")(received, send)
        self.left -= 1
        if self.left == 0:
            self.loaded.clear()  # restarted
        known = body["model"] == "m" or body["model"] in self.loaded
        self.asked.append(body["model"])
        return (write(" 1") if known else s.respond(b"{}", "404 Not Found"))(received, send)


@pytest.fixture(scope="module")
def policy():
    return Policy(character_model(), character_tokenizer(), LoraSettings(rank=2))


def tune(policy, seed):
    source = torch.Generator().manual_seed(seed)
    for name, tensor in policy.tensors(POLICY).items():
        if ".lora_B." in name:
            tensor.data.copy_(torch.randn(tensor.shape, generator=source))


def serving(server, policy, folder, **options):
    lora = settings(server.base_url, lora_loading="vllm", **options)
    return OpenAIBackend(lora, Sampling(), folder, policy, policy.tokenizer)


def test_each_phase_s_adapter_is_loaded_into_the_server_and_the_last_one_unloaded(policy, tmp_path):
    vllm = LoraServer()
    policy.reset(POLICY, 0)
    with s.serve(vllm) as server:
        backend = serving(server, policy, tmp_path)
        names = []
        for phase in range(3):
            if phase:
                tune(policy, phase)
            for adapter in (POLICY, POLICY, REFERENCE):
                with backend.serving(adapter) as generator:
                    generator.generate([GenerationRequest("a", 1)])
            names.append(f"atlas-{policy.digest(POLICY)[:16]}")
        backend.close()
    one, two = names[1:]
    assert vllm.asked == ["m"] * 3 + [one, one, "m", two, two, "m"]
    assert vllm.calls == [("load", one), ("unload", one), ("load", two), ("unload", two)]
    assert (tmp_path / two / "adapter_model.safetensors").exists()


def test_a_restarted_server_gets_its_adapter_back(policy, tmp_path):
    vllm = LoraServer(forgets_after=4)
    tune(policy, 5)
    with s.serve(vllm) as server:
        backend = serving(server, policy, tmp_path)
        with backend.serving(POLICY) as generator:
            (row,) = generator.generate([GenerationRequest("a", 12)])
        backend.close()
    assert [c.text for c in row] == [" 1\n"] * 12


def test_a_server_that_cannot_load_adapters_is_an_error(policy, tmp_path):
    tune(policy, 6)
    with s.serve(s.respond(b"{}", "400 Bad Request")) as server:
        backend = serving(server, policy, tmp_path)
        with pytest.raises(BackendError, match="--enable-lora"), backend.serving(POLICY):
            pass
