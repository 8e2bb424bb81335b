"""The record that every consultation of a supporter leaves behind, and what the loop gets back.

A supporter never raises at its caller and never blocks it for long. It answers with a *consultation*: advice
that is always usable (neutral if there is none) and the record of the call, which says whether the advice is
real or why it was skipped. The loop stores the record before it acts on the advice.

What a role may spend, and what it has spent (`Budget`), is a fold over its records and nothing else: a resumed run
replays the stored ones and stands exactly where the killed one stood. A server that keeps failing is left in peace for
a few calls: otherwise an endpoint that hangs would cost every consultation its full deadline.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Generic, Literal, Protocol, TypeVar

from agents.engines.settings import RequestLimits

Role = Literal["exploration", "strategist", "inspector"]

ROLES: tuple[Role, ...] = ("exploration", "strategist", "inspector")

Key = tuple[str | int, ...]
"""Names one consultation within a run, for example ``("round", 3, "island", 1)``; seeds its random stream."""

Request = TypeVar("Request", contravariant=True)
Advice = TypeVar("Advice")


@dataclass(frozen=True)
class SupporterCall:
    """One consultation, answered or skipped."""

    role: Role
    """Which supporter was asked."""
    form: Literal["rules", "llm"]
    """``rules`` or ``llm``."""
    model: str
    """Model name the endpoint was asked for; empty for rules."""
    key: Key
    """The consultation's name within the run."""
    status: Literal["ok", "skipped"]
    """``ok`` if the advice comes from the supporter, ``skipped`` if it is the neutral one."""
    reason: str = ""
    """Why it was skipped, or which earlier attempts failed before one succeeded. Never holds text of the
    server's."""
    prompt_hash: str = ""
    """SHA-256 (hex) of the messages sent; empty if none were."""
    prompt_chars: int = 0
    """Length of the messages, characters."""
    reply: str = ""
    """The accepted reply, whole; of a refused one the beginning. Cleaned of control characters."""
    reply_chars: int = 0
    """Length of the last reply before it was cut for the record, characters."""
    attempts: int = 0
    """Requests made."""
    prompt_tokens: int = 0
    """Tokens read by the model over all attempts, as the server says or estimated."""
    completion_tokens: int = 0
    """Tokens written by the model over all attempts, as the server says or estimated."""
    seconds: float = 0.0
    """Wall-clock time of the consultation."""
    outcome: str = ""
    """The advice after validation and bounding, in one line."""

    @property
    def tokens(self) -> int:
        """Tokens read and written."""
        return self.prompt_tokens + self.completion_tokens

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> SupporterCall:
        """The record of these values, as the run store has them; further entries (its own columns) are ignored."""
        known = {name: values[name] for name in cls.__dataclass_fields__ if name in values}
        return cls(**known | {"key": tuple(values["key"])})


def rules_call(role: Role, key: Key, began: float, summary: str, skipped: str = "") -> SupporterCall:
    """The record of an answer by rules, begun at a moment of the monotonic clock; `skipped`: why there is none."""
    # Here, because settings import this module and wait for nothing heavy.
    from atlas_gym.text import one_line

    return SupporterCall(
        role, "rules", "", key, "skipped" if skipped else "ok", skipped,
        seconds=time.monotonic() - began, outcome=one_line(summary, 1_000),
    )  # fmt: skip


@dataclass(frozen=True)
class Consultation(Generic[Advice]):
    """What a supporter hands back."""

    advice: Advice
    """Validated and bounded advice; neutral if the call was skipped."""
    call: SupporterCall
    """The record to store before the advice is acted on."""


class Supporter(Protocol[Request, Advice]):
    """Either form of a role."""

    def consult(self, request: Request) -> Consultation[Advice]:
        """Advice; neutral if the call was skipped. Never raises for a bad reply."""
        ...

    def resume(self, calls: Iterable[SupporterCall]) -> None:
        """Take up the budget where an earlier process of this run left it; rules have none."""
        return


@dataclass(frozen=True)
class CallLimits(RequestLimits):
    """Limits of one consultation and of a role over the whole run."""

    reply_chars: int = 16_384
    """Longest reply text that is considered, characters."""
    calls: int = 5_000
    """Consultations of the run that may reach the server."""
    tokens: int = 5_000_000
    """Tokens of the run, read and written together."""
    seconds: float = 3_600.0
    """Wall-clock time of the run spent waiting for this role, seconds."""
    rest_after: int = 3
    """Failed consultations in a row after which the server is left alone for a while; 0 never rests."""
    rest_calls: int = 4
    """Consultations that are skipped without a request each time the server is left alone."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.reply_chars < 1:
            raise ValueError("reply_chars must be positive")
        if min(self.calls, self.tokens, self.seconds, self.rest_after, self.rest_calls) < 0:
            raise ValueError("a budget cannot be negative")


class Budget:
    """Remaining means of one role. Several threads may use it; those in flight can overshoot it together."""

    def __init__(self, limits: CallLimits) -> None:
        self.limits = limits
        self.calls = 0
        """Consultations that reached for the server."""
        self.tokens = 0
        """Tokens read and written."""
        self.seconds = 0.0
        """Wall-clock time, seconds."""
        self._lock = threading.Lock()
        self._failures = 0
        self._resting = 0

    def refusal(self) -> str:
        """Why the next consultation must not reach for the server; empty if it may."""
        with self._lock:
            limits = self.limits
            if self.calls >= limits.calls:
                return f"the budget of {limits.calls} calls is spent"
            if self.tokens >= limits.tokens:
                return f"the budget of {limits.tokens} tokens is spent"
            if self.seconds >= limits.seconds:
                return f"the budget of {limits.seconds:g} seconds is spent"
            if self._resting:
                return f"left alone after {self._failures} failed calls in a row ({self._resting} to go)"
            return ""

    def deadline(self) -> float:
        """Seconds that the next consultation may take."""
        with self._lock:
            return max(0.0, min(self.limits.deadline_s, self.limits.seconds - self.seconds))

    def record(self, call: SupporterCall) -> None:
        """Account for a finished consultation."""
        with self._lock:
            if call.attempts == 0:
                self._resting = max(0, self._resting - 1)
                return
            self.calls += 1
            self.tokens += call.tokens
            self.seconds += call.seconds
            self._failures = 0 if call.status == "ok" else self._failures + 1
            if self.limits.rest_after and self._failures >= self.limits.rest_after:
                self._resting = self.limits.rest_calls
