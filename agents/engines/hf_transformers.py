"""Text from any Hugging Face causal language model, many samples of few prompts at a time.

Samples do not get a copy of their prompt's key/value cache each. They share one sequence: every
decoding step appends one token per sample to that sequence, and the attention mask lets a sample see its prompt
and its own tokens only, at restarted positions. Prompts that begin alike, as those for the edit sites of one
program do, are branches of the same sequence (`agents.models.token_trie`). The cache then holds each
beginning once, which on a CPU is what decides the speed. For non-copy decoding the parent's line is part of
the shared sequence too: a sample that follows it for j tokens sees j of them and needs no steps for them.
Samples leave as they finish.

This asks for attention over explicit positions with an explicit mask (SDPA or eager attention, rotary or
learned positions); recurrent models and flash attention are not supported.
"""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch

from atlas_gym.agents.engines.decoding import SampleBatch
from atlas_gym.agents.engines.engine import Engine, OnCompletion, Request, Sampling
from atlas_gym.agents.engines.sampling import Sampler
from atlas_gym.agents.models.layers import packed_weights
from atlas_gym.agents.models.policy import Policy
from atlas_gym.agents.models.token_trie import families
from atlas_gym.agents.models.tokens import encode_prompt
from atlas_gym.agents.models.tree_attention import use_tree_attention


class TransformersEngine(Engine):
    """An engine on a model that is in memory and in inference mode.

    Args:
        model: the weights, `policy.base` if there is a policy.
        tokenizer: theirs.
        sampling: how tokens are drawn.
        policy: whose adapters are merged into the weights while they are served; None for weights that are never tuned.
        max_samples: how many samples are decoded at the same time, at most.
    """

    def __init__(
        self,
        model: Any,
        tokenizer: Any,
        sampling: Sampling | None = None,
        *,
        policy: Policy | None = None,
        max_samples: int = 64,
    ):
        use_tree_attention(model)
        self.model = model
        self.tokenizer = tokenizer
        self.sampling = sampling or Sampling()
        self._policy = policy
        self._max_samples = max_samples
        self._sampler = Sampler(tokenizer, model.get_output_embeddings().weight.shape[0], self.sampling)

    @contextmanager
    def serving(self, adapter: str) -> Iterator[Engine]:
        if self._policy is None:
            yield self
            return
        with self._policy.merged(adapter) as model, packed_weights(model):
            yield self

    def stream(self, requests: Sequence[Request], on_completion: OnCompletion) -> None:
        prompts = [encode_prompt(self.tokenizer, request.prompt) for request in requests]
        for chunk in self._chunks(requests, prompts):
            samples = [
                [s for i in group for s in self._sampler.begin(i, requests[i], prompts[i])] for group in chunk
            ]
            with torch.inference_mode():
                batch = SampleBatch(self.model, self._sampler.vocabulary, self.sampling, samples)
                advanced = batch.prefill()
                while True:
                    for sample in advanced:
                        completion = self._sampler.completion(sample)
                        if completion is not None:
                            batch.retire(sample)
                            on_completion(sample.request, sample.index, completion)
                    if not batch.active:
                        break
                    advanced = batch.step()

    def _chunks(
        self, requests: Sequence[Request], prompts: Sequence[Sequence[int]]
    ) -> Iterator[list[list[int]]]:
        """Indices of requests to be decoded together, by sequence: alike in what is banned, within the limit.

        Every step of decoding is as wide for all sequences as for the one with most samples, so the limit is on
        sequences times samples."""
        kinds: defaultdict[str, list[int]] = defaultdict(list)
        for index, request in enumerate(requests):
            kinds[self.sampling.banned(request.stop)].append(index)
        for kind in kinds.values():
            chunk: list[list[int]] = []
            for group in self._sequences(kind, requests, prompts):
                widest = max(_samples(requests, member) for member in (*chunk, group))
                if chunk and (len(chunk) + 1) * widest > self._max_samples:
                    yield chunk
                    chunk = []
                chunk.append(group)
            yield chunk

    def _sequences(
        self, kind: Sequence[int], requests: Sequence[Request], prompts: Sequence[Sequence[int]]
    ) -> list[list[int]]:
        """Requests whose prompts begin alike; alike in number of samples and in length first."""
        found: list[list[int]] = []
        for family in families([prompts[index] for index in kind]):
            found.append([])
            for index in (kind[member] for member in family):
                if found[-1] and _samples(requests, [*found[-1], index]) > self._max_samples:
                    found.append([])
                found[-1].append(index)
        return sorted(found, key=lambda group: (_samples(requests, group), len(prompts[group[-1]])))


def _samples(requests: Sequence[Request], group: Sequence[int]) -> int:
    """How many samples a sequence has."""
    return sum(requests[index].n for index in group)
