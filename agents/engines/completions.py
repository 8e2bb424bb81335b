"""Text from any server that speaks OpenAI's completions protocol (`/v1/completions`).

Each sample is a request of its own, with its own seed, so a sample that failed is asked again alone and the others
stay. Prompts are raw text, chat templates applied already.

*Non-copy decoding.* A server offers no such thing. Two replacements, by setting:

- `redraw`: a sample that repeats its parent is dropped and drawn again with another seed, up to `redraws` times.
  That is sampling conditioned on "not a copy", too, only at the price of the copies; the uniform share of the
  deviation's place does not exist here. What is still a copy then is handed over as one.
- `scored`: one token is asked for at each place of the parent's line, with log-probabilities. From these the same
  code as in the other engines decides where each sample leaves its parent and with which token; the server
  continues from there. Two limits: the server's number of log-probabilities truncates that one distribution, and
  the prompt must be sent as token ids.

*What is not deterministic.* Seeds are passed on, and a server may ignore them; those that do not still batch
requests in the order of arrival, and the rounding of a sum depends on its batch. So two runs with one seed differ.
What was stored stays: a resumed run reads it and asks only for the rest.
"""

from __future__ import annotations

import functools
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from agents.engines.completions_client import AdapterGone, CompletionsClient, Continuation, GivenUp
from agents.engines.crew import Job, run_jobs
from agents.engines.engine import BackendError, Completion, GenerationRequest, OnCompletion, Sampling, cut
from agents.engines.sequences import Draft, Drafting, sample_seed
from agents.engines.settings import OpenAISettings

_RELOADS = 5
"""So often is an adapter put back for one sample."""

# Servers take four stop texts. A function that ends otherwise runs to its token limit and is cut here.
_FUNCTION_STOPS = ["\ndef ", "\n```", "\nclass ", "\nprint("]


class OpenAIGenerator:
    """A :class:`agents.engines.engine.Generator` behind a server."""

    def __init__(
        self,
        client: CompletionsClient,
        sampling: Sampling,
        tokenizer: Any = None,
        reload: Callable[[float], None] | None = None,
    ) -> None:
        """`tokenizer`: the served model's, for `scored`. `reload`: puts an adapter that the server has lost back
        into it, unless that was done after the time it is called with."""
        self.client = client
        self.settings: OpenAISettings = client.settings
        self.sampling = sampling
        self._reload = reload
        scored = self.settings.non_copy == "scored"
        self._drafting = Drafting(tokenizer, len(tokenizer), sampling) if scored else None
        self.given_up = 0
        """Samples that the server failed to write."""

    def generate(self, requests: Sequence[GenerationRequest]) -> list[list[Completion]]:
        """All completions, by request and sample."""
        found: list[dict[int, Completion]] = [{} for _ in requests]
        self.stream(requests, lambda request, sample, completion: found[request].update({sample: completion}))
        return [[row[sample] for sample in range(len(row))] for row in found]

    def stream(self, requests: Sequence[GenerationRequest], on_completion: OnCompletion) -> None:
        """Generate and hand over each completion as it ends, always in the caller's thread."""
        asked, refused = 0, 0

        def hand_over(request: int, sample: int, completion: Completion | None) -> tuple[Job, ...]:
            nonlocal asked, refused
            asked, refused = asked + 1, refused + (completion is None)
            on_completion(request, sample, completion or Completion("", 0, False))
            return ()

        jobs: list[Job] = []
        for index, request in enumerate(requests):
            if request.written is not None:
                for sample, text in enumerate(request.written[: request.n]):
                    on_completion(index, sample, Completion(text, tokens=0))
            else:
                jobs += self._jobs(index, request, hand_over)
        self._run(jobs)
        self.given_up += refused
        if asked and asked == refused:
            raise BackendError(
                f"the server at {self.settings.base_url} refused all of {asked} requests: check the length of its "
                "context and the fields it accepts (backend.openai.extensions, logprobs, extra)"
            )

    def _run(self, jobs: list[Job]) -> None:
        self.client.begin()
        try:
            run_jobs(jobs, self.settings.concurrency)
        finally:
            self.client.abandon()

    def _jobs(self, index: int, request: GenerationRequest, hand_over: Any) -> list[Job]:
        parent = self._drafting.parent(request) if self._drafting else None
        if parent is None or self._drafting is None:
            return [
                Job(
                    functools.partial(self._redrawn, request, sample),
                    functools.partial(hand_over, index, sample),
                )
                for sample in range(request.n)
            ]
        return self._scoring(self._drafting, index, request, parent, hand_over)

    def _redrawn(self, request: GenerationRequest, sample: int) -> Completion | None:
        """One sample, drawn again while it repeats its parent; None if the server does not write it."""
        tokens = 0
        for draw in range(self.settings.redraws + 1):
            try:
                fields = self._fields(request, sample_seed(request, sample, draw), None)
                written = self._complete(request.prompt, fields)
            except GivenUp:
                return None
            tokens += written.tokens
            completion = _completion(written, "", request, tokens)
            if request.avoid is None or completion.text.rstrip() != request.avoid.rstrip():
                break
        return completion

    def _scoring(
        self, drafting: Drafting, index: int, request: GenerationRequest, parent: list[int], hand_over: Any
    ) -> list[Job]:
        """Jobs that ask for the distribution at each place; the last of them is followed by the samples."""
        prompt = drafting.prompt(request)
        found: dict[int, dict[int, float] | None] = {}

        def keep(place: int, scores: dict[int, float] | None) -> Iterator[Job]:
            found[place] = scores
            if len(found) == len(parent) + 1:
                yield from self._samples(drafting, index, request, found, hand_over)

        return [
            Job(functools.partial(self._score, prompt + parent[:place]), functools.partial(keep, place))
            for place in range(len(parent) + 1)
        ]

    def _score(self, tokens: list[int]) -> dict[int, float] | None:
        fields = {"max_tokens": 1, "temperature": 1.0, "logprobs": self.settings.logprobs, "seed": 0}
        try:
            scores = self._complete(tokens, fields | {"return_tokens_as_token_ids": True}).scores
        except GivenUp:
            return None
        if not scores or not all(type(token) is int for token in scores):
            raise BackendError(
                f"the server at {self.settings.base_url} returns no log-probabilities by token id; "
                "set backend.openai.non_copy: redraw"
            )
        return {token: value for token, value in scores.items() if type(token) is int}

    def _samples(
        self,
        drafting: Drafting,
        index: int,
        request: GenerationRequest,
        found: dict[int, dict[int, float] | None],
        hand_over: Any,
    ) -> Iterator[Job]:
        scores = [row for _, row in sorted(found.items()) if row is not None]
        if len(scores) < len(found):  # the server would not show some place: fall back to drawing again
            for sample in range(request.n):
                work = functools.partial(self._redrawn, request, sample)
                yield Job(work, functools.partial(hand_over, index, sample))
            return
        for draft in drafting.drafts(index, request, scores):
            work = functools.partial(self._continued, drafting, draft, request)
            yield Job(work, functools.partial(hand_over, index, draft.sample))

    def _continued(self, drafting: Drafting, draft: Draft, request: GenerationRequest) -> Completion | None:
        if (completion := drafting.finished(draft, request)) is not None:
            return completion
        fields = self._fields(request, draft.seed, drafting.banned(request)) | {"max_tokens": draft.limit}
        try:
            written = self._complete(draft.prompt + draft.begun, fields)
        except GivenUp:
            return None
        begun, _ = drafting.text(draft, request, [])
        return _completion(written, begun, request, written.tokens + draft.drawn)

    def _complete(self, prompt: str | list[int], fields: dict[str, Any]) -> Continuation:
        for _ in range(_RELOADS):
            began = time.monotonic()
            try:
                return self.client.complete(prompt, **fields)
            except AdapterGone:
                if self._reload is not None:
                    self._reload(began)
        raise BackendError(
            f"the server at {self.settings.base_url} keeps losing the adapter {self.client.model}: start it with "
            "--enable-lora and a --max-cpu-loras of at least 2, then resume the run"
        )

    def _fields(self, request: GenerationRequest, seed: int, banned: list[int] | None) -> dict[str, Any]:
        """The sampling of a request in the protocol's words. `banned`: token ids, None if ids are not known."""
        sampling = request.sampling or self.sampling
        line = request.stop == "line"
        fields: dict[str, Any] = {
            "temperature": sampling.temperature,
            "top_p": 1.0,
            "max_tokens": sampling.max_new_tokens if line else sampling.max_function_tokens,
            "seed": seed,
            "stop": ["\n"] if line else _FUNCTION_STOPS,
        }
        if self.settings.extensions:
            fields |= {"top_k": sampling.top_k or -1, "min_p": 0.0}
        if banned:
            fields["logit_bias"] = {str(token): -100 for token in banned}
        elif banned is None and line and sampling.banned_text:
            fields["stop"] = ["\n", sampling.banned_text]  # what cannot be banned ends the line
        return fields


def _completion(written: Continuation, begun: str, request: GenerationRequest, tokens: int) -> Completion:
    text, ended = cut(begun + written.text, request.stop)
    if not ended and written.stopped:  # servers leave the stop text out
        text, ended = text + "\n", True
    return Completion(text, tokens, ended)
