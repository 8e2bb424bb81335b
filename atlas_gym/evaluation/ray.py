"""Evaluations on a Ray cluster: one long-lived actor per slot, each with a confined evaluator on its node.

    driver                               node                    node
    RayEvaluatorPool                     NodeEvaluator           NodeEvaluator …
      backlog ── slot thread per actor ──▶ fork server             fork server
                                             confined workers        confined workers

For a user this is `EvaluatorPool` with other arguments: the same statuses, the same scores. What it adds is
survival (see `scheduler`): a node, an actor or an answer that is lost costs only the time of the work it had.
What ends the driver ends the actors, and with each its fork server and workers; a run on top continues from its
store. Losing the cluster's head node counts as losing the driver.

Scores are the same on every node because the actors draw hidden streams under the driver's secret. It travels in
a call to each actor and lives in that process only. Ray itself neither encrypts nor authenticates by default:
keep the cluster's ports to yourself, or set up Ray's TLS and token authentication.

Every node needs this package in the same version (checked) and, for programs that time out narrowly, similar
speed: limits are counted on the node. Start the nodes with RAY_worker_niceness=0 (`ray start` passes it on):
evaluations are the node's purpose, and Ray would run them at niceness 15. Needs the extra `ray`.
"""

import os
import signal
import threading
import weakref
from collections.abc import Sequence
from concurrent.futures import Future
from types import ModuleType
from typing import Any

from atlas_gym.evaluation.evaluator import check_confinement
from atlas_gym.evaluation.hidden_streams import secret_in_force
from atlas_gym.evaluation.pool import Pool
from atlas_gym.evaluation.protocols import Task
from atlas_gym.evaluation.ray_actor import RayRemote
from atlas_gym.evaluation.result import Evaluation
from atlas_gym.evaluation.scheduler import Backlog, Slot, Work
from atlas_gym.optional import require

_LOCAL_STORE_BYTES = 100 * 2**20
"""Object store of a cluster started here; evaluations are small and hardly use it."""
_LOCAL_ENVIRONMENT = {
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_worker_niceness": "0",
    "PYTHONSAFEPATH": "1",
}
"""For a cluster that is started here: nobody is told of it, and evaluators run at this process's priority: at Ray's
default niceness a step of a conversation waits whole time slices for whatever else uses the core. Its Python puts
nothing before its own standard library."""
_STARTS = 3
"""Attempts at starting a cluster here: Ray gives it half a minute, too little on a busy machine."""


class RayEvaluatorPool(Pool):
    """Evaluates programs on a Ray cluster.

    Example:
        with RayEvaluatorPool(workers=64, address="auto") as pool:
            evaluations = pool.map(programs, task)
    """

    def __init__(
        self,
        workers: int = 2,
        *,
        address: str = "",
        confinement: str | Sequence[str] = "default",
        patience_s: float = 120.0,
        start_wait_s: float = 300.0,
    ) -> None:
        """Ask for the actors; they come up in the background.

        Args:
            workers: Evaluations at a time (>= 1); each actor claims one CPU. More than the cluster has wait for
                nodes to join.
            address: Of the cluster, as for `ray.init` ("auto": the one this machine belongs to). Empty: a
                cluster on this machine, with `workers` CPUs, that ends with the pool. Where Ray is initialised
                already, what it is connected to is used.
            confinement: As for `make_evaluator`, on every node.
            patience_s: Seconds beyond the longest time of an evaluation (imports and a slow network count) after which
                an evaluation is tried on another slot.
            start_wait_s: Seconds for which a slot waits for its actor.

        Raises:
            ModuleNotFoundError: Ray is not installed.
            ConnectionError: There is no cluster at the address.
        """
        super().__init__()
        if workers < 1:
            raise ValueError(f"a pool needs at least one worker, got {workers}")
        check_confinement(confinement)
        ray, secret = require("ray", "ray"), secret_in_force()
        ours = _connect(ray, address, workers)
        self._owner = os.getpid()
        self._backlog = Backlog(workers)
        slots = [
            Slot(i, self._backlog, lambda: RayRemote(ray, secret, confinement), patience_s, start_wait_s)
            for i in range(workers)
        ]
        self._close = weakref.finalize(self, _close, ray if ours else None, self._backlog, slots, self._owner)

    def _queue(self, program: str, task: Task, future: "Future[Evaluation]") -> None:
        if os.getpid() != self._owner:
            raise RuntimeError("a pool cannot be used in a fork of the process that made it")
        if not self._backlog.put(Work(program, task, future)):
            raise RuntimeError("the pool is closed")

    def close(self) -> None:
        """Cancel what is queued, break off what is running, end every actor; a second call does nothing."""
        self._close()


def _connect(ray: ModuleType, address: str, workers: int) -> bool:
    """Connect to the cluster; whether that began here and is to end with the pool."""
    if ray.is_initialized():
        return False
    quiet: dict[str, Any] = {"log_to_driver": False, "logging_level": "ERROR"}
    # Ray takes over the signal; whoever set a handler (a run that stops gently) keeps theirs.
    in_main = threading.current_thread() is threading.main_thread()
    handler = signal.getsignal(signal.SIGTERM) if in_main else None
    try:
        if address:
            ray.init(address=address, **quiet)
        else:
            _start_cluster(ray, workers, quiet)
    finally:
        if in_main:
            signal.signal(signal.SIGTERM, handler)
    return True


def _start_cluster(ray: ModuleType, workers: int, options: dict[str, Any]) -> None:
    for name, value in _LOCAL_ENVIRONMENT.items():
        os.environ.setdefault(name, value)
    size = {"num_cpus": workers, "object_store_memory": _LOCAL_STORE_BYTES}
    for attempt in range(_STARTS):
        try:
            ray.init(address="local", include_dashboard=False, **size, **options)
            return
        except Exception as error:  # Ray raises whatever its processes died of; the last one is passed on
            ray.shutdown()
            if attempt == _STARTS - 1:
                raise ConnectionError(f"no Ray cluster could be started here: {error}") from error


def _close(ray: ModuleType | None, backlog: Backlog, slots: list[Slot], owner: int) -> None:
    if os.getpid() != owner:
        return
    backlog.close()
    for slot in slots:
        slot.stop()
    for slot in slots:
        slot.join()
    if ray is not None:
        ray.shutdown()
