"""Proposals become completions: by the engine where a model is to write, and at once where none is."""

from functools import partial

import pytest

from atlas_gym.agents.engines.engine import Completion
from atlas_gym.agents.population.candidate import Proposal
from atlas_gym.trainers.data.rollouts import write, write_at_once


class Echo:
    def stream(self, requests, on_completion):
        for index, request in enumerate(requests):
            for sample in range(request.n):
                on_completion(index, sample, Completion(f"{request.prompt} {sample}", 3))


def written(generator, proposals):
    found = []
    for writing in (write_at_once, partial(write, generator)):
        writing(proposals, lambda index, sample, done: found.append((index, sample, done)))
    return found


def test_each_completion_reaches_its_own_proposal():
    proposals = [Proposal("a"), Proposal("", 2, texts=("1", "2", "3")), Proposal("b", 2)]
    assert written(Echo, proposals) == [
        (1, 0, Completion("1", 0)), (1, 1, Completion("2", 0)), (0, 0, Completion("a 0", 3)),
        (2, 0, Completion("b 0", 3)), (2, 1, Completion("b 1", 3)),
    ]  # fmt: skip


def test_no_engine_is_served_where_no_model_is_to_write():
    def never():
        pytest.fail("asked for an engine")

    assert len(written(never, [Proposal("", 2, texts=("1", "2"))])) == 2
