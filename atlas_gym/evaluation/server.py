"""A referee: the trusted process behind one lane of an `EvaluatorPool`.

`python -m atlas_gym.evaluation.server SOCKET_FD PARENT_PID CORE CONFINEMENT`. It holds hidden state, clocks
and scores, and runs one evaluation after the other in its own `ConfinedEvaluator`, on one core together
with its fork server and workers. It ends when the pool closes the socket, and is killed with the pool's
process.
"""

import json
import os
import signal
import socket
import sys
import traceback
from typing import Any

from atlas_gym.evaluation.evaluator import Evaluator, make_evaluator
from atlas_gym.evaluation.frames import PeerGone, receive_frame, send_frame
from atlas_gym.evaluation.handles import EvaluatorError
from atlas_gym.sandbox.confinement import die_with_parent, refuse_debuggers


def main(socket_fd: int, parent: int, core: int, confinement: str | list[str]) -> None:
    """Serve one pool lane until the pool hangs up."""
    die_with_parent()
    if os.getppid() != parent:
        return  # it died before it could be watched
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the pool owner's affair
    signal.signal(signal.SIGTERM, lambda *_: sys.exit())  # the pool closes in the middle of an evaluation
    refuse_debuggers()
    if core >= 0:
        os.sched_setaffinity(0, {core})
    connection = socket.socket(fileno=socket_fd)
    evaluator: Evaluator | None = None
    try:
        while True:
            program, task = receive_frame(connection)
            evaluator = evaluator or make_evaluator(confinement)
            send_frame(connection, _verdict(evaluator, program, task))
    except PeerGone:
        pass  # the pool has closed
    finally:
        if evaluator is not None:
            evaluator.close()


def _verdict(evaluator: Evaluator, program: str, task: Any) -> Any:
    """The evaluation, or the exception that the caller of the pool is to see."""
    try:
        return evaluator.evaluate(program, task)
    except EvaluatorError as error:
        return error
    except Exception:  # noqa: BLE001 - a mistake in a task must reach the caller, not end the referee
        return EvaluatorError(f"the task failed:\n{traceback.format_exc()}")


if __name__ == "__main__":
    main(*(json.loads(argument) for argument in sys.argv[1:]))
