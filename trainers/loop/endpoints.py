"""The servers of a run, asked once when it begins: nobody is to hear after hours of one that was never there."""

from collections.abc import Iterator

from agents.engines.completions_client import CompletionsClient
from agents.engines.endpoint import ChatClient, Message
from agents.engines.engine import BackendError
from agents.engines.http import BUSY, EndpointError
from agents.supporters.call import ROLES
from agents.supporters.settings import SupporterSettings
from trainers.loop.config import RunConfig


def greet_supporters(settings: SupporterSettings) -> None:
    """Ask the models behind the supporters for a word each.

    Raises:
        BackendError: one cannot be reached, or refuses; the message names the setting.
    """
    for role in ROLES:
        own = getattr(settings, role)
        if own.form != "llm" or own.endpoint is None:
            continue
        try:
            ChatClient(own.endpoint).ask(
                (Message("user", "Reply with the word yes."),), seed=0, schema=None,
                deadline_s=own.limits.deadline_s, max_bytes=own.limits.reply_bytes,
            )  # fmt: skip
        except EndpointError as error:
            if not error.reached or (error.status or BUSY) < BUSY:
                raise BackendError(
                    f"supporters.{role}: {own.endpoint.model} at {own.endpoint.base_url} does not answer: {error}. "
                    f"Check the endpoint, or go without: --supporters.{role}.form off"
                ) from None


def silent_servers(config: RunConfig) -> Iterator[str]:
    """In words, each server with `/v1/completions` that does not answer now; a run waits for it."""
    for backend in (config.backend, *(own.backend for own in config.island_models)):
        server = backend.openai
        if backend.name == "openai" and not CompletionsClient(server).alive():
            yield f"{server.model} at {server.base_url} does not answer; it is waited for, up to {server.wait_s:.0f} s"
