"""The pool of pairs is the whole run while it is small, and a fair draw of its prompts when it is not."""

from collections import Counter
from dataclasses import replace

import numpy as np
import pytest

from agents.engines.engine import Sampling
from tests.tiny_model import byte_tokenizer
from tests.trainers.samples import PROPOSAL, RECORD
from trainers.data.pair_pool import pair_pool, scored, writable
from trainers.store.store import RunStore

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
            store.add_unit(round_, 0, records, {}, prompts)
        yield store


def pool(store, limit, seed=0, last=ROUNDS):
    return pair_pool(store, last, limit, np.random.default_rng(seed))


def test_a_small_run_is_taken_whole_and_in_order(store):
    everything = [scored(record, 0, PROPOSAL.avoid) for record in store.candidates()]
    assert pool(store, 100) == everything
    assert pool(store, ROUNDS * ISLANDS) == everything
    assert pool(store, 100, last=2) == everything[: 2 * ISLANDS * SAMPLES]


def test_islands_whose_models_answer_messages_are_left_out(store):
    found = pair_pool(store, ROUNDS, 100, np.random.default_rng(0), without={1: {"diff": 1.0}})
    assert {c.prompt for c in found} == {f"prompt {round_} 0" for round_ in range(1, ROUNDS + 1)}


def test_of_a_long_run_whole_prompts_are_drawn(store):
    found = pool(store, 4)
    assert set(Counter(c.prompt for c in found).values()) == {SAMPLES}
    assert len(found) == 4 * SAMPLES
    assert [c.candidate_id for c in found] == sorted(c.candidate_id for c in found)
    assert found == pool(store, 4)


def test_every_prompt_is_as_likely(store):
    drawn = Counter(c.prompt for seed in range(300) for c in pool(store, 3, seed))
    assert len(drawn) == ROUNDS * ISLANDS
    expected = 300 * 3 * SAMPLES / (ROUNDS * ISLANDS)
    assert all(abs(count - expected) < 6 * expected**0.5 * SAMPLES**0.5 for count in drawn.values())


def test_what_the_policy_may_not_write_is_left_out():
    texts = [" 10\n", " 1234567\n", "\n    a\n    b\n", "\n    a = 1\n    return a\n"]
    completions = [replace(scored(RECORD), completion=text) for text in texts]
    kept = writable(completions, byte_tokenizer(), Sampling(max_new_tokens=5, max_function_tokens=14))
    assert [completion.completion for completion in kept] == [texts[0], texts[2]]
