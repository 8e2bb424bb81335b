"""The same evaluation as plain function calls, without worker, confinement or limits.

Only for programs you trust: the hidden data is in the same process. To try out a task that is being written, for
tests, and to see what confinement costs.
"""

import math
import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, cast

import numpy as np

from atlas_gym.evaluation.channel import Channel
from atlas_gym.evaluation.result import Judgement
from atlas_gym.sandbox.call_driver import Served
from atlas_gym.tasks.program_task import ProgramTask


class LocalConversation:
    """Answers in this process what a worker would be asked; see `Channel.converse`."""

    def __init__(self, program: str, function: str) -> None:
        code = compile(program, "<program>", "exec")

        def load() -> Callable[..., Any]:
            namespace: dict[str, Any] = {"__name__": "program", "np": np, "math": math}
            exec(code, namespace)
            return namespace[function]

        self._served = Served(load)

    def converse(self, request: bytearray, head: Any, most_bytes: int) -> bytes:
        """The reply that a worker would send."""
        return bytes(self._served.reply(request))


def judge_in_process(program: str, task: ProgramTask) -> Judgement:
    """Score a trusted program on a task in this process; errors of the program pass through."""
    task.prepare()
    with _own_randomness():
        return task.judge(cast(Channel, LocalConversation(program, task.function)))


@contextmanager
def _own_randomness() -> Iterator[None]:
    """Programs seed the global generators; afterwards these are as they were."""
    state = random.getstate(), np.random.get_state()
    try:
        yield
    finally:
        random.setstate(state[0])
        np.random.set_state(state[1])
