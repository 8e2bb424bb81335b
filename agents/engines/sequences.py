"""Forced prefixes, for engines that continue lists of tokens and know nothing of parents.

Such an engine (vLLM, a server) does non-copy decoding in two steps. It first shows the model's distribution
along the parent's text; from that, and from uniform numbers of the request's own stream, `token_sampling`
decides for each sample what it keeps of its parent and its first own token, exactly as for transformers. What
it then continues is a forced prefix: prompt, kept tokens, first token. The prompt's cache is shared by all.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from agents.engines import token_sampling
from agents.engines.engine import Completion, Request, Sampling, cut, goes_on
from agents.models.tokens import Vocabulary, encode_continuation, encode_prompt
from atlas_gym.seeding import torch_seed

Scores = Sequence[Mapping[int, float]]
"""Log-probabilities of the likeliest tokens along a parent's text, one mapping per place, its end included."""


def sample_seed(request: Request, sample: int, draw: int = 0) -> int:
    """Seed of one sample's own tokens; servers take 31 bits."""
    return torch_seed(request.seed, "sample", sample, draw) % 2**31


@dataclass(frozen=True)
class PrefixedSample:
    """A sample whose beginning is decided."""

    request: int
    """Index of the request it belongs to."""
    sample: int
    """Index of the sample within the request."""
    prompt: list[int]
    """The prompt's tokens."""
    begun: list[int]
    """Tokens of the completion so far: kept from the parent, then the first of its own; empty if nothing is
    forced."""
    drawn: int
    """How many of `begun` the model drew: 1, or 0."""
    seed: int
    """Seed of the rest."""
    limit: int
    """Most tokens of the rest."""


class PrefixBuilder:
    """Turns requests into samples, and an engine's tokens into completions."""

    def __init__(self, tokenizer: Any, size: int, sampling: Sampling) -> None:
        """`size`: width of the model's logits. `sampling`: for requests that have none of their own."""
        self.tokenizer = tokenizer
        self.sampling = sampling
        self.vocabulary = Vocabulary(tokenizer, size)
        self._size = size

    def of(self, request: Request) -> Sampling:
        """How a request's tokens are drawn."""
        return request.sampling or self.sampling

    def limit(self, request: Request) -> int:
        """Most tokens that a sample of the request may draw."""
        return self.of(request).limit(request.stop)

    def banned(self, request: Request) -> list[int]:
        """Token ids that are never drawn for the request."""
        text = self.of(request).banned(request.stop)
        return self.vocabulary.banned(text).nonzero().flatten().tolist() if text else []

    def prompt(self, request: Request) -> list[int]:
        """The prompt's tokens."""
        return encode_prompt(self.tokenizer, request.prompt)

    def parent(self, request: Request) -> list[int] | None:
        """Tokens along which the model's distribution is wanted, None if the request needs none."""
        if request.avoid is None or (not request.avoid and not goes_on(request.stop)):
            return None
        return encode_continuation(self.tokenizer, request.avoid)

    def samples(self, index: int, request: Request, scores: Scores | None) -> list[PrefixedSample]:
        """The request's samples; `scores` along its parent's tokens if it has any."""
        prompt, limit = self.prompt(request), self.limit(request)
        parent = self.parent(request)
        begun: list[list[int]] = [[] for _ in range(request.n)]
        if parent is not None:
            if scores is None:
                raise ValueError("a request with a text to avoid needs the scores along it")
            begun = [[*parent[:place], token] for place, token in self._leaves(request, parent, scores)]
        return [
            PrefixedSample(
                index,
                sample,
                prompt,
                tokens,
                bool(tokens),
                sample_seed(request, sample),
                limit - bool(tokens),
            )
            for sample, tokens in enumerate(begun)
        ]

    def _leaves(self, request: Request, parent: list[int], scores: Scores) -> list[tuple[int, int]]:
        source = torch.Generator().manual_seed(request.seed)
        # The same numbers as those of agents.engines.hf_transformers: equal models leave at equal places.
        uniforms = torch.rand(request.n, self.limit(request) + 1, generator=source, dtype=torch.float64)
        logits = torch.full((len(parent) + 1, self._size), float("-inf"))
        for row, found in zip(logits, scores, strict=True):
            tokens = list(found)
            row[tokens] = torch.tensor([found[token] for token in tokens])
        logits[:, self.banned(request)] = float("-inf")
        return token_sampling.deviate(
            logits, parent, request.stop, self.vocabulary.line_end, self.of(request), uniforms[:, :2].tolist()
        )

    def finished(self, prefixed: PrefixedSample, request: Request) -> Completion | None:
        """The completion, if what is begun has reached its end already."""
        if not prefixed.begun:
            return None
        text, ended = self.text(prefixed, request, [])
        ended = ended or bool(self.vocabulary.end[prefixed.begun[-1]])
        return Completion(text, prefixed.drawn, ended) if ended or prefixed.limit == 0 else None

    def text(self, prefixed: PrefixedSample, request: Request, rest: Sequence[int]) -> tuple[str, bool]:
        """Text with these further tokens, cut at its end, and whether it has reached it."""
        whole = self.tokenizer.decode([*prefixed.begun, *rest], skip_special_tokens=True)
        return cut(whole, request.stop)
