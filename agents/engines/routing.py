"""Islands with a model of their own: one generator that sends each request to the model of its island.

Servers write while the models in this process do, on threads of their own; completions reach the caller in the
caller's thread only. Requests that belong to no island (the probe, the gate's samples) are always the policy's.
"""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

from agents.engines.engine import Completion, GenerationRequest, Generator, OnCompletion


class RoutedGenerator:
    """A :class:`agents.engines.engine.Generator` made of several."""

    def __init__(
        self, policy: Generator, islands: Mapping[int, Generator], *, remote: Sequence[Generator] = ()
    ):
        """`islands`: who writes for which island, `policy` for all others. `remote`: those that wait for a server."""
        self._policy = policy
        self._islands = islands
        self._remote = [id(generator) for generator in remote]

    def generate(self, requests: Sequence[GenerationRequest]) -> list[list[Completion]]:
        """All completions, by request and sample."""
        found: list[dict[int, Completion]] = [{} for _ in requests]
        self.stream(requests, lambda request, sample, completion: found[request].update({sample: completion}))
        return [[row[sample] for sample in range(len(row))] for row in found]

    def stream(self, requests: Sequence[GenerationRequest], on_completion: OnCompletion) -> None:
        """Generate, handing over each completion of a model in this process as it ends, a server's as they
        are taken up."""
        parts = self._parts(requests)
        arrived: queue.SimpleQueue[Callable[[], Any]] = queue.SimpleQueue()
        away = [(g, indices) for g, indices in parts if id(g) in self._remote]
        for generator, indices in away:
            work = partial(_ask_elsewhere, generator, indices, requests, on_completion, arrived)
            threading.Thread(target=work, daemon=True).start()
        for generator, indices in parts:
            if id(generator) not in self._remote:
                _ask(generator, indices, requests, on_completion)
        for _ in away:
            while (event := arrived.get()) is not _END:
                event()

    def _parts(self, requests: Sequence[GenerationRequest]) -> list[tuple[Generator, list[int]]]:
        parts: dict[int, tuple[Generator, list[int]]] = {}
        for index, request in enumerate(requests):
            generator = self._policy
            if request.island is not None and request.written is None:
                generator = self._islands.get(request.island, self._policy)
            parts.setdefault(id(generator), (generator, []))[1].append(index)
        return list(parts.values())


def _ask(
    generator: Generator,
    indices: list[int],
    requests: Sequence[GenerationRequest],
    on_completion: OnCompletion,
) -> None:
    generator.stream(
        [requests[index] for index in indices],
        lambda position, sample, completion: on_completion(indices[position], sample, completion),
    )


def _ask_elsewhere(
    generator: Generator,
    indices: list[int],
    requests: Sequence[GenerationRequest],
    on_completion: OnCompletion,
    arrived: queue.SimpleQueue[Callable[[], Any]],
) -> None:
    """The same on a thread: what would be called is put into the queue, an exception as a call that raises it."""
    try:
        _ask(generator, indices, requests, lambda *found: arrived.put(partial(on_completion, *found)))
    except BaseException as error:  # noqa: BLE001 - raised in the caller's thread
        arrived.put(partial(_raise, error))
    arrived.put(_END)


def _raise(error: BaseException) -> None:
    raise error


def _END() -> None:
    """One server has written everything."""
