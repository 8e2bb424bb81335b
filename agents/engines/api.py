"""Text from a model behind a server: OpenAI's completions protocol (`/v1/completions`) or its chat protocol.

Each sample is a request of its own, so one that failed is asked again alone and the others stay. A run must neither die
because a server is restarted nor hang because one is broken. The client asks `attempts` times, with pauses; then

- a server that has given no usable answer to anybody for `wait_s` seconds is an `EngineError` that says what to do
  (nothing is lost, since every round is stored as it is finished);
- a request that fails while a short one is answered is given up: the sample counts as empty.

Too many requests (HTTP 429) are nobody's fault for a minute, in which rates are counted. A request that the server
calls wrong (400, 413, 422: a prompt that is too long) is given up at once, and a wrong address, name or key (a
redirect, 401 to 405) is an error at once.

*Non-copy decoding.* A completion that repeats its parent is dropped and drawn again with another seed: sampling
conditioned on "not a copy", too, only at the price of the copies.

*Determinism.* Seeds are passed on, and a server may ignore them; those that do not still batch requests in the order of
arrival, and the rounding of a sum depends on its batch. A resumed run reads what was stored and asks for the rest.
"""

from __future__ import annotations

import asyncio
import logging
import time
from abc import abstractmethod
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from atlas_gym.agents.engines.client import (
    BUSY,
    LATER,
    ChatClient,
    Client,
    EndpointError,
    Message,
    Reply,
    api_key,
    connected,
    prompt_estimate,
    read_reply,
    run,
    token_estimate,
)
from atlas_gym.agents.engines.engine import (
    Completion,
    Engine,
    EngineError,
    OnCompletion,
    Request,
    Sampling,
    cut,
    repeats,
    sample_seed,
)
from atlas_gym.agents.engines.settings import ChatSettings, Endpoint, ServerSettings
from atlas_gym.agents.engines.spending import Ledger

if TYPE_CHECKING:
    import openai

_REDIRECTS = (301, 302, 303, 307, 308)
_KEY = "check the key in the variable that api_key_env names"
_FIXES = {
    **dict.fromkeys(_REDIRECTS, "check base_url, it is served elsewhere (https, rather than http?)"),
    401: _KEY,
    402: "the account has no credit left",
    403: _KEY,
    404: "check that base_url ends in /v1 and that the server knows the model by its name",
    405: "check that base_url is that of an OpenAI-compatible server and ends in /v1",
}
"""HTTP statuses that end a run at once."""
_log = logging.getLogger(__name__)
_MINUTE_S = 60.0
_PAUSE_S = 5.0
"""Wait before a server that does not answer is asked again, seconds."""
_REDRAWS = 8
"""Most further draws of a sample that repeats its parent; one that is still a copy then stays one."""
# Servers take four stop texts. A function that ends otherwise runs to its token limit and is cut here.
_FUNCTION_STOPS = ["\ndef ", "\n```", "\nclass ", "\nprint("]

_TEXT = {"type": "string"}


def _object(**fields: Mapping[str, Any]) -> Mapping[str, Any]:
    """JSON schema of an object with all of these fields and no others."""
    return {"type": "object", "properties": fields, "required": list(fields), "additionalProperties": False}


_SCHEMAS: Mapping[str, Mapping[str, Any]] = {
    "program": _object(program=_TEXT),
    "diff": _object(edits={"type": "array", "items": _object(search=_TEXT, replace=_TEXT)}),
}
"""What a chat reply is to be, by the end of the request, where the server can be made to keep to it."""

_HINTS = {
    "program": '\n\nReply with a JSON object whose field "program" is the whole program.',
    "diff": '\n\nReply with a JSON object whose field "edits" lists the blocks, each with "search" and "replace".',
}


class ServerEngine(Engine):
    """One server, asked for several samples at a time, which share their patience. Subclasses say how one is asked."""

    def __init__(self, settings: ServerSettings, sampling: Sampling):
        self.settings, self.sampling = settings, sampling
        self._heard = time.monotonic()
        """When the server last gave a usable answer to anybody."""
        self._told = 0.0
        """When it was last said that it is waited for."""

    @abstractmethod
    async def _sample(self, client: openai.AsyncOpenAI, request: Request, sample: int) -> Completion | None:
        """One sample; None if the server does not write it."""

    @abstractmethod
    async def _short(self, client: openai.AsyncOpenAI) -> None:
        """Have a short request answered; EndpointError if it is not."""

    def stream(self, requests: Sequence[Request], on_completion: OnCompletion) -> None:
        run(self._stream(requests, on_completion))

    async def _stream(self, requests: Sequence[Request], on_completion: OnCompletion) -> None:
        settings, room, written = self.settings, asyncio.Semaphore(self.settings.concurrency), 0
        self._heard = time.monotonic()  # patience counts from here

        async def write(client: openai.AsyncOpenAI, index: int, sample: int) -> None:
            nonlocal written
            async with room:
                completion = await self._sample(client, requests[index], sample)
            written += completion is not None
            on_completion(index, sample, completion or Completion("", 0, False))

        try:
            async with connected(settings, settings.reply_bytes, settings.attempts - 1) as client:
                tasks = [
                    asyncio.ensure_future(write(client, index, sample))
                    for index, request in enumerate(requests)
                    for sample in range(request.n)
                ]
                try:
                    await asyncio.gather(*tasks)
                finally:
                    for task in tasks:
                        task.cancel()
                    await asyncio.gather(*tasks, return_exceptions=True)
        except EndpointError as error:  # of the key or the address: no request was sent
            raise self.hopeless(error) from None
        if tasks and not written:
            raise EngineError(
                f"the server at {settings.base_url} refused all of {len(tasks)} requests: check the length of "
                "its context and the fields it accepts (extra; for chat also response_format: none)"
            )

    async def patiently(
        self, client: openai.AsyncOpenAI, ask: Callable[[], Awaitable[Reply]]
    ) -> Reply | None:
        """Ask until answered; None for a request that is given up. Raises :class:`EngineError`."""
        began, alive, failure = time.monotonic(), False, ""
        while True:
            try:
                reply = await ask()
            except EndpointError as error:
                if error.status in (400, 413, 422):
                    return None
                failure = str(error)
                if error.hopeless or error.status in _FIXES:
                    raise self.hopeless(error) from None
                if time.monotonic() - self._heard >= self.settings.wait_s:
                    raise EngineError(
                        f"the model's server at {self.settings.base_url} has given no usable answer for "
                        f"{self.settings.wait_s:g} s ({error}); start it again, then resume the run "
                        "(wait_s says how long a run waits)"
                    ) from None
                early = error.status == BUSY and time.monotonic() - began < _MINUTE_S
                if alive and not early:
                    return None
            else:
                self._heard = time.monotonic()
                return reply
            # A server that answers a short request is not down: one more attempt, and the request is at fault.
            alive = not early
            try:
                if alive:
                    await self._short(client)
                    self._heard = time.monotonic()
            except EndpointError:
                alive = False
            if not alive:
                if self._told < self._heard:  # once in an outage, whichever request meets it
                    self._told = time.monotonic()
                    settings = self.settings
                    _log.warning("%s: %s; waiting, up to %g s", settings.base_url, failure, settings.wait_s)
                await asyncio.sleep(_PAUSE_S)

    def answer(self) -> None:
        """Have a short request answered now, over a connection of its own; raises :class:`EndpointError`."""

        async def once() -> None:
            async with connected(self.settings, self.settings.reply_bytes) as client:
                await self._short(client)

        run(once())

    def hopeless(self, error: EndpointError) -> EngineError:
        """The error that says what to check."""
        usual = "check the server" if error.reached else "correct that and give the command again"
        asked = f"{self.settings.base_url} for the model {self.settings.model!r}"
        return EngineError(f"{error} at {asked}: {_FIXES.get(error.status, usual)}")


class CompletionsEngine(ServerEngine):
    """A server with `/v1/completions`. Its weights stay as they are."""

    def __init__(self, settings: ServerSettings, sampling: Sampling):
        super().__init__(settings, sampling)
        self._line = Client(settings)

    async def _sample(self, client: openai.AsyncOpenAI, request: Request, sample: int) -> Completion | None:
        sampling, tokens = self.sampling, 0
        # What cannot be banned ends the line.
        stops = ["\n", *filter(None, [sampling.banned_text])] if request.stop == "line" else _FUNCTION_STOPS
        fixed = {"temperature": sampling.temperature, "top_p": 1.0, "stop": stops}
        for draw in range(_REDRAWS + 1):
            seed = sample_seed(request, sample, draw)
            optional = {"seed": seed, "top_k": sampling.top_k or -1, "min_p": 0.0}
            limit = sampling.limit(request.stop)
            written = await self.patiently(
                client, partial(self._post, client, request.prompt, limit, fixed, optional)
            )
            if written is None:
                return None
            tokens += written.completion_tokens
            text, ended = cut(written.text, request.stop)
            if not ended and written.finished:  # servers leave the stop text out
                text, ended = text + "\n", True
            completion = Completion(text, tokens, ended)
            if not repeats(completion.text, request):
                break
        return completion

    async def _short(self, client: openai.AsyncOpenAI) -> None:
        await self._post(client, "def", 1, {}, {})

    async def _post(
        self, client: openai.AsyncOpenAI, prompt: str, most: int, fixed: Mapping[str, Any], optional: Mapping[str, Any]
    ) -> Reply:  # fmt: skip
        always: dict[str, Any] = {
            "model": self.settings.model,
            "prompt": prompt,
            "max_tokens": most,
            "n": 1,
            "stream": False,
        }
        found = await self._line.post(
            client, "/completions", {**always, **fixed}, optional, self.settings.deadline_s
        )
        key = api_key(self.settings.api_key_env)
        return read_reply(found, key, lambda choice: choice["text"], token_estimate(prompt), 4 * most)


class ChatEngine(ServerEngine):
    """A chat endpoint and what it has cost.

    A request's prompt is one message of the user, and the reply is the completion as it is: `agents.engines.answers`
    makes a program of it. Every request is paid for, so it is entered in the run's ledger, and a spent budget ends the
    process; the run can be resumed with a larger one.
    """

    def __init__(self, settings: ServerSettings, chat: ChatSettings, sampling: Sampling, ledger: Ledger):
        super().__init__(settings, sampling)
        self._budget, self._ledger = chat.budget_tokens, ledger
        self._line = ChatClient(
            Endpoint(
                settings.base_url, settings.model, settings.api_key_env, settings.extra,
                chat.max_tokens, chat.response_format,
            )
        )  # fmt: skip

    def greet(self) -> None:
        """One short exchange. :class:`EngineError` in words if this is no endpoint that will ever answer."""
        try:
            self.answer()
        except EndpointError as error:
            if error.status not in LATER:
                raise self.hopeless(error) from None

    async def _short(self, client: openai.AsyncOpenAI) -> None:
        await self._reply(client, "Reply with the word yes.", "", 0, 1.0)

    async def _sample(self, client: openai.AsyncOpenAI, request: Request, sample: int) -> Completion | None:
        seed, temperature = sample_seed(request, sample), self.sampling.temperature
        asked = partial(self._reply, client, request.prompt, request.stop, seed, temperature)
        reply = await self.patiently(client, asked)
        if reply is None:
            return None
        text, ended = cut(reply.text, request.stop)
        return Completion(text, reply.completion_tokens, ended or reply.finished)

    async def _reply(
        self, client: openai.AsyncOpenAI, prompt: str, stop: str, seed: int, temperature: float
    ) -> Reply:
        model = f"{self.settings.model} at {self.settings.base_url}"
        self._ledger.require_budget(model, self._budget)
        schema = _SCHEMAS.get(stop) if self._line.constrains else None
        messages = (Message("user", prompt + (_HINTS[stop] if schema else "")),)
        try:
            reply = await self._line.reply(
                client, messages, seed=seed, schema=schema, temperature=temperature,
                deadline_s=self.settings.deadline_s,
            )  # fmt: skip
        except EndpointError as error:
            if error.reached and not error.status:  # it may have written before the exchange failed
                self._ledger.enter(model, prompt_estimate(messages), 0)
            raise
        self._ledger.enter(model, reply.prompt_tokens, reply.completion_tokens)
        return reply
