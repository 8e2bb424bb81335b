"""The seams of evaluation: what is scored, who scores it elsewhere, and what may go wrong.

A task is a small, frozen, picklable description. It names the entry function and the driver, and its
`judge` plays the trusted side. Hidden state (parameters, noise, test sets) is built inside `judge`, or
cached per process by it: never in the worker, never in the pickle.

The other half of the conversation is a driver module, which runs beside the program in the worker. It
imports only the standard library and numpy (and torch where `torch` is true), and offers

    def serve(load, pipe):          # load: () -> the entry function, from a fresh run of the program
        policy = load()             # once per replica: replicas do not share globals
        header = pipe.receive(8)    # exactly 8 bytes, as sent by `judge`
        pipe.send(payload)          # arrives at `judge` as channel.receive(len(payload))

`judge` and `serve` of one task must agree on sizes and order; a program that breaks the order only fails.

An evaluator on another machine, or in another process, is one more `RemoteEvaluator`: the scheduler then gives
it work, replaces it when it is lost and tries the work again.
"""

from collections.abc import Callable
from typing import Protocol, TypeAlias

from atlas_gym.evaluation.channel import Channel
from atlas_gym.evaluation.result import Evaluation, Judgement, Limits

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
    """The machine failed an evaluation: a process did not start, was killed from outside, or got no core.

    It says nothing about the program, which has no score and must get no reward. Evaluators and pools raise it
    when several attempts have failed.
    """


class ConfinementError(EvaluatorError):
    """The machine does not give the confinement that was asked for."""


class Lost(Exception):
    """A remote evaluator, or the way to it, is gone, or it did not answer in time."""


class Task(Protocol):
    """One scored problem for programs. See the module's docstring."""

    @property
    def function(self) -> str:
        """Name of the entry function that a program must define."""

    @property
    def driver(self) -> str:
        """Importable module that serves the program in the worker."""

    @property
    def torch(self) -> bool:
        """Whether workers come with torch imported."""

    @property
    def imports(self) -> tuple[str, ...]:
        """Further modules that workers come with."""

    @property
    def limits(self) -> Limits:
        """What one evaluation may use."""

    def prepare(self) -> None:
        """Draw what is hidden, or see that it is there; called before the program's clock starts."""

    def judge(self, channel: Channel) -> Judgement:
        """Play the trusted side and score the program.

        Raises `CandidateError` for an answer that is not acceptable, and lets those of the channel pass.
        """


class RemoteEvaluator(Protocol):
    """One evaluator elsewhere, which may vanish or fall silent at any moment."""

    def ready(self, wait_s: float) -> None:
        """Wait until it is up. Raises `Lost`, or `EvaluatorError` if it can never be of use."""

    def evaluate(self, program: str, task: Task, wait_s: float) -> Evaluation:
        """Raises `Lost`, or whatever the evaluator itself raised."""

    def stop(self) -> None:
        """Have it end, a running evaluation with it; from any thread, and more than once. Returns at once."""

    def kill(self) -> None:
        """`stop`, and wait until it has ended with everything it started, where that can be seen from here."""


Launch: TypeAlias = Callable[[], RemoteEvaluator]
"""Starts one; returns at once, before it is up."""
