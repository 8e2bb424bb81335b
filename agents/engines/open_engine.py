"""From settings to an engine.

Engines and what they need are imported where they are chosen: vLLM, transformers and the HTTP client take seconds.
"""

from contextlib import suppress
from pathlib import Path
from typing import Any, Literal

import torch

from atlas_gym.agents.engines.engine import Engine, EngineError, Sampling
from atlas_gym.agents.engines.settings import EngineSettings
from atlas_gym.agents.models.loading import load_model, load_tokenizer, resolve_model
from atlas_gym.agents.models.policy import Policy


def engine_here(device: str) -> Literal["transformers", "vllm"]:
    """What `auto` is on this machine, for a policy on that device: vLLM where it can be imported and has a GPU with
    bfloat16."""
    if (
        device != "cpu"
        and torch.cuda.is_available()
        and torch.cuda.is_bf16_supported(including_emulation=False)
    ):
        from atlas_gym.agents.engines.vllm import require_vllm

        with suppress(EngineError):
            require_vllm()
            return "vllm"
    return "transformers"


def open_engine(
    settings: EngineSettings,
    sampling: Sampling,
    *,
    model: str,
    folder: Path,
    policy: Policy | None = None,
) -> Engine:
    """Start an engine on the model of that name, of a policy if its adapters are to be served.
    `auto` is one by now (`engine_here`).

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
        case _:
            from atlas_gym.agents.engines.hf_transformers import TransformersEngine

            if policy is None:
                return TransformersEngine(*load_model(resolve_model(model)), sampling)
            return TransformersEngine(policy.base, policy.tokenizer, sampling, policy=policy)


def tokenizer_of(settings: EngineSettings, model: str) -> Any:
    """Tokenizer of the model that the engine runs, None if its name says too little (a server's)."""
    name = settings.tokenizer if settings.name == "openai" else model
    return load_tokenizer(resolve_model(name, weights=False)) if name and settings.name != "chat" else None
