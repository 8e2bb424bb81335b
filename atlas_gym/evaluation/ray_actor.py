"""What runs on a cluster's nodes: a Ray actor that holds one evaluator, and the driver's handle on it.

The actor is the trusted side of its evaluations, as a referee is in the local pool: fork server and workers are
its children on its own node. Workers have no way to Ray: no sockets, no files, no environment of the actor's.

Program and task travel to the actor, the evaluation back, as pickles between these two trusted ends; the bytes
keep Ray's serialiser (which would share arrays with its object store) out of it. Nothing of a worker's is unpickled.
"""

import contextlib
import os
import pickle
import sys
import traceback
from collections.abc import Sequence
from types import ModuleType
from typing import Any

from atlas_gym._version import __version__
from atlas_gym.evaluation.evaluator import Evaluator, make_evaluator
from atlas_gym.evaluation.handles import EvaluatorError
from atlas_gym.evaluation.hidden_streams import SECRET_VARIABLE
from atlas_gym.evaluation.protocols import Task
from atlas_gym.evaluation.result import Evaluation
from atlas_gym.evaluation.safe_start import standard_library_first
from atlas_gym.evaluation.scheduler import Lost, Silent
from atlas_gym.sandbox.confinement import refuse_debuggers


class NodeEvaluator:
    """The actor: one evaluator on one node."""

    def __init__(self) -> None:
        self._evaluator: Evaluator | None = None
        sys.path[:] = standard_library_first(sys.path)  # Ray puts the driver's working directory first
        refuse_debuggers()

    def prepare(self, secret: str, confinement: str | Sequence[str]) -> str:
        """Take on the driver's secret and confinement; returns the version of this package here.

        A call rather than arguments of the constructor: those are kept by the cluster's control store.
        """
        os.environ[SECRET_VARIABLE] = secret
        if self._evaluator is None:
            self._evaluator = make_evaluator(confinement)
        return __version__

    def evaluate(self, message: bytes) -> bytes:
        """Pickled (program, task) to the pickled evaluation, or to the exception for the caller."""
        return pickle.dumps(self._verdict(message), protocol=pickle.HIGHEST_PROTOCOL)

    def _verdict(self, message: bytes) -> Evaluation | EvaluatorError:
        try:
            if self._evaluator is None:
                raise EvaluatorError("the evaluator was not prepared")
            program, task = pickle.loads(message)
            return self._evaluator.evaluate(program, task)
        except EvaluatorError as error:
            return error
        except Exception:  # noqa: BLE001 - a mistake in a task must reach the caller, not end the actor
            return EvaluatorError(f"the task failed:\n{traceback.format_exc()}")


class RayRemote:
    """The driver's handle on one actor; see `slots.Remote`.

    Args:
        ray: the module.
        secret: of the hidden streams.
        confinement: as for `make_evaluator`.
    """

    def __init__(self, ray: ModuleType, secret: str, confinement: str | Sequence[str]) -> None:
        self._ray = ray
        # Never restarted by Ray: a second life would be without the secret, and its work is re-queued here.
        # Not detached: it ends with the driver, whatever ends that.
        actor = ray.remote(num_cpus=1, max_restarts=0, max_task_retries=0)(NodeEvaluator)
        self._actor = actor.options(scheduling_strategy="SPREAD").remote()
        self._secret = secret
        self._confinement = confinement

    def ready(self, wait_s: float) -> None:
        """See `slots.Remote`. A package of another version is refused: it may score otherwise."""
        version = self._get(self._actor.prepare, (self._secret, self._confinement), wait_s)
        if version != __version__:
            raise EvaluatorError(f"the node has atlas-gym {version}, this process {__version__}")

    def evaluate(self, program: str, task: Task, wait_s: float) -> Evaluation:
        """See `slots.Remote`."""
        message = pickle.dumps((program, task), protocol=pickle.HIGHEST_PROTOCOL)
        outcome = pickle.loads(self._get(self._actor.evaluate, (message,), wait_s))
        if isinstance(outcome, Evaluation):
            return outcome
        raise outcome

    def kill(self) -> None:
        """See `slots.Remote`. Its fork server ends when the actor does."""
        # Dead already, or the connection to the cluster is.
        with contextlib.suppress(self._ray.exceptions.RayError, ValueError, RuntimeError, OSError):
            self._ray.kill(self._actor)

    def _get(self, method: Any, arguments: tuple, wait_s: float) -> Any:
        errors = self._ray.exceptions
        try:
            return self._ray.get(method.remote(*arguments), timeout=wait_s)
        except errors.GetTimeoutError:
            raise Silent(f"no answer within {wait_s:.0f} s") from None
        except errors.RayTaskError as error:
            raise EvaluatorError(f"the evaluator on the node failed:\n{error}") from None
        except errors.RayError as error:
            raise Lost(" ".join(str(error).split())[:1000]) from None
