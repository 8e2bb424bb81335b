"""A function of fixed tensors as a CUDA graph, which a GPU runs without waiting for Python.

A pass over a small model is thousands of kernels, and to start them one by one takes ten times as long as to run them.
The first call of a captured function runs it as it is, since libraries set themselves up in it; the second records it,
and from then on the record is replayed. What cannot be recorded runs as it is for good, and the log says so.
"""

import logging
from collections.abc import Callable
from typing import Any

import torch

_log = logging.getLogger(__name__)


class Captured:
    """Calls a function without arguments, the same one each time: all that it reads and writes stays at its address,
    nothing in it waits for the device, and it leaves nothing else behind. `pool`: memory for what is made in between,
    which graphs can share that never run at the same time."""

    def __init__(self, enabled: bool, pool: Any = None) -> None:
        self.enabled = enabled
        self._pool, self._ran = pool, False
        self._graph: torch.cuda.CUDAGraph | None = None

    def __call__(self, function: Callable[[], None]) -> bool:
        """Call it; whether that was done without Python."""
        known = self._graph is not None
        if self.enabled and self._ran and not known:
            self._graph = self._capture(function)
        if self._graph is None:
            function()
            self._ran = True
        else:
            self._graph.replay()
        return known

    def _capture(self, function: Callable[[], None]) -> "torch.cuda.CUDAGraph | None":
        graph = torch.cuda.CUDAGraph()
        try:
            # Others may use the GPU.
            with torch.cuda.graph(graph, pool=self._pool, capture_error_mode="thread_local"):
                function()
        except RuntimeError as error:
            self.enabled = False
            torch.cuda.synchronize()
            _log.warning("This step runs without a CUDA graph, slower: %s", str(error).partition("\n")[0])
            return None
        return graph
