"""From settings to an engine that follows the policy.

A backend *serves* one adapter at a time: whoever wants text says `with backend.serving(adapter) as generator` and
need not know whether weights are merged, reloaded, or loaded into a server for it. Between two such blocks the
policy may be trained; an engine on a GPU sleeps then.
"""

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any, Protocol

from atlas_gym.agents.engines.engine import Generator, Sampling
from atlas_gym.agents.engines.hf_transformers import TransformersGenerator
from atlas_gym.agents.engines.settings import BackendSettings
from atlas_gym.agents.engines.spending import LEDGER, Ledger
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


def open_backend(
    settings: BackendSettings,
    sampling: Sampling,
    *,
    model: str,
    folder: Path,
    policy: Policy | None = None,
) -> Backend:
    """Begin the engine.

    Args:
        settings: which engine, and its options.
        sampling: for requests that have none of their own.
        model: name of the weights, for an engine in this process.
        folder: the run's, where adapters are put for an engine to read, and requests to models behind an API entered.
        policy: whose adapters are served; None for weights that are never tuned.

    Raises:
        BackendError: an endpoint cannot be used; the message says what to check.
    """
    if settings.name == "chat":
        from atlas_gym.agents.engines.chat import ChatGenerator

        server = ChatGenerator(settings.chat, sampling, Ledger(folder / LEDGER))
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


def tokenizer_of(settings: BackendSettings, model: str) -> Any:
    """Tokenizer of the model that the engine runs, None if its name says too little (a server's)."""
    name = settings.openai.tokenizer if settings.name == "openai" else model
    return load_tokenizer(resolve_model(name, weights=False)) if name and settings.name != "chat" else None
