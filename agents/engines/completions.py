"""Text from any server that speaks OpenAI's completions protocol (`/v1/completions`).

Prompts are raw text, chat templates applied already; each sample has its own seed.

*Non-copy decoding.* A server offers no such thing. Instead a sample that repeats its parent is dropped and drawn
again with another seed, up to `redraws` times. That is sampling conditioned on "not a copy", too, only at the price
of the copies; the uniform share of the deviation's place does not exist here. What is still a copy then is handed
over as one.

*What is not deterministic.* Seeds are passed on, and a server may ignore them; those that do not still batch
requests in the order of arrival, and the rounding of a sum depends on its batch. So two runs with one seed differ.
What was stored stays: a resumed run reads it and asks only for the rest.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from atlas_gym.agents.engines.engine import (
    BackendError,
    Completion,
    Generator,
    Request,
    Sampling,
    cut,
    repeats,
)
from atlas_gym.agents.engines.http import EndpointError, ServerReply, post, read_reply
from atlas_gym.agents.engines.samples import sample_seed
from atlas_gym.agents.engines.server import GivenUp, ServerGenerator
from atlas_gym.agents.engines.settings import OpenAISettings

if TYPE_CHECKING:
    from atlas_gym.agents.models.policy import Policy

_RELOADS = 5
"""So often is an adapter put back for one sample."""

# Servers take four stop texts. A function that ends otherwise runs to its token limit and is cut here.
_FUNCTION_STOPS = ["\ndef ", "\n```", "\nclass ", "\nprint("]


class AdapterGone(Exception):
    """The server does not know the adapter that was loaded into it: it has been restarted."""


class OpenAIBackend(ServerGenerator):
    """A completions server as a :class:`agents.engines.engine.Generator`, and which of the policy's adapters it has.

    An adapter is written into the run's folder under the first digits of its digest, which is also its name on the
    server; one whose update is zero is the base model and needs no loading. A server that was restarted has forgotten
    the adapter: the first request that finds it missing loads it again.
    """

    settings: OpenAISettings

    def __init__(
        self, settings: OpenAISettings, sampling: Sampling, folder: Path, policy: Policy | None
    ) -> None:
        super().__init__(settings, sampling)
        self.model = settings.model
        """Name that is asked for: the model's, or that of an adapter loaded into the server."""
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
            self._unload_adapter(self._loaded[0])
            self._loaded = None

    def _load(self, policy: Policy, adapter: str) -> None:
        wanted = None if policy.is_base(adapter) else policy.written(adapter, self._folder)
        if wanted == self._loaded:
            return
        self.begin()
        old, self._loaded = self._loaded, wanted
        if wanted is not None:
            self._load_adapter(*wanted)
        self.model = self.settings.model if wanted is None else wanted[0]
        if old is not None:
            self._unload_adapter(old[0])

    def _reload(self, since: float) -> None:
        """Put an adapter that the server has lost back into it, unless that was done after this time."""
        with self._lock:
            if self._loaded is not None and self._loaded_at < since:
                self._load_adapter(*self._loaded)

    def _sample(self, request: Request, sample: int) -> Completion | None:
        """One sample, drawn again while it repeats its parent; None if the server does not write it."""
        tokens = 0
        for draw in range(self.settings.redraws + 1):
            try:
                fields = self._fields(request, sample_seed(request, sample, draw))
                written = self._complete(request.prompt, fields)
            except GivenUp:
                return None
            tokens += written.completion_tokens
            text, ended = cut(written.text, request.stop)
            if not ended and written.finished:  # servers leave the stop text out
                text, ended = text + "\n", True
            completion = Completion(text, tokens, ended)
            if not repeats(completion.text, request):
                break
        return completion

    def _complete(self, prompt: str, fields: Mapping[str, Any]) -> ServerReply:
        for _ in range(_RELOADS):
            began = time.monotonic()
            asked = {"model": self.model, "prompt": prompt, "n": 1, "stream": False}
            try:
                return self.patiently(partial(self._write, {**asked, **fields, **self.settings.extra}))
            except AdapterGone:
                self._reload(began)
        raise BackendError(
            f"the server at {self.settings.base_url} keeps losing the adapter {self.model}: start it with "
            "--enable-lora and a --max-cpu-loras of at least 2, then resume the run"
        )

    def _write(self, body: Mapping[str, Any]) -> ServerReply:
        reply = self._post("/completions", body)
        return read_reply(reply, self.key(), lambda choice: choice["text"], prompt=0, most=len(reply))

    def _short(self) -> None:
        """Have one token written."""
        self._write({"model": self.settings.model, "prompt": "def", "max_tokens": 1})

    def _post(self, path: str, body: Mapping[str, Any]) -> bytes:
        limits = self.settings
        url = limits.base_url.rstrip("/") + path
        status, reply = post(
            url, self.key(), body, deadline_s=limits.deadline_s, max_bytes=limits.reply_bytes
        )
        if status == 404 and body.get("model", limits.model) != limits.model:
            raise AdapterGone(body["model"])
        if status != 200:
            raise EndpointError(f"the server answered with HTTP status {status}", status=status)
        return reply

    def _load_adapter(self, name: str, folder: Path) -> None:
        """Load an adapter into a vLLM server; one of that name that it already has is kept."""
        load = partial(self._post, "/load_lora_adapter", {"lora_name": name, "lora_path": str(folder)})
        try:
            self.patiently(load)
        except GivenUp:  # a name that is loaded already is refused, like one that cannot be loaded
            self._unload_adapter(name)
            try:
                self.patiently(load)
            except GivenUp:
                raise BackendError(
                    f"the server at {self.settings.base_url} does not load the adapter in {folder}: it must see this "
                    "folder and run with --enable-lora and a --max-lora-rank that is large enough"
                ) from None
        self._loaded_at = time.monotonic()

    def _unload_adapter(self, name: str) -> None:
        """Make a vLLM server forget an adapter, if it has it and is there; asked once."""
        with contextlib.suppress(EndpointError, BackendError):  # it is gone already, which is what was wanted
            self._post("/unload_lora_adapter", {"lora_name": name})

    def _fields(self, request: Request, seed: int) -> dict[str, Any]:
        """The sampling of a request in the protocol's words."""
        sampling = self.sampling
        line = request.stop == "line"
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
