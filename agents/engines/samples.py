"""Samples in the making, whichever engine continues them: what each has kept of its parent and drawn, and when it ends.

Non-copy decoding takes two steps. An engine first shows the model's distribution along the parent's text; from that,
and from uniform numbers of the request's own stream, `token_sampling` decides for each sample what it keeps of its
parent and its first own token. From there the engine continues: transformers in a batch of its own
(`agents.engines.batch_decoding`), vLLM, which knows nothing of parents, from a forced prefix of prompt, kept tokens and
first token.
"""

from dataclasses import dataclass, field
from typing import Any

import torch

from atlas_gym.agents.engines.engine import Completion, Request, Sampling, Stop, cut
from atlas_gym.agents.models.tokens import Vocabulary, encode_continuation
from atlas_gym.seeding import torch_seed


def sample_seed(request: Request, sample: int, draw: int = 0) -> int:
    """Seed of one sample's own tokens; servers take 31 bits."""
    return torch_seed(request.seed, "sample", sample, draw) % 2**31


@dataclass(eq=False)
class Sample:
    """One sample in the making."""

    request: int
    """Index of the request it belongs to."""
    index: int
    """Its index within the request."""
    prompt: list[int]
    """The prompt's tokens, shared by the request's samples."""
    parent: list[int] | None
    """Tokens of the text that must not be repeated, None if there is none to follow."""
    stop: Stop
    """Where the completion ends."""
    limit: int
    """Most tokens to draw."""
    uniforms: list[float]
    """Uniform numbers: one for the deviation's position, then one for each token drawn."""
    followed: int = 0
    """How many of the parent's tokens it keeps before it deviates."""
    drawn: list[int] = field(default_factory=list)
    """Tokens drawn so far."""

    @property
    def begun(self) -> list[int]:
        """Tokens of the completion so far: kept from the parent, then drawn."""
        return (self.parent or [])[: self.followed] + self.drawn

    @property
    def position(self) -> int:
        """Position of the last drawn token in the text this sample sees."""
        return len(self.prompt) + self.followed + len(self.drawn) - 1

    @property
    def uniform(self) -> float:
        """The uniform number of the next token."""
        return self.uniforms[len(self.drawn) + 1]

    def text(self, tokenizer: Any) -> tuple[str, bool]:
        """Completion up to its end, and whether that end has been reached."""
        return cut(tokenizer.decode(self.begun, skip_special_tokens=True), self.stop)


class Sampler:
    """Begins the samples of requests, and tells which are complete."""

    def __init__(self, tokenizer: Any, size: int, sampling: Sampling) -> None:
        """`size`: width of the model's logits."""
        self.tokenizer = tokenizer
        self.sampling = sampling
        self.vocabulary = Vocabulary(tokenizer, size)

    def begin(self, index: int, request: Request, prompt: list[int]) -> list[Sample]:
        """The samples of the request with this index, of which nothing is drawn yet."""
        limit = self.sampling.limit(request.stop)
        # One row per sample: a number for the deviation's position, then one for each token.
        source = torch.Generator().manual_seed(request.seed)
        uniforms = torch.rand(request.n, limit + 1, generator=source, dtype=torch.float64)
        parent = None
        if request.avoid is not None and (request.avoid or request.stop == "line"):
            parent = encode_continuation(self.tokenizer, request.avoid)
        return [
            Sample(index, sample, prompt, parent, request.stop, limit, uniforms[sample].tolist())
            for sample in range(request.n)
        ]

    def completion(self, sample: Sample) -> Completion | None:
        """A sample that has drawn something, if it has reached its end or its limit."""
        text, ended = sample.text(self.tokenizer)
        ended = ended or bool(self.vocabulary.end[sample.drawn[-1]])
        return (
            Completion(text, len(sample.drawn), ended) if ended or len(sample.drawn) >= sample.limit else None
        )
