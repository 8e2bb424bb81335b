"""What the three language-model supporters have in common: ask, validate, ask again, record, skip.

A consultation makes up to ``attempts`` requests within one deadline. It ends in advice or in a record that
says why there is none; it raises for nothing that a server or its reply can do.

What a role may spend, and what it has spent (`Budget`), is a fold over its records and nothing else: a resumed run
replays the stored ones and stands exactly where the killed one stood. A server that keeps failing is left in peace for
a few calls: otherwise an endpoint that hangs would cost every consultation its full deadline.
"""

import time
from abc import abstractmethod
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from atlas_gym.agents.engines.endpoint import ChatClient, Message, prompt_estimate
from atlas_gym.agents.engines.http import EndpointError
from atlas_gym.agents.supporters.call import (
    Advice,
    Consultation,
    Key,
    Request,
    Role,
    Supporter,
    SupporterCall,
)
from atlas_gym.agents.supporters.prompts import Data, fill, role_template
from atlas_gym.agents.supporters.replies import Reply, ReplyError, json_schema, schema_text
from atlas_gym.agents.supporters.settings import CallLimits, RoleSettings, SupporterSettings
from atlas_gym.seeding import torch_seed
from atlas_gym.text import clean, one_line

_REFUSED_REPLY_CHARS = 2_000
"""Of a reply that could not be used, this much is kept in the record."""


class Budget:
    """Remaining means of one role."""

    def __init__(self, limits: CallLimits) -> None:
        self.limits = limits
        self.calls = 0
        """Consultations that reached for the server."""
        self.tokens = 0
        """Tokens read and written."""
        self.seconds = 0.0
        """Wall-clock time, seconds."""
        self._failures = 0
        self._resting = 0

    def refusal(self) -> str:
        """Why the next consultation must not reach for the server; empty if it may."""
        for unit in ("calls", "tokens", "seconds"):
            if getattr(self, unit) >= getattr(self.limits, unit):
                return f"the budget of {getattr(self.limits, unit):.12g} {unit} is spent"
        if self._resting:
            return f"left alone after {self._failures} failed calls in a row ({self._resting} to go)"
        return ""

    def deadline(self) -> float:
        """Seconds that the next consultation may take."""
        return max(0.0, min(self.limits.deadline_s, self.limits.seconds - self.seconds))

    def record(self, call: SupporterCall) -> None:
        """Account for a finished consultation."""
        if call.attempts == 0:
            self._resting = max(0, self._resting - 1)
            return
        self.calls += 1
        self.tokens += call.tokens
        self.seconds += call.seconds
        self._failures = 0 if call.status == "ok" else self._failures + 1
        if self.limits.rest_after and self._failures >= self.limits.rest_after:
            self._resting = self.limits.rest_calls


@dataclass
class _Progress:
    """One consultation: what is asked, and what its attempts have used and met so far."""

    began: float
    messages: tuple[Message, ...]
    attempts: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0
    reply: str = ""
    problems: list[str] = field(default_factory=list)


class LLMSupporter(Supporter[Request, Advice]):
    """A role as a language model, with its budget. Whoever derives from it says what is asked and how it is read."""

    role: Role
    """Which supporter it is."""
    reply: type[Reply]
    """The schema of its replies."""

    def __init__(self, settings: SupporterSettings, seed: int) -> None:
        own: RoleSettings = getattr(settings, self.role)
        if own.endpoint is None:  # RoleSettings refuses this already
            raise ValueError(f"the role {self.role} has no endpoint")
        self.settings = settings
        self.endpoint = own.endpoint
        self.client = ChatClient(own.endpoint)
        self.budget = Budget(own.limits)
        self._template = role_template(self.role, own.prompt)
        self._seed = seed

    @abstractmethod
    def values(self, request: Request) -> Mapping[str, str | Data]:
        """What the template's placeholders stand for, besides ``$schema``."""

    @abstractmethod
    def interpret(self, request: Request, text: str) -> Advice:
        """The advice that a reply amounts to; raises :class:`ReplyError` for a reply that is of no use."""

    @abstractmethod
    def neutral(self, request: Request) -> Advice:
        """The advice where no usable reply came in time."""

    def resume(self, calls: Iterable[SupporterCall]) -> None:
        """Account for the calls that an earlier process of this run made."""
        for call in calls:
            if call.role == self.role and call.form == "llm":
                self.budget.record(call)

    def consult(self, request: Request) -> Consultation[Advice]:
        """The model's advice, or the neutral one."""
        began = time.monotonic()
        values = {**self.values(request), "schema": schema_text(self.reply)}
        progress = _Progress(began, fill(self._template, values))
        advice = None
        refusal = self.budget.refusal()
        if refusal:
            progress.problems.append(refusal)
        else:
            advice = self._attempts(request, progress)
        call = self._record(request.key, progress, advice)
        self.budget.record(call)
        return Consultation(self.neutral(request) if advice is None else advice, call)

    def _attempts(self, request: Request, progress: _Progress) -> Advice | None:
        limits, deadline = self.budget.limits, progress.began + self.budget.deadline()
        for attempt in range(limits.attempts):
            left = deadline - time.monotonic()
            if left <= 0:
                progress.problems.append("no time left for another attempt")
                return None
            asked = _with_reminder(progress) if attempt else progress.messages
            progress.attempts += 1
            try:
                progress.reply = self._request((*request.key, attempt), asked, left, progress)
                if len(progress.reply) > limits.reply_chars:
                    raise ReplyError(f"the reply is longer than {limits.reply_chars} characters")
                return self.interpret(request, progress.reply)
            except (EndpointError, ReplyError) as error:
                progress.problems.append(str(error))
            if attempt + 1 < limits.attempts:  # a busy server is given time; nothing tells when it is free
                time.sleep(max(0.0, min(limits.pause_s * 2**attempt, deadline - time.monotonic())))
        return None

    def _request(self, key: Key, messages: tuple[Message, ...], left: float, progress: _Progress) -> str:
        seed = torch_seed(self._seed, "supporter", self.role, *key) % 2**31  # servers take 31 bits
        try:
            reply = self.client.ask(
                messages, seed=seed, schema=json_schema(self.reply), temperature=self.endpoint.temperature,
                deadline_s=left, max_bytes=self.budget.limits.reply_bytes,
            )  # fmt: skip
        except EndpointError as error:
            progress.prompt_tokens += prompt_estimate(messages) if error.reached else 0
            raise
        progress.prompt_tokens += reply.prompt_tokens
        progress.completion_tokens += reply.completion_tokens
        return reply.text

    def _record(self, key: Key, progress: _Progress, advice: Advice | None) -> SupporterCall:
        answered = advice is not None
        return SupporterCall(
            self.role, "llm", self.endpoint.model, key, "ok" if answered else "skipped",
            reason="; ".join(progress.problems),
            reply=progress.reply if answered else clean(progress.reply, _REFUSED_REPLY_CHARS),
            reply_chars=len(progress.reply), attempts=progress.attempts, prompt_tokens=progress.prompt_tokens,
            completion_tokens=progress.completion_tokens, seconds=time.monotonic() - progress.began,
            outcome=one_line(advice.summary(), 1_000) if advice is not None else "",
        )  # fmt: skip


def _with_reminder(progress: _Progress) -> tuple[Message, ...]:
    """The messages, with a closing line that says what was wrong with the last reply."""
    *before, last = progress.messages
    problem = progress.problems[-1]
    reminder = f"\n\nAn earlier reply could not be used: {problem}. Reply with the JSON object alone."
    return (*before, replace(last, content=last.content + reminder))
