"""Text from any server that speaks OpenAI's completions protocol (`/v1/completions`).

Each sample is a request of its own, with its own seed, so a sample that failed is asked again alone and the others
stay. Prompts are raw text, chat templates applied already.

*Non-copy decoding.* A server offers no such thing. Instead a sample that repeats its parent is dropped and drawn
again with another seed, up to `redraws` times. That is sampling conditioned on "not a copy", too, only at the price
of the copies; the uniform share of the deviation's place does not exist here. What is still a copy then is handed
over as one.

*What is not deterministic.* Seeds are passed on, and a server may ignore them; those that do not still batch
requests in the order of arrival, and the rounding of a sum depends on its batch. So two runs with one seed differ.
What was stored stays: a resumed run reads it and asks only for the rest.
"""

from __future__ import annotations

import threading
import time
from abc import abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from agents.engines.completions_client import AdapterGone, CompletionsClient, GivenUp, PatientClient
from agents.engines.engine import (
    LINES,
    BackendError,
    Completion,
    Generator,
    OnCompletion,
    Request,
    Sampling,
    cut,
    repeats,
)
from agents.engines.samples import sample_seed
from agents.engines.settings import OpenAISettings
from agents.engines.threads import in_threads

if TYPE_CHECKING:
    from agents.models.policy import Policy

_RELOADS = 5
"""So often is an adapter put back for one sample."""

# Servers take four stop texts. A function that ends otherwise runs to its token limit and is cut here.
_FUNCTION_STOPS = ["\ndef ", "\n```", "\nclass ", "\nprint("]


class ServerGenerator(Generator):
    """Samples from a server, each on a thread of its own. Whoever derives from it writes `_sample`."""

    client: PatientClient

    def __init__(self, client: PatientClient, sampling: Sampling) -> None:
        self.client = client
        self.sampling = sampling

    def stream(self, requests: Sequence[Request], on_completion: OnCompletion) -> None:
        """Generate and hand over each completion as it ends, always in the caller's thread."""
        asked = [(index, sample) for index, request in enumerate(requests) for sample in range(request.n)]
        refused = 0
        self.client.begin()
        try:
            work = [partial(self._sample, requests[index], sample) for index, sample in asked]
            for position, completion in in_threads(work, self.client.settings.concurrency):
                refused += completion is None
                on_completion(*asked[position], completion or Completion("", 0, False))
        finally:
            self.client.abandon()
        if asked and len(asked) == refused:
            raise BackendError(
                f"the server at {self.client.settings.base_url} refused all of {refused} requests: check the length of "
                "its context and the fields it accepts (extra; for completions also extensions)"
            )

    @abstractmethod
    def _sample(self, request: Request, sample: int) -> Completion | None:
        """One sample; None if the server does not write it. Called on a thread."""
        ...


class OpenAIBackend(ServerGenerator):
    """A completions server as a :class:`agents.engines.engine.Generator`, and which of the policy's adapters it has.

    An adapter is written into the run's folder under the first digits of its digest, which is also its name on the
    server; one whose update is zero is the base model and needs no loading. A server that was restarted has forgotten
    the adapter: the first request that finds it missing loads it again.
    """

    client: CompletionsClient

    def __init__(
        self, settings: OpenAISettings, sampling: Sampling, folder: Path, policy: Policy | None
    ) -> None:
        super().__init__(CompletionsClient(settings), sampling)
        self.settings = settings
        self._policy = policy if settings.lora_loading != "none" else None
        self._folder = folder
        self._lock = threading.Lock()
        self._loaded: tuple[str, Path] | None = None
        self._loaded_at = 0.0

    @contextmanager
    def serving(self, adapter: str) -> Iterator[Generator]:
        """The generator that writes with this adapter, which is loaded first if it must be."""
        if self._policy is not None:
            self._load(self._policy, adapter)
        yield self

    def close(self) -> None:
        """Make the server forget the adapter."""
        if self._loaded is not None:
            self.client.unload_adapter(self._loaded[0])
            self._loaded = None

    def _load(self, policy: Policy, adapter: str) -> None:
        wanted = None if policy.is_base(adapter) else policy.written(adapter, self._folder)
        if wanted == self._loaded:
            return
        self.client.begin()
        old, self._loaded = self._loaded, wanted
        if wanted is not None:
            self.client.load_adapter(wanted[0], str(wanted[1]))
            self._loaded_at = time.monotonic()
        self.client.model = self.settings.model if wanted is None else wanted[0]
        if old is not None:
            self.client.unload_adapter(old[0])

    def _reload(self, since: float) -> None:
        """Put an adapter that the server has lost back into it, unless that was done after this time."""
        with self._lock:
            if self._loaded is not None and self._loaded_at < since:
                self.client.load_adapter(self._loaded[0], str(self._loaded[1]))
                self._loaded_at = time.monotonic()

    def _sample(self, request: Request, sample: int) -> Completion | None:
        """One sample, drawn again while it repeats its parent; None if the server does not write it."""
        tokens = 0
        for draw in range(self.settings.redraws + 1):
            try:
                fields = self._fields(request, sample_seed(request, sample, draw))
                written = self._complete(request.prompt, fields)
            except GivenUp:
                return None
            tokens += written.tokens
            text, ended = cut(written.text, request.stop)
            if not ended and written.finished:  # servers leave the stop text out
                text, ended = text + "\n", True
            completion = Completion(text, tokens, ended)
            if not repeats(completion.text, request):
                break
        return completion

    def _complete(self, prompt: str, fields: dict[str, Any]) -> Completion:
        for _ in range(_RELOADS):
            began = time.monotonic()
            try:
                return self.client.complete(prompt, **fields)
            except AdapterGone:
                self._reload(began)
        raise BackendError(
            f"the server at {self.settings.base_url} keeps losing the adapter {self.client.model}: start it with "
            "--enable-lora and a --max-cpu-loras of at least 2, then resume the run"
        )

    def _fields(self, request: Request, seed: int) -> dict[str, Any]:
        """The sampling of a request in the protocol's words."""
        sampling = request.sampling or self.sampling
        line = LINES.get(request.stop) == 1
        fields: dict[str, Any] = {
            "temperature": sampling.temperature,
            "top_p": 1.0,
            "max_tokens": sampling.limit(request.stop),
            "seed": seed,
            "stop": ["\n"] if line else _FUNCTION_STOPS,
        }
        if self.settings.extensions:
            fields |= {"top_k": sampling.top_k or -1, "min_p": 0.0}
        if line and sampling.banned_text:
            fields["stop"] = ["\n", sampling.banned_text]  # what cannot be banned ends the line
        return fields
