"""Asking a server until it answers, within bounds.

A run must not die because a server is restarted, and it must not hang because one is broken. So a failed request
is asked again after a pause that doubles, and two things end that:

- the server has given no usable answer to anybody for `wait_s` seconds: `BackendError`, which says what to do.
  Nothing is lost by then, since every unit of a run is stored as it is finished;
- it has failed this request `attempts` times, yet writes one token when asked for it: the request is at fault,
  `GivenUp`, and the sample counts as empty.

A request that the server calls wrong (HTTP 400, 413, 422: a prompt that is too long) is given up at once, and a
wrong address, name or key (401, 403, 404) is an error at once: waiting helps neither.
"""

import contextlib
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from agents.engines.engine import BackendError, Completion
from agents.engines.http import EndpointError, api_key, post, read_reply
from agents.engines.settings import OpenAISettings, ServerSettings

Answer = TypeVar("Answer")

_WRONG_REQUEST = (400, 413, 422)
_WRONG_PLACE = (401, 402, 403, 404, 405)
_LONGEST_PAUSE_S = 30.0


class GivenUp(Exception):
    """One request was given up; the engine goes on."""


class AdapterGone(Exception):
    """The server does not know the adapter that was loaded into it: it has been restarted."""


class PatientClient(ABC):
    """One server. Several threads may ask at the same time; they share their patience."""

    def __init__(self, settings: ServerSettings) -> None:
        self.settings = settings
        self._heard = time.monotonic()
        self._abandoned = threading.Event()

    def begin(self) -> None:
        """Forget earlier silence: patience counts from here."""
        self._abandoned.clear()
        self._heard = time.monotonic()

    def abandon(self) -> None:
        """Make every request that is waiting for its next attempt stop."""
        self._abandoned.set()

    @abstractmethod
    def _short(self) -> None:
        """Have a short request answered; EndpointError if it is not."""
        ...

    def patiently(self, once: Callable[[], Answer]) -> Answer:
        """Ask until answered. Raises :class:`BackendError` or :class:`GivenUp`."""
        attempts, alive = 0, False
        while not self._abandoned.is_set():
            try:
                answer = once()
            except EndpointError as error:
                self._judge(error)
                attempts += 1
                if alive:
                    raise GivenUp(str(error)) from None
                # The server may have come back just now, so one more attempt follows.
                alive = attempts >= self.settings.attempts and self.alive()
            else:
                self._heard = time.monotonic()
                return answer
            self._abandoned.wait(min(self.settings.pause_s * 2 ** min(attempts - 1, 16), _LONGEST_PAUSE_S))
        raise GivenUp("the other requests were abandoned")

    def key(self) -> str:
        """The API key. :class:`BackendError` if the environment does not hold it."""
        try:
            return api_key(self.settings.api_key_env)
        except EndpointError as error:
            raise BackendError(f"{error}; set it and resume the run") from None

    def alive(self) -> bool:
        """Whether the server answers a short request: then it is not down, and a request that fails is at fault."""
        try:
            self._short()
        except EndpointError:
            return False
        self._heard = time.monotonic()
        return True

    def _judge(self, error: EndpointError) -> None:
        """Return if another attempt makes sense."""
        if error.status in _WRONG_PLACE:
            raise self.hopeless(error) from None
        if error.status in _WRONG_REQUEST:
            raise GivenUp(str(error))
        if time.monotonic() - self._heard >= self.settings.wait_s:
            raise BackendError(
                f"the model's server at {self.settings.base_url} has given no usable answer for "
                f"{self.settings.wait_s:g} s ({error}); start it again, then resume the run "
                "(wait_s says how long a run waits)"
            )

    def hopeless(self, error: EndpointError) -> BackendError:
        """The error that says what to check."""
        fixes = {
            401: "check the key in the variable that api_key_env names",
            402: "the account has no credit left",
            403: "check the key in the variable that api_key_env names",
            404: f"check that base_url ends in /v1 and that the server calls its model {self.settings.model!r}",
            405: "check that base_url is that of an OpenAI-compatible server and ends in /v1",
        }
        return BackendError(
            f"{error} at {self.settings.base_url}: {fixes.get(error.status or 0, 'check the server')}"
        )


class CompletionsClient(PatientClient):
    """A completions server."""

    settings: OpenAISettings

    def __init__(self, settings: OpenAISettings) -> None:
        super().__init__(settings)
        self.model = settings.model
        """Name that is asked for: the model's, or that of an adapter loaded into the server."""

    def complete(self, prompt: str, **fields: Any) -> Completion:
        """Continue a prompt. Raises :class:`BackendError`, :class:`GivenUp` or :class:`AdapterGone`."""
        asked = {"model": self.model, "prompt": prompt, "n": 1, "stream": False}
        body = {**asked, **fields, **self.settings.extra}
        return self.patiently(lambda: self._once("/completions", body, _read_continuation))

    def load_adapter(self, name: str, folder: str) -> None:
        """Load an adapter into a vLLM server; one of that name that it already has is kept."""
        try:
            self._load(name, folder)
        except GivenUp:  # a name that is loaded already is refused, like one that cannot be loaded
            self.unload_adapter(name)
            try:
                self._load(name, folder)
            except GivenUp:
                raise BackendError(
                    f"the server at {self.settings.base_url} does not load the adapter in {folder}: it must see this "
                    "folder and run with --enable-lora and a --max-lora-rank that is large enough"
                ) from None

    def _load(self, name: str, folder: str) -> None:
        body = {"lora_name": name, "lora_path": folder}
        self.patiently(lambda: self._once("/load_lora_adapter", body, lambda *_: None))

    def unload_adapter(self, name: str) -> None:
        """Make a vLLM server forget an adapter, if it has it and is there; asked once."""
        with contextlib.suppress(EndpointError, BackendError):  # it is gone already, which is what was wanted
            self._once("/unload_lora_adapter", {"lora_name": name}, lambda *_: None)

    def _once(self, path: str, body: Mapping[str, Any], read: Callable[[bytes, str], Answer]) -> Answer:
        key, limits = self.key(), self.settings
        url = limits.base_url.rstrip("/") + path
        status, reply = post(url, key, body, deadline_s=limits.deadline_s, max_bytes=limits.reply_bytes)
        if status == 404 and body.get("model", limits.model) != limits.model:
            raise AdapterGone(body["model"])
        if status != 200:
            raise EndpointError(f"the server answered with HTTP status {status}", status=status)
        return read(reply, key)

    def _short(self) -> None:
        """Have one token written."""
        body = {"model": self.settings.model, "prompt": "def", "max_tokens": 1}
        self._once("/completions", body, _read_continuation)


def _read_continuation(body: bytes, key: str) -> Completion:
    reply = read_reply(body, key, lambda choice: choice["text"], prompt=0, most=len(body))
    return Completion(reply.text, reply.completion_tokens, reply.finished)
