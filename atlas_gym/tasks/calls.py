"""Calling a confined program as if it were a function of this process: the trusted side of `call_driver`.

    wish = program(size, room).array(len(room))      # the answer is used once it is what it must be

An `Answer` is what a program returned and nothing more: its author may have replaced everything in the worker. So it
is used through `array`, `number`, `integer`, `text` or `parts`, which end the evaluation with a message for the
prompt unless it is of the kind, the shape and the range that were asked for.
"""

import contextlib
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from atlas_gym.evaluation.channel import CandidateError, Channel
from atlas_gym.sandbox.call_driver import CALL, CALL_MANY, KEEP, LOAD, REPLY, REQUEST, RESTART
from atlas_gym.sandbox.codec import Kept, Malformed, decode, encode
from atlas_gym.tasks.answer import Answer

MAX_REPLY_BYTES = 8 * 2**20
"""Longest reply that is read."""


class Enough(BaseException):
    """A smoke run has seen enough of the program; no error, so that no task's own `except Exception` keeps it."""


@contextlib.contextmanager
def scoring() -> Iterator[None]:
    """Arithmetic with answers: what is not finite in the end is refused there, that a small answer's square is 0 is no
    error at all, and what overflows is the answer's fault."""
    try:
        with np.errstate(over="ignore", under="ignore", invalid="ignore"):
            yield
    except OverflowError as error:  # the square of a finite answer need not be one
        raise CandidateError(f"its answers are too large to be scored: {error}") from None


class Program:
    """One run of the program, with module-level variables of its own. Call it as its author defined it."""

    __slots__ = ("_calls", "_run")

    def __init__(self, calls: "Calls", run: int) -> None:
        self._calls = calls
        self._run = run

    def __call__(self, *arguments: Any) -> Answer:
        """Call the program's function and wait for what it returns.

        Args:
            arguments: None, truth values, integers of 64 bits, floats, texts, bytes, numpy arrays, and lists, tuples
                and dictionaries with texts as keys of these; or what `keep` returned.
        """
        calls = self._calls
        return Answer(calls.name, calls.ask(CALL, self._run, arguments))

    def batch(self, many: Sequence[tuple], *, all_visible: bool = False) -> list[Answer]:
        """Call it once for each tuple of arguments, one after the other; see `Calls.ask_all`."""
        return self._calls.ask_all([(self, arguments) for arguments in many], all_visible=all_visible)

    def keep(self, value: Any) -> Kept:
        """Send a value once; what is returned stands for it in later calls. Programs cannot write into it."""
        return self._calls.keep(value)


class Calls:
    """The conversation about one program: start runs of it and call them.

    Args:
        channel: The way to the worker.
        name: The program's function, for messages.
        seed: Of the random generators that programs may use, set anew for every run.
        most: Calls after which the next one raises `Enough`; None: any number.
    """

    def __init__(self, channel: Channel, name: str, seed: int, most: int | None = None) -> None:
        self.name = name
        self._channel = channel
        self._seed = seed
        self._runs = 0
        self._kept = 0
        self._left = most

    def restart(self) -> Program:
        """A fresh run of the program; earlier ones end, and what was kept is forgotten."""
        self._runs = self._kept = 0
        return self._start(RESTART)

    def start(self) -> Program:
        """A fresh run of the program beside the earlier ones."""
        return self._start(LOAD)

    def ask_all(
        self, calls: Sequence[tuple[Program, Sequence[Any]]], *, all_visible: bool = False
    ) -> list[Answer]:
        """Call several runs of the program, in this order.

        Args:
            calls: Runs and their arguments.
            all_visible: All in one exchange, which is up to twice as fast. A program that looks around its process
                then sees the arguments of the later calls before it answers the first, and those of other runs: only
                where they tell nothing of what is to be answered.

        Raises ValueError unless the calls of one exchange have as many arguments each.
        """
        if not all_visible:
            return [program(*arguments) for program, arguments in calls]
        runs = [program._run for program, _ in calls]
        if len({len(arguments) for _, arguments in calls}) > 1:
            raise ValueError("the calls of one exchange need as many arguments each")
        # One list for each argument: numbers alone in a list are packed as one block.
        columns = map(list, zip(*(arguments for _, arguments in calls), strict=True))
        answers = self.ask(CALL_MANY, 0, [runs, *columns])
        if type(answers) is not list or len(answers) != len(runs):
            raise CandidateError(f"{self.name} did not answer every call")
        return [Answer(self.name, answer) for answer in answers]

    def keep(self, value: Any) -> Kept:
        """See `Program.keep`; all runs may be given it."""
        self.ask(KEEP, 0, value)
        self._kept += 1
        return Kept(self._kept - 1)

    def ask(self, operation: int, run: int, value: Any) -> Any:
        """One exchange: the value that comes back for this one."""
        if self._left is not None and operation in (CALL, CALL_MANY):
            if self._left <= 0:
                raise Enough
            self._left -= 1 if operation == CALL else len(value[0])
        try:
            request = encode(value, REQUEST.size)
        except (TypeError, OverflowError) as error:
            raise TypeError(f"{self.name} cannot be given {error}") from None
        REQUEST.pack_into(request, 0, operation, run, len(request) - REQUEST.size)
        reply = self._channel.converse(request, REPLY, MAX_REPLY_BYTES)
        try:
            return decode(reply, REPLY.size)
        except Malformed as error:
            raise CandidateError(f"what {self.name} returned cannot be read: {error}") from None

    def _start(self, operation: int) -> Program:
        self.ask(operation, self._runs, self._seed)
        self._runs += 1
        return Program(self, self._runs - 1)
