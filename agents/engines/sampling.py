"""Samples in the making, whichever engine continues them, and how their tokens are drawn.

*Non-copy decoding.* Let r_0 ... r_{J-1} be the tokens of the parent's text and p_j the probability of r_j after r_0 ...
r_{j-1}; p_J is the probability that the line ends after all of them. A line that is not a copy follows the parent for j
tokens and then deviates, which happens with probability q_j = p_0 ... p_{j-1} (1 - p_j). So drawing j from q
(normalised), forcing r_0 ... r_{j-1}, drawing the next token without r_j, and sampling freely from there is exact
sampling from the model given "not a copy", without a single rejected sample. Mixing q with the uniform distribution
over positions reaches places where the model alone would hardly ever deviate; positions within an identifier are left
out of it, where a deviation would only make a name that does not exist.

An engine shows the model's distribution along the parent's text to `first_tokens`, and continues from what that
decides. All draws invert a distribution function at given uniform numbers, so equal numbers give equal tokens whatever
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

    request: int  # index of the request it belongs to
    index: int  # its index within the request
    prompt: list[int]  # the prompt's tokens, shared by the request's samples
    parent: list[int] | None  # tokens of the text that must not be repeated, None if there is none to follow
    stop: Stop  # where the completion ends
    limit: int  # most tokens to draw
    # (limit + 1,) uniform numbers: one for the deviation's position, then one for each token drawn
    uniforms: torch.Tensor
    # of each of the parent's tokens, whether it goes on with an identifier
    within: list[bool] = field(default_factory=list)
    followed: int = 0  # how many of the parent's tokens it keeps before it deviates
    drawn: list[int] = field(default_factory=list)  # tokens drawn so far

    @property
    def begun(self) -> list[int]:
        """Tokens of the completion so far: kept from the parent, then drawn."""
        return (self.parent or [])[: self.followed] + self.drawn

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
        self._breaks, self._ends = self.vocabulary.line_end.tolist(), self.vocabulary.end.tolist()

    def begin(self, index: int, request: Request, prompt: list[int]) -> list[Sample]:
        """The samples of the request with this index, of which nothing is drawn yet."""
        limit = self.sampling.limit(request.stop)
        # One row per sample: a number for the deviation's position, then one for each token.
        source = torch.Generator().manual_seed(request.seed)
        uniforms = torch.rand(request.n, limit + 1, generator=source, dtype=torch.float64)
        parent = None
        if request.avoid is not None and (request.avoid or request.stop == "line"):
            parent = encode_continuation(self.tokenizer, request.avoid)
        before, within = request.prompt[-1:], []
        for text in self.tokenizer.batch_decode([[token] for token in parent or []]):
            within.append(_in_a_name(before) and _in_a_name(text[:1]))
            before = text[-1:]
        return [
            Sample(index, sample, prompt, parent, request.stop, limit, uniforms[sample], within)
            for sample in range(request.n)
        ]

    def extend(self, sample: Sample, tokens: Sequence[int]) -> Completion | None:
        """Append tokens to a sample until it is complete."""
        for token in tokens:
            # Only a break ends a line, and what stands behind one a function; the parent's text, which may hold one, is
            # before the first token.
            behind = sample.stop != "line" and bool(sample.drawn) and self._breaks[sample.drawn[-1]]
            sample.drawn.append(token)
            last = behind or self._breaks[token]
            if (last or len(sample.drawn) in (1, sample.limit)) and (found := self.completion(sample)):
                return found
        return None

    def completion(self, sample: Sample) -> Completion | None:
        """A sample that has drawn something, if it has reached its end or its limit."""
        text, ended = sample.text(self.tokenizer)
        ended = ended or self._ends[sample.drawn[-1]]
        return (
            Completion(text, len(sample.drawn), ended) if ended or len(sample.drawn) >= sample.limit else None
        )


def _in_a_name(character: str) -> bool:
    return character.isalnum() or character == "_"


def truncate(
    logits: torch.Tensor, temperature: float | torch.Tensor, top_k: int
) -> tuple[torch.Tensor, torch.Tensor]:
    """Probabilities (..., k) of the k likeliest tokens, likeliest first, in double precision, and their ids."""
    size = logits.shape[-1]
    values, tokens = logits.float().topk(min(top_k, size) if top_k else size)
    return (values.double() / temperature).softmax(-1), tokens


def draw(weights: torch.Tensor, uniforms: torch.Tensor) -> torch.Tensor:
    """Column index per row of ``weights`` (rows, k), drawn in proportion to them at ``uniforms`` (rows,)."""
    cumulative = weights.cumsum(-1)
    goal = (uniforms.to(cumulative.dtype) * cumulative[:, -1]).unsqueeze(-1)
    # right=True passes over entries of weight zero; rounding must not lead beyond the last positive one.
    index = torch.searchsorted(cumulative, goal, right=True).squeeze(-1)
    last_positive = torch.searchsorted(cumulative, cumulative[:, -1:].contiguous()).squeeze(-1)
    return torch.minimum(index, last_positive)


def deviation_weights(
    copying: torch.Tensor, uniform: float, places: torch.Tensor, within: torch.Tensor
) -> torch.Tensor:
    """Distribution (N, J + 1) of the first deviation's position, from p_0 ... p_J, mixed with ``uniform`` of uniform.

    ``places`` (N, J + 1) says where a text may deviate; where it may not, ``copying`` is not looked at. The uniform
    part leaves out the places ``within`` an identifier, unless there are no others.
    """
    copying = copying.masked_fill(~places, 1.0)
    reached = torch.cat([torch.ones_like(copying[:, :1]), copying[:, :-1].cumprod(-1)], dim=-1)
    weights = reached * (1 - copying).clamp(min=0)
    outside = places & ~within
    outside = torch.where(outside.any(-1, keepdim=True), outside, places)
    even = outside.to(copying.dtype) / outside.sum(-1, keepdim=True)
    total = weights.sum(-1, keepdim=True)
    # Where the model is certain of the copy, any place is as good as any other.
    return torch.where(total > 0, (1 - uniform) * weights / total + uniform * even, even)


def first_tokens(
    logits: torch.Tensor,
    prompts: Sequence[Sample],
    samples: torch.Tensor,
    uniforms: torch.Tensor,
    line_end: torch.Tensor,
    sampling: Sampling,
) -> tuple[torch.Tensor, torch.Tensor]:
    """How many of its parent's tokens each sample keeps, and the first token that it draws itself: (M,) each. This is
    all of non-copy decoding that differs from plain sampling. Nothing here waits for the device.

    `logits`: (N, W, vocabulary), of each request its last J + 1: behind the prompt and behind each of its parent's J
    tokens, banned tokens at -inf; log-probabilities do as well. `prompts`: a sample of each of the N requests.
    `samples`: (M,), the request of each sample. `uniforms`: (M, 2), the sample's first two numbers. `line_end` marks
    the tokens that end a line; a line may go on behind its parent's, and behind a function's last line all is idle, so
    J > 0 there.
    """
    wide = logits.shape[1]
    parents = [sample.parent or [] for sample in prompts]
    # The token that continues the copy: _NONE without a parent, _END where whatever ends the line does.
    follows = torch.full((len(prompts), wide), _NONE)
    places = torch.zeros(len(prompts), wide, dtype=torch.bool)
    within = torch.zeros_like(places)
    for row, (sample, parent) in enumerate(zip(prompts, parents, strict=True)):
        follows[row, wide - 1 - len(parent) : wide - 1] = torch.tensor(parent, dtype=torch.long)
        within[row, wide - 1 - len(parent) : wide - 1] = torch.tensor(sample.within, dtype=torch.bool)
        ends = sample.stop == "line" or sample.parent is None
        places[row, wide - 1 - len(parent) : wide - 1 + ends] = True
        if sample.parent is not None:
            follows[row, wide - 1] = _END
    lengths = torch.tensor([len(parent) for parent in parents]).to(logits.device)
    follows, places, within = (x.to(logits.device) for x in (follows, places, within))
    probabilities, tokens = truncate(logits, sampling.temperature, sampling.top_k)
    copies = torch.where((follows == _END)[..., None], line_end[tokens], tokens == follows[..., None])
    chances = (probabilities * copies).sum(-1)
    weights = deviation_weights(chances, sampling.uniform_deviation, places, within)
    place = draw(weights[samples], uniforms[:, 0])
    allowed = probabilities[samples, place] * ~copies[samples, place]
    left = tokens[samples, place].gather(1, draw(allowed, uniforms[:, 1])[:, None])[:, 0]
    # Should truncation have left nothing but the copy, the likeliest other token is taken.
    copied = follows[samples, place]
    banned = torch.arange(logits.shape[-1], device=logits.device) == copied[:, None]
    banned |= (copied == _END)[:, None] & line_end
    others = logits[samples, place].masked_fill(banned, float("-inf"))
    best = torch.where(allowed.sum(-1) > 0, left, others.argmax(-1))
    return place - (wide - 1 - lengths[samples]), best


_NONE, _END = -1, -2
