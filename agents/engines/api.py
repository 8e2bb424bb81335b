"""Text from a model behind a server: OpenAI's completions protocol (`/v1/completions`) or its chat protocol.

A run must neither die because a server is restarted nor hang because one is broken. Each sample is a request of its
own, which the client asks `attempts` times, with pauses; then

- a server that has given no usable answer to anybody for `wait_s` seconds is an `EngineError` that says what to do;
- a request that fails while a short one is answered is given up: the sample counts as empty.

A request that the server calls wrong (400, 413, 422: a prompt that is too long) is given up at once, and a wrong
address, name or key (a redirect, 401 to 405) is an error at once.

*Non-copy decoding.* A completion that repeats its parent is dropped and drawn again with another seed.

*Determinism.* Seeds are passed on; a server may ignore them, and its rounding depends on what it batches together.
"""

from __future__ import annotations

import asyncio
import logging
import time
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from atlas_gym.agents.engines.client import (
    LATER,
    ChatClient,
    Client,
    EndpointError,
    Reply,
    connected,
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
    Stop,
    cut,
    repeats,
    sample_seed,
)
from atlas_gym.agents.engines.settings import ChatSettings, Endpoint, ServerSettings
from atlas_gym.agents.engines.spending import Ledger

if TYPE_CHECKING:
    import openai

_KEY = "check the key in the variable that api_key_env names"
_FIXES = {
    **dict.fromkeys((301, 302, 303, 307, 308), "check base_url, it is served elsewhere (https, not http?)"),
    401: _KEY,
    402: "the account has no credit left",
    403: _KEY,
    404: "check that base_url ends in /v1 and that the server knows the model by its name",
    405: "check that base_url is that of an OpenAI-compatible server and ends in /v1",
}
"""HTTP statuses that end a run at once."""
_log = logging.getLogger(__name__)
_PAUSE_S = 5.0
"""Wait before a server that does not answer is asked again, seconds."""
# Servers take four stop texts. A function that ends otherwise runs to its token limit and is cut here.
_FUNCTION_STOPS = ["\ndef ", "\n```", "\nclass ", "\nprint("]


def _object(**fields: Mapping[str, Any]) -> Mapping[str, Any]:
    """JSON schema of an object with all of these fields and no others."""
    return {"type": "object", "properties": fields, "required": list(fields), "additionalProperties": False}


_TEXT = {"type": "string"}
_EDITS = {"type": "array", "items": _object(search=_TEXT, replace=_TEXT)}
_FORMS: Mapping[str, tuple[Mapping[str, Any], str]] = {
    "program": (_object(program=_TEXT), '"program" is the whole program'),
    "diff": (_object(edits=_EDITS), '"edits" lists the blocks, each with "search" and "replace"'),
}
"""Schema of a chat reply where the server can be made to keep to it, and what its field holds, in words."""


class ServerEngine(Engine):
    """One server, asked for several samples at a time, which share their patience. Subclasses say how one is asked."""

    redraws = 0  # of a sample that repeats its parent; one that is still a copy then stays one
    stopped_at = ""  # what is put at the end of a text that the server stopped
    greeting = ""  # a short prompt

    def __init__(self, settings: ServerSettings, sampling: Sampling):
        self.settings, self.sampling = settings, sampling
        self._heard = time.monotonic()  # when the server last gave a usable answer to anybody
        self._told = 0.0  # when it was last said that it is waited for

    @abstractmethod
    async def _ask(self, api: openai.AsyncOpenAI, prompt: str, stop: Stop | None, seed: int) -> Reply:
        """One reply, or EndpointError. Without a stop a word is enough."""

    def stream(self, requests: Sequence[Request], on_completion: OnCompletion) -> None:
        run(self._stream(requests, on_completion))

    async def _stream(self, requests: Sequence[Request], on_completion: OnCompletion) -> None:
        settings, room = self.settings, asyncio.Semaphore(self.settings.concurrency)
        written: list[bool] = []
        self._heard = time.monotonic()  # patience counts from here

        async def write(index: int, sample: int) -> None:
            async with room:
                completion = await self._sample(api, requests[index], sample)
            written.append(completion is not None)
            on_completion(index, sample, completion or Completion("", 0, False))

        try:
            async with (
                connected(settings, settings.reply_bytes, settings.attempts - 1) as api,
                asyncio.TaskGroup() as group,
            ):
                for index, request in enumerate(requests):
                    for sample in range(request.n):
                        group.create_task(write(index, sample))
        except EndpointError as error:  # of the key or the address: no request was sent
            raise self.hopeless(error) from None
        except BaseExceptionGroup as errors:
            raise errors.exceptions[0] from None
        if written and not any(written):
            raise EngineError(
                f"the server at {settings.base_url} refused all of {len(written)} requests: check the length of its "
                "context and the fields it accepts (extra; for chat also response_format: none)"
            )

    async def _sample(self, api: openai.AsyncOpenAI, request: Request, sample: int) -> Completion | None:
        """One sample; None if the server does not write it."""
        tokens = 0
        for draw in range(self.redraws + 1):
            reply = await self._patiently(api, request, sample_seed(request, sample, draw))
            if reply is None:
                return None
            tokens += reply.completion_tokens
            text, ended = cut(reply.text, request.stop)
            if reply.finished and not ended:
                text, ended = text + self.stopped_at, True
            completion = Completion(text, tokens, ended)
            if not repeats(text, request):
                break
        return completion

    async def _patiently(self, api: openai.AsyncOpenAI, request: Request, seed: int) -> Reply | None:
        """Ask until answered; None for a request that is given up. Raises :class:`EngineError`."""
        alive, settings = False, self.settings
        while True:
            try:
                reply = await self._ask(api, request.prompt, request.stop, seed)
                self._heard = time.monotonic()
                return reply
            except EndpointError as error:
                if error.hopeless or error.status in _FIXES:
                    raise self.hopeless(error) from None
                if alive or error.status in (400, 413, 422):
                    return None
                if time.monotonic() - self._heard >= settings.wait_s:
                    raise EngineError(
                        f"the model's server at {settings.base_url} has given no usable answer for "
                        f"{settings.wait_s:g} s ({error}); start it again, then resume the run "
                        "(wait_s says how long a run waits)"
                    ) from None
                failure = str(error)
            asked = time.monotonic()
            try:  # a server that answers a short request is not down: one more attempt, and the request is at fault
                await self._ask(api, self.greeting, None, 0)
                self._heard, alive = time.monotonic(), True
            except EndpointError:
                # Once in an outage, whichever request meets it; what was asked before another's answer is past.
                if self._told < self._heard < asked:
                    self._told = time.monotonic()
                    _log.warning("%s: %s; waiting, up to %g s", settings.base_url, failure, settings.wait_s)
                await asyncio.sleep(_PAUSE_S)

    def answer(self) -> None:
        """Have a short request answered now, over a connection of its own. Raises :class:`EndpointError`, and
        :class:`EngineError` if asking again is of no use."""

        async def once() -> None:
            async with connected(self.settings, self.settings.reply_bytes) as api:
                await self._ask(api, self.greeting, None, 0)

        try:
            run(once())
        except EndpointError as error:
            if error.hopeless or error.status in _FIXES:
                raise self.hopeless(error) from None
            raise

    def hopeless(self, error: EndpointError) -> EngineError:
        """The error that says what to check."""
        usual = "check the server" if error.reached else "correct that and give the command again"
        asked = f"{self.settings.base_url} for the model {self.settings.model!r}"
        return EngineError(f"{error} at {asked}: {_FIXES.get(error.status, usual)}")


class CompletionsEngine(ServerEngine):
    """A server with `/v1/completions`. Its weights stay as they are."""

    redraws, stopped_at, greeting = 8, "\n", "def"  # servers leave the stop text out

    def __init__(self, settings: ServerSettings, sampling: Sampling):
        super().__init__(settings, sampling)
        self._client = Client(settings)

    async def _ask(self, api: openai.AsyncOpenAI, prompt: str, stop: Stop | None, seed: int) -> Reply:
        sampling = self.sampling
        fixed: dict[str, Any] = {"prompt": prompt, "max_tokens": 1, "n": 1}
        optional: dict[str, Any] = {}
        if stop is not None:
            # What cannot be banned ends the line.
            stops = ["\n", *filter(None, [sampling.banned_text])] if stop == "line" else _FUNCTION_STOPS
            fixed |= {"temperature": sampling.temperature, "top_p": 1.0, "stop": stops}
            fixed["max_tokens"] = sampling.limit(stop)
            optional = {"seed": seed, "top_k": sampling.top_k or -1, "min_p": 0.0}
        return await self._client.complete(
            api, "/completions", fixed, optional, prompt=token_estimate(prompt), most=4 * fixed["max_tokens"],
            deadline_s=self.settings.deadline_s,
        )  # fmt: skip


class ChatEngine(ServerEngine):
    """A chat endpoint and what it has cost.

    A prompt is one message, and the reply is the completion as it is: `agents.engines.answers` makes a program of it. A
    spent budget ends the process; the run can be resumed with a larger one.
    """

    greeting = "Reply with the word yes."

    def __init__(self, settings: ServerSettings, chat: ChatSettings, sampling: Sampling, ledger: Ledger):
        super().__init__(settings, sampling)
        self._budget, self._ledger = chat.budget_tokens, ledger
        place = settings.base_url, settings.model, settings.api_key_env, settings.extra
        self._client = ChatClient(Endpoint(*place, chat.max_tokens, chat.response_format))

    def greet(self) -> None:
        """One short exchange. :class:`EngineError` in words if this is no endpoint that will ever answer."""
        try:
            self.answer()
        except EndpointError as error:
            if error.status not in LATER:
                raise self.hopeless(error) from None

    async def _ask(self, api: openai.AsyncOpenAI, prompt: str, stop: Stop | None, seed: int) -> Reply:
        model = f"{self.settings.model} at {self.settings.base_url}"
        self._ledger.require_budget(model, self._budget)
        schema, words = _FORMS.get(stop or "", (None, "")) if self._client.constrains else (None, "")
        if words:
            prompt += f"\n\nReply with a JSON object whose field {words}."
        try:
            reply = await self._client.reply(
                api, [{"role": "user", "content": prompt}], seed=seed, schema=schema,
                temperature=self.sampling.temperature, deadline_s=self.settings.deadline_s,
            )  # fmt: skip
        except (EndpointError, asyncio.CancelledError) as error:
            # It may have written before the exchange failed, or was given up.
            if not isinstance(error, EndpointError) or (error.reached and not error.status):
                self._ledger.enter(model, token_estimate(prompt), 0)
            raise
        self._ledger.enter(model, reply.prompt_tokens, reply.completion_tokens)
        return reply
