"""What a run is made of and needs of its machine and of others: evaluators, a device, and servers, asked once when it
begins.

Nobody is to hear after hours of a server that was never there.
"""

import os
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from atlas_gym import make_task
from atlas_gym.agents.engines.engine import Engine, EngineError
from atlas_gym.agents.engines.open_engine import engine_here, open_engine, tokenizer_of
from atlas_gym.agents.models.loading import resolve_model
from atlas_gym.agents.models.policy import POLICY, REFERENCE, Policy
from atlas_gym.agents.population.candidate import AGENT
from atlas_gym.agents.proposals.rewrite import chat_of
from atlas_gym.agents.research_agent import ResearchAgent
from atlas_gym.agents.supporters.build import build_supporters
from atlas_gym.agents.supporters.consult import ROLES, SupporterCall
from atlas_gym.agents.supporters.settings import SupporterSettings
from atlas_gym.evaluation import EvaluatorPool, Pool
from atlas_gym.trainers.data.rollouts import ProgramCache
from atlas_gym.trainers.loop.beginning import BEGIN
from atlas_gym.trainers.loop.config import RunConfig
from atlas_gym.trainers.loop.observer import Observer
from atlas_gym.trainers.loop.tasks import Tasks
from atlas_gym.trainers.store.plain import SettingsError
from atlas_gym.trainers.store.store import RunStore


class Parts:
    """What the steps of a run share. A stored run is continued; `opened` closes what is opened here. Raises
    `AdapterError`: the adapter to begin with is missing, damaged or another model's; `ModelMissing`: the model is not
    on this machine; the message names the command that fetches it; `SettingsError`: the settings do not fit the
    environment or the machine; `EngineError`: a model behind an API cannot be used; `NothingToEdit`: a start has no
    place for any of the styles that are asked for."""

    def __init__(self, config: RunConfig, store: RunStore, observers: Sequence[Observer], opened: ExitStack):
        self.store = store
        self._observers = observers
        if config.backend.name == "auto":  # the engine that a stored run began with, wherever it goes on
            name = store.get_meta("engine") or engine_here(config.device)
            self.tell("stage", f"backend.name: auto, which is {name} in this run")
            config = replace(config, backend=replace(config.backend, name=name))
        self.config = config
        folder = resolve_model(config.model) if config.needs_policy else None
        torch.set_num_threads(config.torch_threads)
        self.tasks = Tasks(config)
        self.spec = make_task(config.env, **config.env_args)
        self.pool = opened.enter_context(make_pool(config))
        self.policy = make_policy(config, folder, store) if folder else None
        writes = AGENT in config.writers
        tokenizer = self.policy.tokenizer if self.policy else None
        if writes and tokenizer is None:
            tokenizer = tokenizer_of(config.backend, config.model)
        self.agent = ResearchAgent(
            self.spec, config.agent, seed=config.seed, chat=chat_of(tokenizer), messages=config.messages,
            instances=len(self.tasks.instances),
        )  # fmt: skip
        for start in {own.start or config.start for own in self.tasks.instances}:
            self.agent.require_writers(self.spec.starts[start], config.writers, f"the start `{start}`")
        self.backend: Engine  # writes the agent's completions; of a run without a model there is none
        if writes or self.policy:
            self.backend = open_engine(
                config.backend, config.sampling, model=config.model, folder=store.folder, policy=self.policy
            )  # fmt: skip
            opened.callback(self.backend.close)
        greet_supporters(config.supporters)
        for text in silent_servers(config) if writes else ():
            self.tell("stage", text)
        self.cache = ProgramCache(self.pool, self.tasks.tasks(), store)
        self.supporters = build_supporters(config.supporters, config.seed)
        self.supporters.resume(SupporterCall.from_dict(call) for call in store.supporter_calls())

    def tell(self, event: str, *details: Any) -> None:
        """Pass an event to the observers."""
        for observer in self._observers:
            getattr(observer, event)(*details)


def make_pool(config: RunConfig) -> Pool:
    """Evaluators for a run, on this machine or on a Ray cluster. Raises `SettingsError`: Ray is asked for and not
    installed, or there is no cluster at the address."""
    if config.evaluator == "pool":
        return EvaluatorPool(workers=config.workers)
    from atlas_gym.evaluation.ray import RayEvaluatorPool

    try:
        return RayEvaluatorPool(workers=config.workers, address=os.environ.get("RAY_ADDRESS", ""))
    except (ModuleNotFoundError, ConnectionError) as error:
        raise SettingsError(f"evaluator: ray cannot be had: {error}") from error


def device_of(config: RunConfig) -> str:
    """Where the policy's weights go: on a GPU if torch finds one, unless the CPU is asked for. Raises `SettingsError`:
    a GPU is asked for, and there is none."""
    if config.device == "cpu":
        return "cpu"
    if torch.cuda.is_available():
        return "cuda"
    if config.device == "cuda":
        raise SettingsError(
            f"device: torch {torch.__version__} finds no GPU here; auto or cpu runs on the CPU"
        )
    return "cpu"


def load_policy(config: RunConfig, model: Path, device: str) -> Policy:
    """The model in the folder `model`, on a device; policy and reference as it comes. Raises `ValueError`: the model
    has no place for the adapters that `lora` asks for."""
    dtype = None if config.dtype == "auto" else getattr(torch, config.dtype)
    return Policy.load(model, dtype=dtype, lora=config.lora, device=device, seed=config.seed)


def make_policy(config: RunConfig, model: Path, store: RunStore) -> Policy:
    """The model in the folder `model`, policy and reference as the run of `store` begins. Raises `AdapterError`: the
    adapter to begin with is missing, damaged, another model's, or not the one that the run began with; `SettingsError`:
    the model has no place for the adapters that `lora` asks for."""
    try:
        policy = load_policy(config, model, device_of(config))
    except ValueError as error:
        raise SettingsError(f"adapters cannot be had of {model}: {error}") from error
    if config.adapter:
        own, known = store.folder / BEGIN, store.get_meta("begin")
        kept = own.exists()
        found = policy.restore(POLICY, own if kept else config.adapter, known)
        policy.copy(POLICY, REFERENCE)
        if not kept:  # where it came from may be gone when the run is resumed
            policy.save(POLICY, own)
        if known is None:
            store.set_meta("begin", found)
    return policy


def greet_supporters(settings: SupporterSettings) -> None:
    """Ask the models behind the supporters for a word each. Raises `EngineError`: one cannot be reached, or refuses;
    the message names the setting."""
    from atlas_gym.agents.engines.client import LATER, ChatClient, EndpointError

    for role in ROLES:
        own = getattr(settings, role)
        if own.form != "llm" or own.endpoint is None:
            continue
        try:
            ChatClient(own.endpoint).ask(
                [{"role": "user", "content": "Reply with the word yes."}], seed=0, schema=None,
                temperature=own.endpoint.temperature, deadline_s=own.limits.deadline_s,
                max_bytes=own.limits.reply_bytes,
            )  # fmt: skip
        except EndpointError as error:
            if not error.reached or (error.status and error.status not in LATER):
                raise EngineError(
                    f"supporters.{role}: {own.endpoint.model} at {own.endpoint.base_url} does not answer: {error}. "
                    f"Check the endpoint, or go without: --supporters.{role}.form off"
                ) from None


def silent_servers(config: RunConfig) -> Iterator[str]:
    """In words, a server with `/v1/completions` that does not answer now; a run waits for it. `EngineError` if asking
    again is of no use."""
    from atlas_gym.agents.engines.api import CompletionsEngine
    from atlas_gym.agents.engines.client import EndpointError

    server = config.backend.server
    if config.backend.name == "openai":
        try:
            CompletionsEngine(server, config.sampling).answer()
        except EndpointError as error:
            where = f"{server.model} at {server.base_url} does not answer ({error})"
            yield f"{where}; it is waited for, up to {server.wait_s:.0f} s"
