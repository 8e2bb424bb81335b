"""Limits and outcomes of evaluations.

An `Evaluation` is returned for *every* program: exactly one `Status`, a score only if that is `ok`, and what the run
cost. It holds the `Judgement` that the task's trusted side passed on a program that played to the end.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from enum import StrEnum
from numbers import Integral, Real
from typing import Any

import numpy as np


class Status(StrEnum):
    """How an evaluation ended. Every evaluation ends in exactly one of these."""

    OK = "ok"
    """The program played to the end; its score counts."""
    INVALID = "invalid"
    """It does not parse, is too long, or does not define the entry function."""
    ERROR = "error"
    """It raised an exception or returned something that is not an answer; `detail` holds the message."""
    TIMEOUT = "timeout"
    """It used up its wall-clock or its CPU time."""
    MEMORY = "memory"
    """It asked for more memory than its budget."""
    VIOLATION = "violation"
    """It tried something that the confinement forbids, or spoke out of turn on the channel."""
    CRASHED = "crashed"
    """Its process ended without an answer: a crash of the interpreter, or an exit."""


STARVED = 8.0
"""An evaluation may take this many times its wall-clock limit if it waits for a core that long."""
ATTEMPTS = 3
"""How often an evaluation is tried that the machine spoils."""
BLAMELESS = (
    "The machine is to blame, not the program, which has no score. Check its free memory, its load and its limits"
    " on processes and open files, or evaluate fewer programs at a time; `python -m atlas_gym doctor` examines it."
)
"""What to say of an evaluation that the machine spoiled."""


class EvaluatorError(RuntimeError):
    """The evaluator itself failed; it says nothing about a program."""


class InfrastructureError(EvaluatorError):
    """The machine failed an evaluation in several attempts: a process did not start, was killed, or got no core.

    The program has no score and must get no reward.
    """


class ConfinementError(EvaluatorError):
    """The machine does not give the confinement that was asked for."""


_MOST_S = 250_000
"""Three days; the kernel waits for less than a month, and an evaluation may take eight times as long as its limit."""
_MOST = 2**31


@dataclass(frozen=True)
class Limits:
    """What one evaluation may use. The clock starts when the program is handed to its worker."""

    wall_s: float = 10.0
    """Seconds of wall-clock time (> 0), with the trusted side's work, without waiting for a core; see `workers`."""
    cpu_s: float = 10.0
    """Seconds of CPU time of the worker (> 0); the kernel counts whole seconds, so this is rounded up."""
    memory_mb: int = 512
    """Address space in MiB beyond the interpreter with its libraries (> 0)."""
    source_chars: int = 65536
    """Longest accepted program, in characters (> 0)."""
    error_chars: int = 500
    """Longest error text that is kept, in characters (> 0)."""

    def __post_init__(self) -> None:
        for bound in fields(self):
            value: Any = getattr(self, bound.name)
            kind: Any = Integral if bound.type is int else Real
            most, called = (_MOST, "whole number") if kind is Integral else (_MOST_S, "number")
            if not isinstance(value, kind) or not 0 < value < most:
                raise ValueError(f"{bound.name} is {value!r}; it must be a {called} above 0 and below {most}")

    def within(self, seconds: float) -> "Limits":
        """The same limits with no more wall-clock and CPU time than that."""
        return replace(self, wall_s=min(self.wall_s, seconds), cpu_s=min(self.cpu_s, seconds))


def limits_from(given: "Limits | Mapping[str, Any] | None", default: Limits) -> Limits:
    """The limits given to an environment: all, none, or those that differ from its default. Raises TypeError."""
    if given is None or isinstance(given, Limits):
        return given or default
    if not isinstance(given, Mapping):
        raise TypeError(
            f"limits is {given!r}; pass atlas_gym.evaluation.Limits(...) or a mapping of its fields"
        )
    known = [field.name for field in fields(Limits)]
    if unknown := given.keys() - set(known):
        raise TypeError(f"limits has no {', '.join(sorted(unknown))}; there are {', '.join(known)}")
    return replace(default, **given)


@dataclass(frozen=True)
class Judgement:
    """What a task's trusted side makes of a program that played to the end."""

    score: float
    """Finite; higher is better."""
    metrics: Mapping[str, float] = field(default_factory=dict)
    """Further figures by name, for tables and `info`."""
    diagnosis: str = ""
    """One or two sentences for the feedback text: where the score was lost."""
    traces: Mapping[str, np.ndarray] = field(default_factory=dict)
    """Arrays for plots and analysis, by name."""


@dataclass(frozen=True)
class Evaluation:
    """The outcome of one program on one task."""

    status: Status
    """How it ended."""
    score: float | None
    """The task's score, higher is better; None unless `status` is ok."""
    detail: str = ""
    """What went wrong, printable and bounded; empty if nothing did."""
    metrics: Mapping[str, float] = field(default_factory=dict)
    """The judgement's metrics; empty unless ok."""
    diagnosis: str = ""
    """The judgement's diagnosis; empty unless ok."""
    wall_s: float = 0.0
    """Seconds from handing over the program to the outcome."""
    cpu_s: float = 0.0
    """Seconds of CPU time of the worker, as the kernel counted them."""
    peak_memory_mb: float = 0.0
    """Largest resident size of the worker in MiB, the interpreter with its libraries included."""
    retries: int = 0
    """Attempts before this one that the machine spoiled, see `InfrastructureError`."""
    layers: tuple[str, ...] = ()
    """The confinement layers the worker was really under."""
    traces: Mapping[str, np.ndarray] = field(default_factory=dict)
    """The judgement's traces; empty unless ok."""

    @property
    def ok(self) -> bool:
        return self.status is Status.OK
