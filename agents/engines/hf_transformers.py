"""Text from a Hugging Face causal language model in this process, many samples of few prompts at a time.

How they are decoded is in `agents.engines.decoding`. Families and recurrent models whose attention transformers does
not let one choose are not supported.
"""

import math
from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch

from atlas_gym.agents.engines.attention import shared_prompts
from atlas_gym.agents.engines.decoding import Batch
from atlas_gym.agents.engines.engine import Engine, OnCompletion, Request, Sampling
from atlas_gym.agents.engines.sampling import Sample, Sampler
from atlas_gym.agents.engines.slots import Shelf
from atlas_gym.agents.models.layers import packed_weights
from atlas_gym.agents.models.memory import telling_what_helps, token_bytes
from atlas_gym.agents.models.policy import Policy
from atlas_gym.agents.models.token_trie import families
from atlas_gym.agents.models.tokens import encode_prompt

_PROMPT = 1024
"""Tokens of a prompt that a GPU plans for: samples of one prompt share it, so that there is room to spare."""


class TransformersEngine(Engine):
    """An engine on a model that is in memory and in inference mode: `policy.base` if there is a policy, whose adapters
    are then merged while they are served.

    `max_samples` are decoded at a time; by default 64 on a CPU, on a GPU as many as fit into a quarter of its free
    memory, up to 512. `graphs`: whether a step has one of few shapes and is captured as a CUDA graph, as by default on
    a GPU.
    """

    def __init__(
        self,
        model: Any,
        tokenizer: Any,
        sampling: Sampling | None = None,
        *,
        policy: Policy | None = None,
        max_samples: int | None = None,
        graphs: bool | None = None,
    ):
        self.model = model
        self.tokenizer = tokenizer
        self.sampling = sampling or Sampling()
        self._policy = policy
        self._max_samples = max_samples or 64
        self._sampler = Sampler(tokenizer, model.get_output_embeddings().weight.shape[0], self.sampling)
        gpu = model.device.type == "cuda"
        if gpu and not max_samples:
            free, config = torch.cuda.mem_get_info(model.device)[0], model.config.get_text_config().to_dict()
            sample = token_bytes(config, model.dtype.itemsize) * (_PROMPT + self.sampling.max_function_tokens)
            self._max_samples = max(1, min(512, free // (4 * sample)))
        # Rotary positions of these kinds look at the positions, for which the device would be waited for.
        looks = any(
            kind in str(getattr(model.config, "rope_parameters", "")) for kind in ("dynamic", "longrope")
        )
        captured = gpu and graphs is not False and type(model)._can_compile_fullgraph and not looks
        room = torch.cuda.mem_get_info(model.device)[1] / 8 if gpu else math.inf
        self._shelf = Shelf(captured, room) if gpu or graphs else None

    @contextmanager
    def serving(self, adapter: str) -> Iterator[Engine]:
        if self._policy is None:
            yield self
            return
        self._sampler.sampling = self.sampling.of_policy(tuned=not self._policy.is_base(adapter))
        with self._policy.merged(adapter) as model, packed_weights(model):
            yield self

    def stream(self, requests: Sequence[Request], on_completion: OnCompletion) -> None:
        samples = [
            self._sampler.begin(index, request, encode_prompt(self.tokenizer, request.prompt))
            for index, request in enumerate(requests)
        ]
        remedy = "set fewer exploration.samples or exploration.islands, or end what else uses this GPU"
        with telling_what_helps(remedy), torch.inference_mode(), shared_prompts(self.model):
            for chunk in self._chunks(samples):
                batch = Batch(
                    self.model, self._sampler.vocabulary, self._sampler.sampling, chunk, self._shelf
                )
                for advanced in batch.advance():
                    for sample, tokens in advanced:
                        completion = self._sampler.extend(sample, tokens)
                        if completion is not None:
                            batch.retire(sample)
                            on_completion(sample.request, sample.index, completion)

    def _chunks(self, requests: Sequence[list[Sample]]) -> Iterator[list[list[Sample]]]:
        """Samples to be decoded together, by family: alike in where they end, within the limit.

        Every family takes as many rows as the one with most samples, so the limit is on families times samples."""
        kinds: defaultdict[str, list[list[Sample]]] = defaultdict(list)
        for samples in requests:
            kinds[samples[0].stop].append(samples)
        for kind in kinds.values():
            chunk: list[list[Sample]] = []
            for family in self._families(kind):
                if chunk and (len(chunk) + 1) * len(family) > self._max_samples:
                    yield chunk
                    chunk = []
                chunk.append(family)
            yield chunk

    def _families(self, requests: Sequence[list[Sample]]) -> list[list[Sample]]:
        """Samples whose prompts begin alike; first alike in number of samples and in length."""
        found: list[list[Sample]] = []
        for family in families([samples[0].prompt for samples in requests]):
            found.append([])
            for samples in (requests[member] for member in family):
                if found[-1] and len(found[-1]) + len(samples) > self._max_samples:
                    found.append([])
                found[-1] += samples
        return sorted(found, key=lambda family: (len(family), len(family[-1].prompt)))
