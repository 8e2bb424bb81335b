"""What an evaluator needs to know of a task.

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
"""

from typing import Protocol

from atlas_gym.evaluation.channel import Channel
from atlas_gym.evaluation.result import Judgement, Limits


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
    def limits(self) -> Limits:
        """What one evaluation may use."""

    def prepare(self) -> None:
        """Draw what is hidden, or see that it is there; called before the program's clock starts."""

    def judge(self, channel: Channel) -> Judgement:
        """Play the trusted side and score the program.

        Raises `CandidateError` for an answer that is not acceptable, and lets those of the channel pass.
        """
