"""The record that every consultation of a supporter leaves behind, and what the loop gets back.

A supporter never raises at its caller and never blocks it for long. It answers with a *consultation*: advice
that is always usable (neutral if there is none) and the record of the call, which says whether the advice is
real or why it was skipped. The loop stores the record before it acts on the advice.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Generic, Literal, TypeVar

Role = Literal["exploration", "strategist", "inspector"]

ROLES: tuple[Role, ...] = ("exploration", "strategist", "inspector")

Form = Literal["rules", "llm"]

Key = tuple[str | int, ...]
"""Names one consultation within a run, for example ``("round", 3, "island", 1)``; seeds its random stream."""

Advice = TypeVar("Advice")


@dataclass(frozen=True)
class SupporterCall:
    """One consultation, answered or skipped."""

    role: Role
    """Which supporter was asked."""
    form: Form
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

    def as_dict(self) -> dict[str, Any]:
        """Plain values for the run store."""
        return asdict(self) | {"key": list(self.key)}

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> SupporterCall:
        """The record that :meth:`as_dict` wrote; further entries (the store's own columns) are ignored."""
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
