"""Evaluations on a Ray cluster: long-lived actors, each with a confined evaluator on its node.

    driver                               node                    node
    RayEvaluatorPool                     NodeEvaluator           NodeEvaluator …
      queue ──── thread per actor ───────▶ fork server             fork server
                                             confined workers        confined workers

A lost node, actor or answer costs only the time of the work it had (see `pool`). What ends the driver, or the
cluster's head node, ends the actors, and with each its fork server and workers. Workers have no way to Ray: no
sockets, no files, no environment of the actor's.

Actors draw hidden streams under the driver's secret, so scores are the same on every node; it travels in a call to
each actor and lives in that process only. Everything travels as bytes, because Ray's serialiser would share arrays
with its object store. Ray by default neither encrypts nor authenticates: keep the cluster's ports to yourself, or set
up its TLS and token authentication.

Every node needs this package in the same version (checked) and similar speed: limits are counted on the node. Start
the nodes with RAY_worker_niceness=0, for Ray would run evaluations at niceness 15. Needs the extra `ray`.
"""

import contextlib
import os
import pickle
import signal
import sys
import threading
from collections.abc import Sequence
from functools import partial
from types import ModuleType
from typing import Any

from atlas_gym._version import __version__
from atlas_gym.evaluation.channel import Task
from atlas_gym.evaluation.evaluator import Evaluator, check_confinement, make_evaluator
from atlas_gym.evaluation.pool import Lost, Pool
from atlas_gym.evaluation.processes import outcome_of
from atlas_gym.evaluation.result import Evaluation, EvaluatorError
from atlas_gym.evaluation.safe_start import standard_library_first
from atlas_gym.evaluation.server import answer
from atlas_gym.hidden_streams import SECRET_VARIABLE, secret_in_force
from atlas_gym.optional import require
from atlas_gym.sandbox.confinement import refuse_debuggers

_LOCAL_STORE_BYTES = 100 * 2**20
"""Object store of a cluster started here; evaluations are small and hardly use it."""
_LOCAL_ENVIRONMENT = {"RAY_USAGE_STATS_ENABLED": "0", "RAY_worker_niceness": "0", "PYTHONSAFEPATH": "1"}
"""For a cluster that is started here: nobody is told of it; evaluators run at this process's priority, for at Ray's
niceness a step waits whole time slices; Python puts nothing before its own standard library."""
_STARTS = 3
"""Attempts at starting a cluster here: Ray gives one half a minute, too little on a busy machine."""


class RayEvaluatorPool(Pool):
    """Evaluates programs on a Ray cluster.

    Example:
        with RayEvaluatorPool(workers=64, address="auto") as pool:
            evaluations = pool.map(programs, task)
    """

    def __init__(
        self, workers: int = 2, *, address: str = "", confinement: str | Sequence[str] = "default"
    ) -> None:
        """Ask for the actors, each of which claims one CPU; they come up in the background, also on nodes that join
        later.

        `address` is as for `ray.init` ("auto": the cluster this machine belongs to); empty: one on this machine that
        ends with the pool, or what Ray is connected to already. `confinement` is as for `make_evaluator`, on every
        node. Raises ModuleNotFoundError without Ray, ConnectionError if there is no cluster at the address.
        """
        if workers < 1:
            raise ValueError(f"a pool needs at least one worker, got {workers}")
        check_confinement(confinement)
        ray, secret = require("ray", "ray"), secret_in_force()
        ours = _connect(ray, address, workers)
        launch = partial(RayEvaluator, ray, secret, confinement)
        super().__init__([launch] * workers, ray.shutdown if ours else None)


class NodeEvaluator:
    """The actor: an evaluator on one node, with its fork server and workers as children."""

    def __init__(self) -> None:
        self._evaluator: Evaluator | None = None
        sys.path[:] = standard_library_first(sys.path)  # Ray puts the driver's working directory first
        refuse_debuggers()

    def prepare(self, secret: str, confinement: str | Sequence[str]) -> str:
        """Take on the driver's secret and confinement; returns the version of this package here.

        A call rather than arguments of the constructor: those are kept by the cluster's control store.
        """
        os.environ[SECRET_VARIABLE] = secret
        self._evaluator = self._evaluator or make_evaluator(confinement)
        return __version__

    def evaluate(self, message: bytes) -> bytes:
        if self._evaluator is None:
            raise RuntimeError("the evaluator was not prepared")
        return answer(self._evaluator, message)


class RayEvaluator:
    """The driver's handle on one actor; `secret` is that of the hidden streams."""

    def __init__(self, ray: ModuleType, secret: str, confinement: str | Sequence[str]) -> None:
        self._ray = ray
        # Never restarted by Ray: a second life would be without the secret, and its work is re-queued here.
        # Not detached: it ends with the driver, whatever ends that.
        actor = ray.remote(num_cpus=1, max_restarts=0, max_task_retries=0)(NodeEvaluator)
        self._actor = actor.options(scheduling_strategy="SPREAD").remote()
        self._secret = secret
        self._confinement = confinement

    def ready(self, wait_s: float) -> None:
        """See `RemoteEvaluator`. Another version of the package is refused: it may score otherwise."""
        version = self._get(self._actor.prepare, (self._secret, self._confinement), wait_s)
        if version != __version__:
            raise EvaluatorError(f"the node has atlas-gym {version}, this process {__version__}")

    def evaluate(self, program: str, task: Task, wait_s: float) -> Evaluation:
        message = pickle.dumps((program, task), protocol=pickle.HIGHEST_PROTOCOL)
        return outcome_of(self._get(self._actor.evaluate, (message,), wait_s))

    def stop(self) -> None:
        """See `RemoteEvaluator`. Its fork server ends when the actor does."""
        # Dead already, or the connection to the cluster is.
        with contextlib.suppress(self._ray.exceptions.RayError, ValueError, RuntimeError, OSError):
            self._ray.kill(self._actor)

    kill = stop

    def _get(self, method: Any, arguments: tuple, wait_s: float) -> Any:
        errors = self._ray.exceptions
        try:
            return self._ray.get(method.remote(*arguments), timeout=wait_s)
        except errors.GetTimeoutError:
            raise Lost(f"no answer within {wait_s:.0f} s") from None
        except errors.RayTaskError as error:
            raise EvaluatorError(f"the evaluator on the node failed:\n{error}") from None
        except errors.RayError as error:
            raise Lost(" ".join(str(error).split())[:1000]) from None


def _connect(ray: ModuleType, address: str, workers: int) -> bool:
    """Connect to the cluster; whether that began here and is to end with the pool."""
    if ray.is_initialized():
        return False
    options: dict[str, Any] = {"address": address, "log_to_driver": False, "logging_level": "ERROR"}
    own: dict[str, str] = {}
    if not address:
        options |= {"address": "local", "include_dashboard": False}
        options |= {"num_cpus": workers, "object_store_memory": _LOCAL_STORE_BYTES}
        own = {name: value for name, value in _LOCAL_ENVIRONMENT.items() if name not in os.environ}
    # Ray takes over the signal; whoever set a handler (a run that stops gently) keeps theirs.
    in_main = threading.current_thread() is threading.main_thread()
    handler = signal.getsignal(signal.SIGTERM) if in_main else None
    os.environ.update(own)  # for the processes that Ray starts now, not for what the caller starts later
    try:
        for _ in range(_STARTS):
            try:
                ray.init(**options)
                return True
            except Exception as error:  # Ray raises whatever its processes died of
                if address:
                    raise
                ray.shutdown()
                failure = error
        raise ConnectionError(f"no Ray cluster could be started here: {failure}") from failure
    finally:
        for name in own:
            del os.environ[name]
        if in_main:
            signal.signal(signal.SIGTERM, handler)
