"""Text from models behind an API that speaks OpenAI's chat protocol (`/v1/chat/completions`).

A request's prompt is one message of the user, and each sample a request of its own. The reply is the completion as it
is: `agents.engines.answers` makes a program of it. The client is the supporters' (`agents.engines.endpoint`). Every
request is paid for, so it is entered in the run's ledger, and a spent budget ends the process; the run can be resumed
with a larger one.

The client is not the `openai` package: that bounds each read, not the whole exchange, unpacks what it is sent and
logs headers, and would stand beside the one client that the supporters need anyway.
"""

from collections.abc import Mapping
from functools import partial
from typing import Any

from atlas_gym.agents.engines.endpoint import ChatClient, Message, prompt_estimate
from atlas_gym.agents.engines.engine import Completion, Request, Sampling, cut
from atlas_gym.agents.engines.http import BUSY, EndpointError, ServerReply
from atlas_gym.agents.engines.samples import sample_seed
from atlas_gym.agents.engines.server import GivenUp, ServerGenerator
from atlas_gym.agents.engines.settings import ChatSettings
from atlas_gym.agents.engines.spending import Ledger

_TEXT = {"type": "string"}


def _object(**fields: Mapping[str, Any]) -> Mapping[str, Any]:
    """JSON schema of an object with all of these fields and no others."""
    return {"type": "object", "properties": fields, "required": list(fields), "additionalProperties": False}


_SCHEMAS: Mapping[str, Mapping[str, Any]] = {
    "program": _object(program=_TEXT),
    "diff": _object(edits={"type": "array", "items": _object(search=_TEXT, replace=_TEXT)}),
}
"""What a reply is to be, by the end of the request, where the server can be made to keep to it."""

_HINTS = {
    "program": '\n\nReply with a JSON object whose field "program" is the whole program.',
    "diff": '\n\nReply with a JSON object whose field "edits" lists the blocks, each with "search" and "replace".',
}


class ChatGenerator(ServerGenerator):
    """A :class:`agents.engines.engine.Generator` behind a chat endpoint: what it refuses, and what it has cost."""

    settings: ChatSettings

    def __init__(self, settings: ChatSettings, sampling: Sampling, ledger: Ledger) -> None:
        super().__init__(settings, sampling)
        self._ledger = ledger
        self._chat = ChatClient(settings)

    def greet(self) -> None:
        """One short exchange. :class:`BackendError` in words if this is no endpoint that will ever answer."""
        try:
            self._short()
        except EndpointError as error:
            if error.status is None or error.status < BUSY:
                raise self.hopeless(error) from None

    def _short(self) -> None:
        """Have a short message answered."""
        self._reply("Reply with the word yes.", "", 0, 1.0)

    def _sample(self, request: Request, sample: int) -> Completion | None:
        """One reply; None if the server does not write it."""
        seed = sample_seed(request, sample)
        temperature = self.sampling.temperature
        try:
            reply = self.patiently(partial(self._reply, request.prompt, request.stop, seed, temperature))
        except GivenUp:
            return None
        text, ended = cut(reply.text, request.stop)
        return Completion(text, reply.completion_tokens, ended or reply.finished)

    def _reply(self, prompt: str, stop: str, seed: int, temperature: float) -> ServerReply:
        self._ledger.require_budget(self.settings)
        self.key()
        schema = _SCHEMAS.get(stop) if self._chat.constrains else None
        messages = (Message("user", prompt + (_HINTS[stop] if schema else "")),)
        try:
            reply = self._chat.ask(
                messages, seed=seed, schema=schema, temperature=temperature,
                deadline_s=self.settings.deadline_s, max_bytes=self.settings.reply_bytes,
            )  # fmt: skip
        except EndpointError as error:
            if error.reached and error.status is None:  # it may have written before the exchange failed
                self._ledger.enter(self.settings, prompt_estimate(messages), 0)
            raise
        self._ledger.enter(self.settings, reply.prompt_tokens, reply.completion_tokens)
        return reply
