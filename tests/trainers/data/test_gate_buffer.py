from collections import Counter
from dataclasses import replace

import numpy as np
import pytest

from tests.trainers.samples import RECORD
from trainers.data.gate_buffer import set_apart, worth
from trainers.data.pairs import ScoredCompletion


def completion(i, prompt, score, task=0):
    return ScoredCompletion(
        i, prompt, f" {i}\n", "ok" if score is not None else "error", score, -0.2, task=task
    )


BUFFER = [completion(10 * p + k, f"p{p}", -0.1 * k if k < 2 else None) for p in range(12) for k in range(3)]


def draw(prompts=8, seed=0, buffer=BUFFER):
    return set_apart(buffer, prompts, np.random.default_rng(seed))


def test_what_is_set_apart_is_in_no_pair():
    rest, gate = draw()
    assert len(gate) == 3  # a quarter of twelve prompts
    assert not {c.prompt for c in rest} & {c.prompt for c in gate}
    assert len(rest) == 9 * 3
    assert all(c.value == max(o.value for o in BUFFER if o.prompt == c.prompt) for c in gate)
    assert len(draw(prompts=2)[1]) == 2


def test_every_prompt_is_as_likely_to_be_set_apart():
    drawn = Counter(c.prompt for seed in range(400) for c in draw(seed=seed)[1])
    assert len(drawn) == 12
    assert all(60 < count < 145 for count in drawn.values())  # 100 expected, sd 9


def test_prompts_of_an_earlier_task_or_without_an_answer_are_not_drawn():
    now = [completion(1000 + p, f"now {p}", -0.1, task=5) for p in range(8)]
    silent = [completion(2000, "silent", None, task=5)]
    _, gate = draw(buffer=BUFFER + now + silent)
    assert len(gate) == 2
    assert all(c.task == 5 and c.passed for c in gate)


def test_too_few_prompts_are_not_set_apart():
    assert draw(buffer=BUFFER[:12]) == (BUFFER[:12], [])
    assert draw(buffer=[]) == ([], [])


def answer(score, status="ok", **metrics):
    return replace(
        RECORD, score=score, status=status, parent_score=-0.2, metrics={"normalized_score": 0.6} | metrics
    )


@pytest.mark.parametrize(("kind", "expected"), [("gain", 0.07 / 4), ("best_of_n", 0.05), ("quality", 0.45)])
def test_a_failure_and_a_harm_gain_nothing_and_a_large_gain_is_clipped(kind, expected):
    group = [answer(None, "error"), answer(-0.9), answer(-0.18), answer(0.5)]
    assert worth(group, kind, 0.05) == pytest.approx(expected)
