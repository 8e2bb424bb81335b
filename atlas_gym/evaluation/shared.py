"""One evaluator for all environments of a process that ask for the same confinement.

A fork server holds an interpreter with numpy, for Burgers also torch (300 MB, seconds to start): eight
environments in one `SyncVectorEnv` need one, not eight. Evaluations through it take turns; for several at a
time there is the vector environment, whose pool has an evaluator per core. The last share to close closes it.
"""

import threading
import weakref
from collections.abc import Sequence
from dataclasses import dataclass

from atlas_gym.evaluation.evaluator import Evaluator, make_evaluator
from atlas_gym.evaluation.protocols import Task
from atlas_gym.evaluation.result import Evaluation


@dataclass
class _Shared:
    evaluator: Evaluator
    users: int = 0


# Reentrant: a finalizer that gives a share back may run in the middle of taking one.
_lock = threading.RLock()
_shared: dict[str | tuple[str, ...], _Shared] = {}


class SharedEvaluator:
    """A share in the process's evaluator; as good as one of its own."""

    def __init__(self, confinement: str | Sequence[str]):
        key = confinement if isinstance(confinement, str) else tuple(confinement)
        shared = _take(key)
        self._evaluator = shared.evaluator
        # Also when the holder is dropped without being closed.
        self._give_back = weakref.finalize(self, _give_back, key, shared)

    def evaluate(self, program: str, task: Task) -> Evaluation:
        """Run `program` on `task`, see `Evaluator.evaluate`; RuntimeError after `close`."""
        if not self._give_back.alive:
            raise RuntimeError("the evaluator is closed")
        return self._evaluator.evaluate(program, task)

    def close(self) -> None:
        """Give the share back; a second call does nothing."""
        self._give_back()


def _take(key: str | tuple[str, ...]) -> _Shared:
    with _lock:
        shared = _shared.setdefault(key, _Shared(make_evaluator(key)))
        shared.users += 1
        return shared


def _give_back(key: str | tuple[str, ...], shared: _Shared) -> None:
    with _lock:
        shared.users -= 1
        if shared.users == 0:
            _shared.pop(key, None)
            shared.evaluator.close()
