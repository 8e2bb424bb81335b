"""A supporter and how it is consulted: by rules, or by a language model that is asked, checked and asked again.

A consultation ends, within its deadline and whatever a server does, in advice that is always usable (neutral if there
is none) and in its record, which the loop stores before it acts on the advice. A role's `Budget` is a fold over its
records, so a resumed run stands exactly where the killed one stood. A server that keeps failing is left alone for a few
calls.
"""

from __future__ import annotations

import json
import time
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Generic, Literal, Protocol, TypeVar

from atlas_gym.agents.engines.client import ChatClient, EndpointError, token_estimate
from atlas_gym.agents.supporters.messages import Reply, ReplyError, json_schema, parse_reply, role_messages
from atlas_gym.agents.supporters.settings import CallLimits, RoleSettings, SupporterSettings
from atlas_gym.seeding import torch_seed
from atlas_gym.text import clean, one_line

Role = Literal["exploration", "strategist", "inspector"]

ROLES: tuple[Role, ...] = ("exploration", "strategist", "inspector")

Key = tuple[str | int, ...]
"""Names one consultation within a run, for example ``("round", 3, "island", 1)``; seeds its random stream."""

_LONGEST_REPLY = 65_536
"""Longest reply text that is considered, characters."""
_PAUSE_S = 0.25
"""Wait before asking again, seconds; doubles with each failure."""

_REFUSED_REPLY_CHARS = 2_000
"""Of a reply that could not be used, this much is kept in the record."""
_REST_AFTER, _REST_CALLS = 3, 4
"""Failed consultations in a row after which the server is left alone, and for how many consultations."""


@dataclass(frozen=True)
class SupporterRequest:
    """Base of the roles' requests."""

    key: Key  # name of the consultation


class _Advice(Protocol):
    def summary(self) -> str:
        """The advice in one line, for the record."""
        ...


Request = TypeVar("Request", bound=SupporterRequest)
Advice = TypeVar("Advice", bound=_Advice)
Answer = TypeVar("Answer", bound=Reply)


@dataclass(frozen=True)
class SupporterCall:
    """The record of one consultation."""

    role: Role  # which supporter was asked
    form: Literal["rules", "llm"]  # ``rules`` or ``llm``
    model: str  # model name the endpoint was asked for; empty for rules
    key: Key  # the consultation's name within the run
    # ``ok`` if the advice comes from the supporter, ``skipped`` if it is the neutral one
    status: Literal["ok", "skipped"]
    reason: str = ""  # why it was skipped, or how earlier attempts failed; never holds text of the server's
    # the accepted reply, whole; of a refused one the beginning. Cleaned of control characters
    reply: str = ""
    reply_chars: int = 0  # length of the last reply before it was cut for the record, characters
    attempts: int = 0  # requests made
    prompt_tokens: int = 0  # tokens read by the model over all attempts, as the server says or estimated
    # tokens written by the model over all attempts, as the server says or estimated
    completion_tokens: int = 0
    seconds: float = 0.0  # wall-clock time of the consultation
    outcome: str = ""  # the advice after validation and bounding, in one line

    @property
    def tokens(self) -> int:
        """Tokens read and written."""
        return self.prompt_tokens + self.completion_tokens

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> SupporterCall:
        """The record of these values, as the run store has them; further entries (its own columns) are ignored."""
        known = {name: values[name] for name in cls.__dataclass_fields__ if name in values}
        return cls(**known | {"key": tuple(values["key"])})


@dataclass(frozen=True)
class Consultation(Generic[Advice]):
    """Advice and the record of how it came about."""

    advice: Advice  # validated and bounded advice; neutral if the call was skipped
    call: SupporterCall  # the record to store before the advice is acted on


class Budget:
    """Remaining means of one role."""

    def __init__(self, limits: CallLimits) -> None:
        self.limits = limits
        self.calls = 0  # consultations that reached for the server
        self.tokens = 0  # tokens read and written
        self._failures = 0
        self._resting = 0

    def refusal(self) -> str:
        """Why the next consultation must not reach for the server; empty if it may."""
        for spent, limit, name in (
            (self.calls, self.limits.calls, "calls"), (self.tokens, self.limits.tokens, "tokens"),
        ):  # fmt: skip
            if spent >= limit:
                return f"the budget of {limit:.12g} {name} is spent"
        if self._resting:
            return f"left alone after {self._failures} failed calls in a row ({self._resting} to go)"
        return ""

    def record(self, call: SupporterCall) -> None:
        """Account for a finished consultation."""
        if call.attempts == 0:
            self._resting = max(0, self._resting - 1)
            return
        self.calls += 1
        self.tokens += call.tokens
        self._failures = 0 if call.status == "ok" else self._failures + 1
        if self._failures >= _REST_AFTER:
            self._resting = _REST_CALLS


class Supporter(ABC, Generic[Request, Advice, Answer]):
    """A role in either of its forms, which a subclass fills in."""

    role: ClassVar[Role]  # which supporter it is
    reply: type[Answer]  # the schema of its model's replies

    def __init__(self, settings: SupporterSettings | None = None, seed: int = 0) -> None:
        """`seed`: the run's, of the rules' draws and of what is sent to the server."""
        self.settings, self.seed = settings or SupporterSettings(), seed
        own: RoleSettings = getattr(self.settings, self.role)
        self.budget = Budget(own.limits)
        self.client: ChatClient | None = None
        if own.form == "llm" and own.endpoint is not None:
            self.client, self._temperature = ChatClient(own.endpoint), own.endpoint.temperature

    @abstractmethod
    def advise(self, request: Request) -> tuple[Advice, str]:
        """The rules' advice, and why it is the neutral advice; empty if it is not."""

    @abstractmethod
    def values(self, request: Request) -> Mapping[str, str]:
        """Values of the placeholders in the model's template, besides ``$schema``."""

    @abstractmethod
    def bounded(self, request: Request, reply: Answer) -> Advice:
        """The advice that a model's reply amounts to, within the role's bounds."""

    @abstractmethod
    def neutral(self, request: Request) -> Advice:
        """The advice where no usable reply came in time."""

    def interpret(self, request: Request, text: str) -> Advice:
        """The advice that a reply's text amounts to; raises :class:`ReplyError` if it is no reply at all."""
        return self.bounded(request, parse_reply(text, self.reply))

    def resume(self, calls: Iterable[SupporterCall]) -> None:
        """Account for the calls that an earlier process of this run made."""
        for call in calls:
            if call.role == self.role and call.form == "llm":
                self.budget.record(call)

    def consult(self, request: Request) -> Consultation[Advice]:
        """The supporter's advice, or the neutral one."""
        if self.client is not None:
            return self._ask(self.client, request)
        began = time.monotonic()
        advice, skipped = self.advise(request)
        return Consultation(advice, SupporterCall(
            self.role, "rules", "", request.key, "skipped" if skipped else "ok", skipped,
            seconds=time.monotonic() - began, outcome=one_line(advice.summary(), 1_000),
        ))  # fmt: skip

    def _ask(self, client: ChatClient, request: Request) -> Consultation[Advice]:
        """Up to ``attempts`` questions to the model within one deadline."""
        limits, began = self.budget.limits, time.monotonic()
        deadline = began + limits.deadline_s
        schema = json_schema(self.reply)
        system, user = role_messages(
            self.role, {**self.values(request), "schema": json.dumps(schema, indent=1)}
        )
        advice, text, attempts, read, written = None, "", 0, 0, 0
        refusal = self.budget.refusal()
        problems = [refusal] if refusal else []
        while not refusal and advice is None and attempts < limits.attempts:
            asked = user
            if attempts:  # a busy server is given time; nothing tells when it is free
                pause = _PAUSE_S * 2 ** (attempts - 1)
                time.sleep(max(0.0, min(pause, deadline - time.monotonic())))
                again = (
                    f"An earlier reply could not be used: {problems[-1]}. Reply with the JSON object alone."
                )
                asked = {**user, "content": f"{user['content']}\n\n{again}"}
            left = deadline - time.monotonic()
            if left <= 0:
                problems.append("no time left for another attempt")
                break
            seed = torch_seed(self.seed, "supporter", self.role, *request.key, attempts) % 2**31  # 31 bits
            attempts += 1
            try:
                reply = client.ask(
                    (system, asked), seed=seed, schema=schema, temperature=self._temperature,
                    deadline_s=left, max_bytes=limits.reply_bytes,
                )  # fmt: skip
                text = reply.text
                read, written = read + reply.prompt_tokens, written + reply.completion_tokens
                if len(text) > _LONGEST_REPLY:
                    raise ReplyError(f"the reply is longer than {_LONGEST_REPLY} characters")
                advice = self.interpret(request, text)
            except (EndpointError, ReplyError) as error:
                if isinstance(error, EndpointError) and error.reached:
                    read += token_estimate(system["content"], asked["content"])
                problems.append(str(error))
        call = SupporterCall(
            self.role, "llm", client.endpoint.model, request.key, "skipped" if advice is None else "ok",
            reason="; ".join(problems), reply=clean(text, _REFUSED_REPLY_CHARS) if advice is None else text,
            reply_chars=len(text), attempts=attempts, prompt_tokens=read, completion_tokens=written,
            seconds=time.monotonic() - began,
            outcome="" if advice is None else one_line(advice.summary(), 1_000),
        )  # fmt: skip
        self.budget.record(call)
        return Consultation(self.neutral(request) if advice is None else advice, call)
