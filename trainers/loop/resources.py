"""What a run needs of its machine and of others: evaluators, a device, and servers, asked once when it begins.

Nobody is to hear after hours of a server that was never there.
"""

from collections.abc import Iterator
from pathlib import Path

import torch

from agents.engines.completions import OpenAIBackend
from agents.engines.endpoint import ChatClient, Message
from agents.engines.engine import BackendError
from agents.engines.http import BUSY, EndpointError
from agents.models.policy import POLICY, REFERENCE, Policy
from agents.supporters.call import ROLES
from agents.supporters.settings import SupporterSettings
from atlas_gym.evaluation import EvaluatorPool, Pool
from trainers.loop.config import RunConfig
from trainers.store.plain import SettingsError

BEGIN = Path("adapters", "begin")
"""Where, in a run's folder, the adapter is kept that it began with."""


def make_pool(config: RunConfig) -> Pool:
    """Evaluators for a run, on this machine or on a Ray cluster.

    Raises:
        SettingsError: Ray is asked for and not installed, or there is no cluster at the address.
    """
    if config.evaluator == "pool":
        return EvaluatorPool(workers=config.workers)
    from atlas_gym.evaluation.ray import RayEvaluatorPool

    try:
        return RayEvaluatorPool(workers=config.workers, address=config.ray_address)
    except (ModuleNotFoundError, ConnectionError) as error:
        raise SettingsError(f"evaluator: ray cannot be had: {error}") from error


def device_of(config: RunConfig) -> str:
    """Where the policy's weights go: on a GPU if torch finds one, unless the CPU is asked for.

    Raises:
        SettingsError: a GPU is asked for, and there is none.
    """
    if config.device == "cpu":
        return "cpu"
    if torch.cuda.is_available():
        return "cuda"
    if config.device == "cuda":
        raise SettingsError(
            f"device: torch {torch.__version__} finds no GPU here; auto or cpu runs on the CPU"
        )
    return "cpu"


def make_policy(config: RunConfig, model: Path, run: Path) -> Policy:
    """The model in the folder `model`, policy and reference as the run in the folder `run` begins.

    Raises:
        AdapterError: the adapter to begin with is missing, damaged or another model's.
    """
    policy = Policy.load(model, lora=config.lora, device=device_of(config), seed=config.seed)
    own = run / BEGIN
    if config.adapter:
        policy.restore(POLICY, own if own.exists() else config.adapter)
        policy.copy(POLICY, REFERENCE)
        if not own.exists():  # where it came from may be gone when the run is resumed
            policy.save(POLICY, own)
    return policy


def greet_supporters(settings: SupporterSettings) -> None:
    """Ask the models behind the supporters for a word each.

    Raises:
        BackendError: one cannot be reached, or refuses; the message names the setting.
    """
    for role in ROLES:
        own = getattr(settings, role)
        if own.form != "llm" or own.endpoint is None:
            continue
        try:
            ChatClient(own.endpoint).ask(
                (Message("user", "Reply with the word yes."),), seed=0, schema=None,
                temperature=own.endpoint.temperature, deadline_s=own.limits.deadline_s,
                max_bytes=own.limits.reply_bytes,
            )  # fmt: skip
        except EndpointError as error:
            if not error.reached or (error.status or BUSY) < BUSY:
                raise BackendError(
                    f"supporters.{role}: {own.endpoint.model} at {own.endpoint.base_url} does not answer: {error}. "
                    f"Check the endpoint, or go without: --supporters.{role}.form off"
                ) from None


def silent_servers(config: RunConfig) -> Iterator[str]:
    """In words, each server with `/v1/completions` that does not answer now; a run waits for it."""
    for backend in (config.backend, *(own.backend for own in config.island_models)):
        server = backend.openai
        if backend.name == "openai" and not OpenAIBackend(server, config.sampling, Path(), None).alive():
            yield f"{server.model} at {server.base_url} does not answer; it is waited for, up to {server.wait_s:.0f} s"
