"""From settings to an engine that follows the policy.

A backend *serves* one adapter at a time: whoever wants text says `with backend.serving(adapter) as generator` and
need not know whether weights are merged, reloaded, or loaded into a server for it. Between two such blocks the
policy may be trained; an engine on a GPU sleeps then.
"""

import queue
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import AbstractContextManager, ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import Any, Protocol

from atlas_gym.agents.engines.engine import Completion, Generator, OnCompletion, Request, Sampling
from atlas_gym.agents.engines.hf_transformers import TransformersGenerator
from atlas_gym.agents.engines.settings import BackendSettings, IslandModel
from atlas_gym.agents.engines.spending import LEDGER, Ledger
from atlas_gym.agents.engines.threads import started
from atlas_gym.agents.models.loading import load_model, load_tokenizer, resolve_model
from atlas_gym.agents.models.packed_weights import packed_weights
from atlas_gym.agents.models.policy import Policy

_SERVED = Path("adapters", "served")


class Backend(Protocol):
    """An engine, begun and ready."""

    def serving(self, adapter: str) -> AbstractContextManager[Generator]:
        """The generator that writes with this adapter of the policy, for the time of the block."""
        ...

    def close(self) -> None:
        """Give everything back; nothing to do for an engine in this process."""
        return


class TransformersBackend(Backend):
    """The policy's own weights, the adapter merged while it is served."""

    def __init__(self, policy: Policy, sampling: Sampling) -> None:
        self._policy = policy
        self._sampling = sampling

    @contextmanager
    def serving(self, adapter: str) -> Iterator[Generator]:
        with self._policy.merged(adapter) as model, packed_weights(model):
            yield TransformersGenerator(model, self._policy.tokenizer, self._sampling)


class RoutedGenerator(Generator):
    """Islands with a model of their own: sends each request to the model of its island.

    Servers write while the models in this process do, on threads of their own; completions reach the caller in the
    caller's thread only. Requests that belong to no island (the probe, the gate's samples) are always the policy's.
    """

    def __init__(self, policy: Generator, islands: Mapping[int, Generator]):
        """`islands`: who writes for which island, `policy` for all others."""
        self._policy = policy
        self._islands = islands

    def stream(self, requests: Sequence[Request], on_completion: OnCompletion) -> None:
        """Generate, handing over each completion of a model in this process as it ends, a server's as they
        are taken up."""
        parts: defaultdict[Generator, list[int]] = defaultdict(list)
        for index, request in enumerate(requests):
            parts[self._islands.get(request.island, self._policy)].append(index)
        arrived: queue.SimpleQueue[tuple[int, int, Completion] | Future[None]] = queue.SimpleQueue()

        def arrive(*found: Any) -> None:
            arrived.put(found)

        away = [
            started(partial(_ask, generator, indices, requests, arrive))
            for generator, indices in parts.items()
            if generator.is_remote
        ]
        for ended in away:
            ended.add_done_callback(arrived.put)
        for generator, indices in parts.items():
            if not generator.is_remote:
                _ask(generator, indices, requests, on_completion)
        for _ in away:
            while not isinstance(event := arrived.get(), Future):
                on_completion(*event)
            event.result()


class RoutedBackend:
    """The run's own backend, and further ones for some islands."""

    def __init__(
        self, policy: Backend, models: Sequence[tuple[IslandModel, Backend]], opened: ExitStack
    ) -> None:
        """`opened`: closes all of them."""
        self._policy = policy
        self._models = models
        self._opened = opened

    @contextmanager
    def serving(self, adapter: str) -> Iterator[Generator]:
        """The policy's generator with the islands' own beside it."""
        with ExitStack() as served:
            own = served.enter_context(self._policy.serving(adapter))
            islands: dict[int, Generator] = {}
            for model, backend in self._models:
                islands |= dict.fromkeys(model.islands, served.enter_context(backend.serving(adapter)))
            yield RoutedGenerator(own, islands)

    def close(self) -> None:
        """Close all."""
        self._opened.close()


def open_backend(
    settings: BackendSettings,
    sampling: Sampling,
    *,
    model: str,
    folder: Path,
    policy: Policy | None = None,
    further: Sequence[IslandModel] = (),
) -> Backend:
    """Begin the engine, and those of islands with models of their own.

    Args:
        settings: which engine, and its options.
        sampling: for requests that have none of their own.
        model: name of the weights, for an engine in this process.
        folder: the run's, where adapters are put for an engine to read, and requests to models behind an API entered.
        policy: whose adapters are served; None for weights that are never tuned.
        further: islands with a model of their own.

    Raises:
        BackendError: an endpoint cannot be used; the message says what to check.
    """
    ledger = Ledger(folder / LEDGER)
    backend = _open(settings, sampling, model, folder, policy, ledger)
    if not further:
        return backend
    with ExitStack() as opened:
        opened.callback(backend.close)
        models = []
        for own in further:
            engine = _open(own.backend, sampling, own.model, folder, None, ledger)
            opened.callback(engine.close)
            models.append((own, engine))
        return RoutedBackend(backend, models, opened.pop_all())


def tokenizer_of(settings: BackendSettings, model: str) -> Any:
    """Tokenizer of the model that the engine runs, None if its name says too little (a server's)."""
    name = settings.openai.tokenizer if settings.name == "openai" else model
    return load_tokenizer(resolve_model(name, weights=False)) if name and settings.name != "chat" else None


def _open(
    settings: BackendSettings,
    sampling: Sampling,
    model: str,
    folder: Path,
    policy: Policy | None,
    ledger: Ledger,
) -> Backend:
    if settings.name == "chat":
        from atlas_gym.agents.engines.chat import ChatGenerator

        server = ChatGenerator(settings.chat, sampling, ledger)
        server.greet()
        return server
    if settings.name == "openai":
        from atlas_gym.agents.engines.completions import OpenAIBackend

        return OpenAIBackend(settings.openai, sampling, folder / _SERVED, policy)
    if settings.name == "vllm":
        from atlas_gym.agents.engines.vllm import VLLMBackend

        return VLLMBackend(settings.vllm, sampling, resolve_model(model), folder / _SERVED, policy)
    if policy is not None:
        return TransformersBackend(policy, sampling)
    return TransformersGenerator(*load_model(resolve_model(model)), sampling)


def _ask(
    generator: Generator, indices: list[int], requests: Sequence[Request], on_completion: OnCompletion
) -> None:
    generator.stream(
        [requests[index] for index in indices],
        lambda position, sample, completion: on_completion(indices[position], sample, completion),
    )
