"""The worker's side of a task of calls: runs the program as often as asked, calls it as asked.

A request is a head (operation, run of the program, length of the value) and a value; a reply is a head and a value.
Nothing here is trusted: a program that replaces any of it can send other answers, which are just answers. What is
checked here gives an honest mistake a useful message.
"""

import random
import struct
from collections.abc import Callable
from typing import Any

import numpy as np

from atlas_gym.sandbox.codec import decode, encode

REQUEST = struct.Struct("<BxxxIQ")
"""Trusted side → worker: operation, run of the program, length of the value that follows. As long as keeps the value
aligned, as is `REPLY`."""
REPLY = struct.Struct("<BxxxI")
"""Worker → trusted side: the tag of an answer, length of the value that follows."""
RESTART, LOAD, KEEP, CALL, CALL_MANY = range(5)
"""Forget everything and run the program afresh; run it once more beside its other runs (for both, the value seeds
its random generators); hold a value for later calls; call it with the value as arguments; make many calls, the value
a list of runs and, for each argument, a list of what it is in these calls."""

_ANSWER = 0
_UNCHANGING = (float, int, bool, str, type(None))


class Served:
    """The runs of one program, and what is kept for them."""

    def __init__(self, load: Callable[[], Callable[..., Any]]) -> None:
        self._load = load
        self._runs: dict[int, Callable[..., Any]] = {}
        self._kept: list[bytes] = []

    def reply(self, request: bytearray) -> bytearray:
        """The reply to one request; whatever the program raises passes through."""
        operation, run, _ = REQUEST.unpack_from(request)
        answer: Any = None
        if operation == CALL:
            answer = self._runs[run](*decode(request, REQUEST.size, self._kept))
        elif operation == CALL_MANY:
            calls = zip(*decode(request, REQUEST.size, self._kept), strict=True)
            # Not `map`, which a StopIteration of the program's would end.
            answer = [_as_of_now(self._runs[run](*arguments)) for run, *arguments in calls]
        elif operation == KEEP:
            self._kept.append(bytes(request[REQUEST.size :]))  # arrays read from bytes are read-only
        else:
            if operation == RESTART:
                self._runs.clear()
                self._kept.clear()
            seed = decode(request, REQUEST.size)
            random.seed(seed)
            np.random.seed(seed)
            self._runs[run] = self._load()
        message = _encoded(answer, REPLY.size)
        REPLY.pack_into(message, 0, _ANSWER, len(message) - REPLY.size)
        return message


def _as_of_now(answer: Any) -> Any:
    """A copy, if the next call could change the answer."""
    if type(answer) in _UNCHANGING:
        return answer
    return answer.copy() if type(answer) is np.ndarray else decode(_encoded(answer))


def _encoded(answer: Any, head: int = 0) -> bytearray:
    """As `encode`, whose message alone does not say what is wrong with what."""
    try:
        return encode(answer, head)
    except (TypeError, OverflowError) as error:
        text = f"the program returned {error}"
        raise type(error)(text).with_traceback(error.__traceback__) from None


def serve(load: Callable[[], Callable[..., Any]], pipe: Any) -> None:
    """Answer requests until the trusted side hangs up, which ends the process."""
    served = Served(load)
    while True:
        pipe.send_raw(served.reply(pipe.receive_request(REQUEST)))
