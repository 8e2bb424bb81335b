"""What a role may spend, and what it has spent.

The budget is a fold over the role's :class:`SupporterCall` records and nothing else. A resumed run replays
the stored records and stands exactly where the killed one stood.

A server that keeps failing is left in peace for a few calls: otherwise an endpoint that hangs would cost
every consultation its full deadline.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass

from agents.engines.settings import RequestLimits
from agents.supporters.call import SupporterCall


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


@dataclass(frozen=True)
class Usage:
    """What a role has spent in this run."""

    calls: int = 0
    """Consultations that reached for the server."""
    answered: int = 0
    """Consultations of these that ended in usable advice."""
    tokens: int = 0
    """Tokens read and written."""
    seconds: float = 0.0
    """Wall-clock time, seconds."""


class Budget:
    """Remaining means of one role. Several threads may use it; those in flight can overshoot it together."""

    def __init__(self, limits: CallLimits) -> None:
        self.limits = limits
        self._lock = threading.Lock()
        self._usage = Usage()
        self._failures = 0
        self._resting = 0

    @property
    def usage(self) -> Usage:
        """What has been spent so far."""
        with self._lock:
            return self._usage

    def refusal(self) -> str:
        """Why the next consultation must not reach for the server; empty if it may."""
        with self._lock:
            used, limits = self._usage, self.limits
            if used.calls >= limits.calls:
                return f"the budget of {limits.calls} calls is spent"
            if used.tokens >= limits.tokens:
                return f"the budget of {limits.tokens} tokens is spent"
            if used.seconds >= limits.seconds:
                return f"the budget of {limits.seconds:g} seconds is spent"
            if self._resting:
                return f"left alone after {self._failures} failed calls in a row ({self._resting} to go)"
            return ""

    def deadline(self) -> float:
        """Seconds that the next consultation may take."""
        with self._lock:
            return max(0.0, min(self.limits.deadline_s, self.limits.seconds - self._usage.seconds))

    def record(self, call: SupporterCall) -> None:
        """Account for a finished consultation."""
        with self._lock:
            if call.attempts == 0:
                self._resting = max(0, self._resting - 1)
                return
            answered = call.status == "ok"
            self._usage = Usage(
                calls=self._usage.calls + 1,
                answered=self._usage.answered + answered,
                tokens=self._usage.tokens + call.tokens,
                seconds=self._usage.seconds + call.seconds,
            )
            self._failures = 0 if answered else self._failures + 1
            if self.limits.rest_after and self._failures >= self.limits.rest_after:
                self._resting = self.limits.rest_calls
