"""Text from a server that is asked until it answers, within bounds.

Each sample is a request of its own, so one that failed is asked again alone and the others stay. A run must not die
because a server is restarted, and it must not hang because one is broken. So a failed request is asked again after a
pause that doubles, and two things end that:

- the server has given no usable answer to anybody for `wait_s` seconds: `BackendError`, which says what to do.
  Nothing is lost by then, since every unit of a run is stored as it is finished;
- it has failed this request `attempts` times, yet writes one token when asked for it: the request is at fault,
  `GivenUp`, and the sample counts as empty.

Too many requests (HTTP 429) are nobody's fault for a minute, in which rates are counted, and a server that says when it
wants to be asked again is not asked before, within the same minute.

A request that the server calls wrong (HTTP 400, 413, 422: a prompt that is too long) is given up at once, and a
wrong address, name or key (a redirect, 401, 403, 404) is an error at once: waiting helps neither.
"""

import threading
import time
from abc import abstractmethod
from collections.abc import Callable, Sequence
from functools import partial
from typing import TypeVar

from atlas_gym.agents.engines.engine import (
    BackendError,
    Completion,
    Generator,
    OnCompletion,
    Request,
    Sampling,
)
from atlas_gym.agents.engines.http import BUSY, EndpointError, Hopeless, api_key
from atlas_gym.agents.engines.settings import ServerSettings
from atlas_gym.agents.engines.threads import in_threads

Answer = TypeVar("Answer")

_WRONG_REQUEST = (400, 413, 422)
_REDIRECTS = (301, 302, 303, 307, 308)
_WRONG_PLACE = (*_REDIRECTS, 401, 402, 403, 404, 405)
_LONGEST_PAUSE_S = 30.0
_MINUTE_S = 60.0


class GivenUp(Exception):
    """One request was given up; the engine goes on."""


class ServerGenerator(Generator):
    """One server, which several threads ask at the same time; they share their patience. Whoever derives from it writes
    `_sample` and `_short`."""

    def __init__(self, settings: ServerSettings, sampling: Sampling) -> None:
        self.settings = settings
        self.sampling = sampling
        self._heard = time.monotonic()
        self._abandoned = threading.Event()

    def stream(self, requests: Sequence[Request], on_completion: OnCompletion) -> None:
        """Generate and hand over each completion as it ends, always in the caller's thread."""
        asked = [(index, sample) for index, request in enumerate(requests) for sample in range(request.n)]
        refused = 0
        self.begin()
        try:
            work = [partial(self._sample, requests[index], sample) for index, sample in asked]
            for position, completion in in_threads(work, self.settings.concurrency):
                refused += completion is None
                on_completion(*asked[position], completion or Completion("", 0, False))
        finally:
            self._abandoned.set()  # every request that is waiting for its next attempt stops
        if asked and len(asked) == refused:
            raise BackendError(
                f"the server at {self.settings.base_url} refused all of {refused} requests: check the length of "
                "its context and the fields it accepts (extra; for completions also extensions; for chat also "
                "response_format: none)"
            )

    @abstractmethod
    def _sample(self, request: Request, sample: int) -> Completion | None:
        """One sample; None if the server does not write it. Called on a thread."""
        ...

    @abstractmethod
    def _short(self) -> None:
        """Have a short request answered; EndpointError if it is not."""
        ...

    def begin(self) -> None:
        """Forget earlier silence: patience counts from here."""
        self._abandoned.clear()
        self._heard = time.monotonic()

    def patiently(self, once: Callable[[], Answer]) -> Answer:
        """Ask until answered. Raises :class:`BackendError` or :class:`GivenUp`."""
        attempts, alive, began = 0, False, time.monotonic()
        while not self._abandoned.is_set():
            try:
                answer = once()
            except EndpointError as error:
                self._judge(error)
                attempts += 1
                early = error.status == BUSY and time.monotonic() - began < _MINUTE_S
                if alive and not early:
                    raise GivenUp(str(error)) from None
                # The server may have come back just now, so one more attempt follows.
                alive = attempts >= self.settings.attempts and not early and self.alive()
                pause = min(self.settings.pause_s * 2 ** min(attempts - 1, 16), _LONGEST_PAUSE_S)
                pause = max(pause, min(error.pause_s, _MINUTE_S))
            else:
                self._heard = time.monotonic()
                return answer
            self._abandoned.wait(pause)
        raise GivenUp("the other requests were abandoned")

    def key(self) -> str:
        """The API key. :class:`BackendError` if the environment does not hold it."""
        try:
            return api_key(self.settings.api_key_env)
        except EndpointError as error:
            raise BackendError(f"{error}; set it and give the command again") from None

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
        if isinstance(error, Hopeless) or error.status in _WRONG_PLACE:
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
        redirects = "check base_url, it is served elsewhere (https, rather than http?)"
        fixes = {
            **dict.fromkeys(_REDIRECTS, redirects),
            401: "check the key in the variable that api_key_env names",
            402: "the account has no credit left",
            403: "check the key in the variable that api_key_env names",
            404: f"check that base_url ends in /v1 and that the server calls its model {self.settings.model!r}",
            405: "check that base_url is that of an OpenAI-compatible server and ends in /v1",
        }
        usual = "correct that" if isinstance(error, Hopeless) else "check the server"
        return BackendError(f"{error} at {self.settings.base_url}: {fixes.get(error.status or 0, usual)}")
