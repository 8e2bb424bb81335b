"""From settings to an engine.

Engines and what they need are imported where they are chosen: vLLM, transformers and the HTTP client take seconds.
"""

from pathlib import Path
from typing import Any

from atlas_gym.agents.engines.engine import Engine, Sampling
from atlas_gym.agents.engines.settings import EngineSettings
from atlas_gym.agents.models.loading import load_model, load_tokenizer, resolve_model
from atlas_gym.agents.models.policy import Policy


def open_engine(
    settings: EngineSettings,
    sampling: Sampling,
    *,
    model: str,
    folder: Path,
    policy: Policy | None = None,
) -> Engine:
    """Start an engine on the model of that name, of a policy if its adapters are to be served.

    In the run's `folder` weights are put for vLLM's workers, and requests to models behind an API entered. Raises
    `EngineError` if vLLM or an endpoint cannot be used; the message says what to check.
    """
    match settings.name:
        case "chat":
            from atlas_gym.agents.engines.api import ChatEngine
            from atlas_gym.agents.engines.spending import LEDGER, Ledger

            endpoint = ChatEngine(settings.server, settings.chat, sampling, Ledger(folder / LEDGER))
            endpoint.greet()
            return endpoint
        case "openai":
            from atlas_gym.agents.engines.api import CompletionsEngine

            return CompletionsEngine(settings.server, sampling)
        case "vllm":
            from atlas_gym.agents.engines.vllm import VLLMEngine

            served = folder / "adapters" / "served"
            return VLLMEngine(settings.vllm, sampling, resolve_model(model), served, policy)
        case "transformers":
            from atlas_gym.agents.engines.hf_transformers import TransformersEngine

            if policy is None:
                return TransformersEngine(*load_model(resolve_model(model)), sampling)
            return TransformersEngine(policy.base, policy.tokenizer, sampling, policy=policy)


def tokenizer_of(settings: EngineSettings, model: str) -> Any:
    """Tokenizer of the model that the engine runs, None if its name says too little (a server's)."""
    name = settings.tokenizer if settings.name == "openai" else model
    return load_tokenizer(resolve_model(name, weights=False)) if name and settings.name != "chat" else None
