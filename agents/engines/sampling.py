"""Samples in the making, whichever engine continues them, and how their tokens are drawn.

*Non-copy decoding.* Let r_0 ... r_{J-1} be the tokens of the parent's text and p_j the probability of r_j
after r_0 ... r_{j-1}; p_J is the probability that the line ends after all of them. A line that is not a copy
follows the parent for j tokens and then deviates, which happens with probability q_j = p_0 ... p_{j-1} (1 -
p_j). So drawing j from q (normalised), forcing r_0 ... r_{j-1}, drawing the next token without r_j, and
sampling freely from there is exact sampling from the model given "not a copy", without a single rejected
sample. Mixing q with the uniform distribution over positions reaches places where the model alone would
hardly ever deviate.

An engine first shows the model's distribution along the parent's text; from that `deviate` decides for each sample what
it keeps of its parent and its first own token. From there the engine continues: transformers in a batch of its own
(`agents.engines.decoding`), vLLM, which knows nothing of parents, from a forced prefix of prompt, kept tokens and first
token.

All draws invert a distribution function at given uniform numbers, so equal numbers give equal tokens whatever
else is in the batch.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import torch

from atlas_gym.agents.engines.engine import Completion, Request, Sampling, Stop, cut
from atlas_gym.agents.models.tokens import Vocabulary, encode_continuation


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


def truncate(logits: torch.Tensor, temperature: float, top_k: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Probabilities (..., k) of the k likeliest tokens, likeliest first, and these tokens' ids (..., k).

    What is left of the logits is small, so both are in main memory, the probabilities in double precision.
    """
    size = logits.shape[-1]
    values, tokens = logits.float().topk(min(top_k, size) if top_k else size)
    return (values.cpu().double() / temperature).softmax(-1), tokens.cpu()


def draw(weights: torch.Tensor, uniforms: torch.Tensor) -> torch.Tensor:
    """Column index per row of ``weights`` (rows, k), drawn in proportion to them at ``uniforms`` (rows,)."""
    cumulative = weights.cumsum(-1)
    goal = (uniforms.to(cumulative.dtype) * cumulative[:, -1]).unsqueeze(-1).contiguous()
    # right=True passes over entries of weight zero; rounding must not lead beyond the last positive one.
    index = torch.searchsorted(cumulative, goal, right=True).squeeze(-1)
    last_positive = torch.searchsorted(cumulative, cumulative[:, -1:].contiguous()).squeeze(-1)
    return torch.minimum(index, last_positive)


def copies(parent: Sequence[int], line_end: torch.Tensor) -> torch.Tensor:
    """(J + 1, vocabulary) bool: the tokens that continue a copy at the parent's J tokens, and at its end.

    ``line_end`` marks the tokens (vocabulary,) that end a line.
    """
    marked = torch.zeros(len(parent) + 1, len(line_end), dtype=torch.bool)
    for place, token in enumerate(parent):
        marked[place, token] = True
    marked[-1] = line_end
    return marked


def deviation_weights(copying: torch.Tensor, uniform: float) -> torch.Tensor:
    """Distribution of the first deviation's position, from p_0 ... p_J, mixed with ``uniform`` of uniform."""
    reached = torch.cat([copying.new_ones(1), copying[:-1].cumprod(0)])
    weights = reached * (1 - copying).clamp(min=0)
    even = torch.full_like(weights, 1 / len(weights))
    if weights.sum() <= 0:  # the model is certain of the copy: any place is as good as any other
        return even
    return (1 - uniform) * weights / weights.sum() + uniform * even


def without(
    probabilities: torch.Tensor, tokens: torch.Tensor, banned: torch.Tensor, logits: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    """One position's truncated distribution (k,) without the tokens marked in ``banned`` (vocabulary,).

    Should truncation have left nothing else, the likeliest other token is taken.
    """
    allowed = probabilities * ~banned[tokens]
    if allowed.sum() > 0:
        return allowed, tokens
    best = logits.float().cpu().masked_fill(banned, float("-inf")).argmax()
    return allowed.new_ones(1), best.unsqueeze(0)


def deviate(
    samples: Sequence[Sample], logits: torch.Tensor, line_end: torch.Tensor, sampling: Sampling
) -> None:
    """Decide where one request's samples leave their parent, and the first token that each draws itself.

    This is all of non-copy decoding that differs from plain sampling, so every engine that can show the
    model's distribution along the parent's text calls it.

    Args:
        samples: one request's, with a parent of J tokens. A line may go on behind them; behind a function's last line
            all is idle, so J > 0 there.
        logits: (J + 1, vocabulary) along the parent's tokens and after them, banned tokens at -inf; any
            constant may be missing from a row, so log-probabilities do as well.
        line_end: marks the tokens (vocabulary,) that end a line.
        sampling: temperature, truncation and the uniform share.
    """
    parent = samples[0].parent or []
    places = len(parent) + (samples[0].stop == "line")
    copying = copies(parent, line_end)[:places]
    probabilities, tokens = truncate(logits[:places], sampling.temperature, sampling.top_k)
    chances = (probabilities * copying.gather(1, tokens)).sum(-1)
    weights = deviation_weights(chances, sampling.uniform_deviation).unsqueeze(0)
    for sample in samples:
        place = int(draw(weights, torch.tensor(sample.uniforms[:1], dtype=torch.float64)))
        left, choices = without(probabilities[place], tokens[place], copying[place], logits[place])
        chosen = draw(left.unsqueeze(0), torch.tensor([sample.uniform], dtype=torch.float64))
        sample.followed = place
        sample.drawn.append(int(choices[chosen]))
