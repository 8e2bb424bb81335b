"""An evaluator behind messages: pickled programs and tasks in, pickled evaluations out.

`python -m atlas_gym.evaluation.server SOCKET_FD PARENT_PID CONFINEMENT NUMBER WORKERS` is the trusted process of an
`EvaluatorPool` that runs one evaluation after the other, on one core with its fork server and workers. It ends when
the pool hangs up, and is killed with the pool's process. Both ends of a message are trusted; nothing of a worker's is
unpickled.
"""

import contextlib
import itertools
import json
import os
import pickle
import signal
import socket
import sys
import threading
import traceback
from collections.abc import Iterator

from atlas_gym.evaluation.evaluator import Evaluator, make_evaluator
from atlas_gym.evaluation.processes import receive_frame, send_frame, usable_cores
from atlas_gym.evaluation.result import Evaluation, EvaluatorError
from atlas_gym.hidden_streams import SecretError
from atlas_gym.mistake import authors_line, in_a_line
from atlas_gym.sandbox.confinement import die_with_parent, refuse_debuggers

_REFUSE = "If what a program answered led to this, have it refused: answer.refuse(found, wanted)"
_COMPUTES_S, _COMPUTES = 60.0, 10.0
"""CPU time that a task's own code may take in an evaluation: seconds, and by the time that its program has."""
_NAME = "atlas-gym evaluator"
_CROWD = 100
"""More evaluators than this on a core keep to none."""


def answer(evaluator: Evaluator, message: bytes) -> bytes:
    """The pickled evaluation of a pickled program and task, or the pickled exception for the pool's caller."""
    outcome: Evaluation | EvaluatorError
    try:
        program, task = pickle.loads(message)
        with computing_at_most(_COMPUTES_S + _COMPUTES * task.limits.wall_s):
            outcome = evaluator.evaluate(program, task)
    except EvaluatorError as error:
        outcome = error
    except SecretError as error:  # a matter of the machine, for a line
        outcome = EvaluatorError(str(error))
    except _Leaving:
        raise
    except BaseException as error:  # noqa: BLE001 - a mistake in a task must reach the caller
        where = "" if authors_line(error) else f"\n{traceback.format_exc()}"
        outcome = EvaluatorError(f"the task failed: {in_a_line(error)}. {_REFUSE}{where}")
    return pickle.dumps(outcome, protocol=pickle.HIGHEST_PROTOCOL)


@contextlib.contextmanager
def computing_at_most(seconds: float) -> Iterator[None]:
    """End the block by a `TimeoutError` where it is, once this process has computed for so long in it.

    What workers compute does not count, nor does waiting. Uses `ITIMER_PROF`; outside the main thread, where no signal
    arrives, nothing is ended.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def stop(*_: object) -> None:
        raise TimeoutError(
            f"the task's own code has computed for {seconds:g} s; if it does end, raise limits.wall_s"
        )

    before = signal.signal(signal.SIGPROF, stop)
    signal.setitimer(signal.ITIMER_PROF, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)


@contextlib.contextmanager
def own_core(number: int, workers: int) -> Iterator[None]:
    """Keep this process to a core for the block: to one that the fewest evaluators of this machine have.

    Evaluators of other runs find out by the name of a bound abstract socket, one for each core and evaluator on it,
    which the kernel frees with the process. This is evaluator `number` of `workers`: a pool with one for every core has
    one on each, whoever else is there.
    """
    cores = usable_cores()
    if cores and number < workers - workers % len(cores):
        cores = [cores[number % len(cores)]]
    with socket.socket(socket.AF_UNIX) as sign:
        for nth, core in itertools.product(range(_CROWD), cores):
            with contextlib.suppress(OSError):  # another's
                sign.bind(f"\0{_NAME} {nth} on core {core}")
                os.sched_setaffinity(0, {core})
                break
        yield


def main(socket_fd: int, parent: int, confinement: str | list[str], number: int, workers: int) -> None:
    """Serve one pool, as its evaluator `number` of `workers`, until it hangs up."""
    die_with_parent()
    if os.getppid() != parent:
        return  # it died before it could be watched
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the pool owner's affair
    signal.signal(signal.SIGTERM, _leave)  # the pool closes, maybe in the middle of an evaluation
    refuse_debuggers()
    with (
        own_core(number, workers),
        socket.socket(fileno=socket_fd) as connection,
        make_evaluator(confinement) as evaluator,
        contextlib.suppress(OSError),  # the pool has hung up
    ):
        while True:
            send_frame(connection, answer(evaluator, receive_frame(connection)))


class _Leaving(SystemExit):
    """The pool has closed."""


def _leave(*_: object) -> None:
    # Nothing may break off the way out, and the pool says it twice. Blocked first, for Python complains of a signal
    # that comes while it is being ignored.
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    raise _Leaving


if __name__ == "__main__":
    main(*(json.loads(argument) for argument in sys.argv[1:]))
