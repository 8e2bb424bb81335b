"""The record that every consultation of a supporter leaves behind, and what the loop gets back.

A supporter never raises at its caller and never blocks it for long. It answers with a *consultation*: advice
that is always usable (neutral if there is none) and the record of the call, which says whether the advice is
real or why it was skipped. The loop stores the record before it acts on the advice.
"""

from __future__ import annotations

import time
from abc import abstractmethod
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Generic, Literal, Protocol, TypeVar

from atlas_gym.agents.supporters.settings import SupporterSettings
from atlas_gym.text import one_line

Role = Literal["exploration", "strategist", "inspector"]

ROLES: tuple[Role, ...] = ("exploration", "strategist", "inspector")

Key = tuple[str | int, ...]
"""Names one consultation within a run, for example ``("round", 3, "island", 1)``; seeds its random stream."""


@dataclass(frozen=True)
class Question:
    """What a supporter is asked."""

    key: Key
    """Name of the consultation."""


class Summarised(Protocol):
    """Advice that can say itself in one line."""

    def summary(self) -> str:
        """The advice in one line, for the record."""
        ...


Request = TypeVar("Request", bound=Question, contravariant=True)
Advice = TypeVar("Advice", bound=Summarised)


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


class RuleSupporter(Supporter[Request, Advice]):
    """A role as rules. Whoever derives from it writes `advise`."""

    role: Role
    """Which supporter it is."""

    def __init__(self, settings: SupporterSettings | None = None, seed: int = 0) -> None:
        self.settings = settings or SupporterSettings()
        self.seed = seed

    @abstractmethod
    def advise(self, request: Request) -> tuple[Advice, str]:
        """The advice, and why it is the neutral one; empty if it is not."""

    def consult(self, request: Request) -> Consultation[Advice]:
        """What the rules say."""
        began = time.monotonic()
        advice, skipped = self.advise(request)
        return Consultation(advice, SupporterCall(
            self.role, "rules", "", request.key, "skipped" if skipped else "ok", skipped,
            seconds=time.monotonic() - began, outcome=one_line(advice.summary(), 1_000),
        ))  # fmt: skip
