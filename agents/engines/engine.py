"""Engines: whatever writes text for the research agent.

An engine gets *requests* (one prompt, n samples) and answers with *completions*. A completion ends with the line, for
edits of one line, or with the function that the prompt has begun; the answer to a message (a whole
``program``, or a ``diff`` against its parent) ends where the model ends it. With ``avoid`` set, an engine that can does
*non-copy decoding*: it samples from the model's distribution conditioned on the text not being ``avoid``, the parent's
own at that place. A small model copies its parent nearly always; conditioned, every sample is an edit.

Randomness comes only from each request's seed, never from global state.
"""

import re
from abc import abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import ClassVar, Literal, Protocol

from atlas_gym.seeding import torch_seed

Stop = Literal["line", "function", "program", "diff"]

# A function's body ends before the first line that is not indented (a new statement, a closing code fence).
_BODY_END = re.compile(r"\n(?=\S)")


def cut(text: str, stop: Stop) -> tuple[str, bool]:
    """``text`` up to its end, the last newline included, and whether it has reached that end."""
    if stop in ("program", "diff"):
        return text, False
    if stop == "line":
        end = text.find("\n") + 1
    else:
        found = _BODY_END.search(text)
        end = found.end() if found else 0
    return (text[:end], True) if end else (text, False)


class EngineError(RuntimeError):
    """The engine that writes text cannot go on; the message says what helps."""


TUNED_TEMPERATURE = 0.5


@dataclass(frozen=True)
class Sampling:
    """How tokens are drawn."""

    temperature: float = 0.8
    """Softmax temperature of the base model, > 0. A tuned policy, which knows what it wants, is asked at
    `TUNED_TEMPERATURE` if that is lower: more of its programs run, and as many are different."""
    top_k: int = 40
    """Only the k likeliest tokens are drawn from; 0 means all. At least 2, so that a banned token leaves
    another."""
    max_new_tokens: int = 48
    """Token limit of a completion of one line."""
    max_function_tokens: int = 256
    """Token limit of a completion that stops at the end of a function."""
    uniform_deviation: ClassVar[float] = 0.3
    """Non-copy decoding: weight of the uniform distribution in the position of the first deviation, in [0,
    1]. 0 is exact conditional sampling, which deviates where the model is least sure; some uniform part
    reaches the rest."""
    banned_text: ClassVar[str] = "#"
    """Tokens that contain this text are never drawn within a line (a comment is not an edit); empty
    bans none."""

    def __post_init__(self) -> None:
        if self.temperature <= 0 or self.top_k < 0 or self.top_k == 1:
            raise ValueError("temperature must be positive and top_k 0 (all tokens) or at least 2")
        if self.max_new_tokens < 1 or self.max_function_tokens < 1:
            raise ValueError("token limits must be positive")

    def of_policy(self, *, tuned: bool) -> "Sampling":
        """How a policy is asked that has been tuned, or not."""
        return replace(self, temperature=min(self.temperature, TUNED_TEMPERATURE)) if tuned else self

    def limit(self, stop: Stop) -> int:
        """Most tokens of a completion that ends there."""
        return self.max_new_tokens if stop == "line" else self.max_function_tokens

    def banned(self, stop: Stop) -> str:
        """Text whose tokens are never drawn on the way to that end; empty if all may be."""
        return self.banned_text if stop == "line" else ""


@dataclass(frozen=True)
class Request:
    """What an engine is asked: one prompt of which some continuations are wanted."""

    # raw text to continue; a chat template, if any, has been applied already. Empty for styles without a model
    prompt: str
    n: int = 1  # number of samples, at least 1
    # text the completion must differ from (the parent's own at this place); None if that does not matter
    avoid: str | None = None
    stop: Stop = "line"  # where a completion ends
    seed: int = 0  # seed of this request's own random stream

    def __post_init__(self) -> None:
        if self.n < 1:
            raise ValueError("a request asks for at least one sample")


def sample_seed(request: Request, sample: int, draw: int = 0) -> int:
    """Seed of one sample's own tokens; servers take 31 bits."""
    return torch_seed(request.seed, "sample", sample, draw) % 2**31


def repeats(text: str, request: Request) -> bool:
    """Whether a completion says again what the request avoids."""
    return request.avoid is not None and text.rstrip() == request.avoid.rstrip()


@dataclass(frozen=True)
class Completion:
    """One sampled continuation."""

    text: str  # the sampled text, cut at its end: a finished line or function body keeps its final newline
    tokens: int  # number of tokens drawn from the model (forced ones not counted)
    finished: bool = True  # false if the token limit ended it


OnCompletion = Callable[[int, int, Completion], None]
"""Called as ``on_completion(request_index, sample_index, completion)`` as soon as a sample has ended."""


class Engine(Protocol):
    """Continues prompts. Whoever derives from it writes `stream` alone, if its weights are not tuned."""

    @abstractmethod
    def stream(self, requests: Sequence[Request], on_completion: OnCompletion) -> None:
        """Generate, handing over each completion as it ends, so that its evaluation can start meanwhile."""
        ...

    def generate(self, requests: Sequence[Request]) -> list[list[Completion]]:
        """All completions, by request and sample."""
        found: list[dict[int, Completion]] = [{} for _ in requests]
        self.stream(requests, lambda request, sample, completion: found[request].update({sample: completion}))
        return [[row[sample] for sample in range(len(row))] for row in found]

    @contextmanager
    def serving(self, adapter: str) -> Iterator["Engine"]:
        """The engine with this adapter of the policy, for the time of the block; as it is if it has no policy. Between
        two such blocks the policy may be trained."""
        yield self

    def close(self) -> None:
        """Give everything back."""
        return
