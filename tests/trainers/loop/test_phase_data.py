"""A phase's buffer is the whole run while it is small, and a fair draw of its prompts when it is not; what is set
apart for the gate is in no pair."""

from collections import Counter
from dataclasses import replace

import numpy as np
import pytest

import atlas_gym.trainers.loop.phase_data
from atlas_gym.agents.engines.engine import Sampling
from atlas_gym.trainers.data.settings import PairSettings
from atlas_gym.trainers.dpo.settings import GateSettings
from atlas_gym.trainers.loop.config import load_config
from atlas_gym.trainers.loop.phase_data import PhaseData, answers, draw_gate_prompts, writable
from atlas_gym.trainers.store.store import RunStore
from tests.agents.constants import with_constants
from tests.tiny_model import byte_tokenizer
from tests.trainers.samples import PROPOSAL, RECORD, parts

ROUNDS, ISLANDS, SAMPLES = 6, 2, 3


@pytest.fixture
def store(tmp_path):
    with RunStore(tmp_path) as store:
        for round_ in range(1, ROUNDS + 1):
            prompts = [replace(PROPOSAL, island=i, prompt=f"prompt {round_} {i}") for i in range(ISLANDS)]
            records = [
                replace(
                    RECORD, id=(round_ * ISLANDS + i) * SAMPLES + j, round=round_, island=i,
                    prompt=prompts[i].prompt, program_key=f"{round_} {i} {j}",
                )
                for i in range(ISLANDS)
                for j in range(SAMPLES)
            ]  # fmt: skip
            store.add_round(round_, records, {}, prompts)
        yield store


def pool(store, limit, seed=0, last=ROUNDS):
    return answers(store, last, limit, np.random.default_rng(seed))


def test_a_small_run_is_taken_whole_and_in_order(store):
    everything = list(store.candidates())
    assert pool(store, 100) == everything
    assert pool(store, ROUNDS * ISLANDS) == everything
    assert pool(store, 100, last=2) == everything[: 2 * ISLANDS * SAMPLES]


def test_of_a_long_run_whole_prompts_are_drawn(store):
    found = pool(store, 4)
    assert set(Counter(c.prompt for c in found).values()) == {SAMPLES}
    assert len(found) == 4 * SAMPLES
    assert [c.id for c in found] == sorted(c.id for c in found)
    assert found == pool(store, 4)


def test_every_prompt_is_as_likely(store):
    drawn = Counter(c.prompt for seed in range(300) for c in pool(store, 3, seed))
    assert len(drawn) == ROUNDS * ISLANDS
    expected = 300 * 3 * SAMPLES / (ROUNDS * ISLANDS)
    assert all(abs(count - expected) < 6 * expected**0.5 * SAMPLES**0.5 for count in drawn.values())


def test_what_the_policy_may_not_write_is_left_out():
    texts = [" 10\n", " 1234567\n", "\n    a\n    b\n", "\n    a = 1\n    return a\n"]
    completions = [replace(RECORD, completion=text) for text in texts]
    kept = writable(completions, byte_tokenizer(), Sampling(max_new_tokens=5, max_function_tokens=14), 1024)
    assert [completion.completion for completion in kept] == [texts[0], texts[2]]


def test_what_no_phase_can_train_on_is_left_out():
    answers = [replace(RECORD, prompt=prompt, completion=" 10\n") for prompt in ("x" * 36, "x" * 37)]
    longest = max(len(byte_tokenizer()(answer.prompt + answer.completion)["input_ids"]) for answer in answers)
    assert writable(answers, byte_tokenizer(), Sampling(), longest) == answers
    assert writable(answers, byte_tokenizer(), Sampling(), longest - 1) == answers[:1]


def answer(i, prompt, score):
    return replace(RECORD, id=i, prompt=prompt, score=score, status="ok" if score is not None else "error")


BUFFER = [answer(10 * p + k, f"p{p}", -0.1 * k if k < 2 else None) for p in range(12) for k in range(3)]


def gate(prompts=8, seed=0, buffer=BUFFER, share=0.25):
    settings = with_constants(GateSettings, prompts=prompts, stop_prompts=1, share=share)
    return draw_gate_prompts(buffer, settings, np.random.default_rng(seed))


def test_the_gate_has_a_share_of_the_prompts():
    found = gate()
    assert len(found) == len(set(found)) == 3
    assert len(gate(prompts=1)) == 2  # and the one that ends the training
    assert len(gate(share=0.5)) == 6


def test_every_prompt_is_as_likely_to_be_set_apart():
    drawn = Counter(prompt for seed in range(400) for prompt in gate(seed=seed))
    assert len(drawn) == 12
    assert all(60 < count < 145 for count in drawn.values())  # 100 expected, sd 9


def test_of_too_few_prompts_none_is_set_apart():
    assert gate(buffer=BUFFER[:12]) == gate(buffer=[]) == []


def phase_data(store, monkeypatch, **settings):
    monkeypatch.setattr(atlas_gym.trainers.loop.phase_data, "writable", lambda records, *_: records)
    return PhaseData(parts(load_config(None, {"seed": 3, **settings}), store), tokenizer=None)


def test_what_is_set_apart_is_in_no_buffer(store, monkeypatch):
    data = phase_data(store, monkeypatch, rounds=100, phase_every=ROUNDS)
    buffer, gate = data.buffer(1, data.gate_prompts(1))
    assert len(gate) == 3
    assert len(buffer) == (ROUNDS * ISLANDS - 3) * SAMPLES
    assert not {record.prompt for record in buffer} & {record.prompt for record in gate}


def test_the_gate_has_the_best_answer_to_each_prompt(store, monkeypatch):
    prompts = [f"new {i}" for i in range(9)]
    asked = [replace(PROPOSAL, island=0, prompt=prompt) for prompt in prompts]
    records = [
        replace(record, id=7000 + i, round=20, island=0)
        for i, record in enumerate(
            answer(k, prompt, -0.1 * k if k else None) for prompt in prompts for k in (2, 0, 1)
        )
    ]
    store.add_round(20, records, {}, asked)
    _, gate = phase_data(store, monkeypatch, phase_every=20).buffer(1, ["new 3", "new 7"])
    assert [(record.prompt, record.score) for record in gate] == [("new 3", -0.1), ("new 7", -0.1)]


def failed_rounds(store):
    """Ten prompts more, to which no answer passed."""
    for round_ in range(20, 30):
        proposal = replace(PROPOSAL, island=0, prompt=f"silent {round_}")
        record = replace(answer(round_ * 100, proposal.prompt, None), round=round_, island=0)
        store.add_round(round_, [record], {}, [proposal])


def test_prompts_without_an_answer_that_passed_are_set_apart_only_for_an_exam(store, monkeypatch):
    failed_rounds(store)
    layout = {"rounds": 200, "phase_every": 29}
    usual = phase_data(store, monkeypatch, **layout)
    exam = phase_data(store, monkeypatch, gate_score="likelihood", **layout)
    assert len(usual.gate_prompts(1)) == 12 // 4
    assert not any(prompt.startswith("silent") for prompt in usual.gate_prompts(1))
    assert len(exam.gate_prompts(1)) == 22 // 4
    assert any(prompt.startswith("silent") for number in range(1, 5) for prompt in exam.gate_prompts(number))


def test_known_answers_are_those_that_improve_each_once(store, monkeypatch):
    texts = [(" 1\n", 0.5), (" 1\n", 0.5), (" 2\n", -0.24), (" 3\n", -0.2495), (" 4\n", -0.3), (" 5\n", None)]
    records = [
        replace(answer(9000 + i, "new", score), round=20, island=0, completion=text)
        for i, (text, score) in enumerate(texts)
    ]
    store.add_round(20, records, {}, [replace(PROPOSAL, island=0, prompt="new")])
    data = phase_data(store, monkeypatch, gate_score="likelihood", phase_every=20)
    known = data.known(1, ["new", "prompt 1 0", "nobody's"])
    assert known["new"] == [
        (" 1\n", 0.05),
        (" 2\n", pytest.approx(0.01)),
    ]  # the parent has -0.25, the limit is 0.05
    assert known["prompt 1 0"] == [(" 10\n", 0.05)]
    assert "nobody's" not in known


def test_what_the_policy_wrote_before_a_skipped_phase_is_its_own(store, monkeypatch):
    seen = {}
    monkeypatch.setattr(
        atlas_gym.trainers.loop.phase_data, "build_pairs", lambda *_, **given: seen.update(given) or []
    )
    store.add_phase(1, 2, True, {"phase": 1, "round": 2}, ())
    store.add_phase(2, 4, False, {"phase": 2, "round": 4, "skipped": "idle"}, ())
    data = phase_data(store, monkeypatch)
    data.pairs(3, [], PairSettings())
    assert seen["fresh_from"] == data.config.exploration.candidate_id(3, 0, 0)
