"""The ATLAS loop (Algorithm 1): explore on islands, build pairs, tune with EvoDPO, let the gate decide, go on.

    blocks of `phase_every` rounds:   explore … explore | phase 1 | explore … explore | phase 2 | …

EvoTune, EvoDPO and plain search are the same loop under other settings (`trainers.loop.methods`). The loop keeps
no state that the run store does not have: run again, it walks the same steps and reads each one that is stored,
so killing it at any moment and calling it again is the same as never having killed it.

`AtlasRun.run` and `take_phase`, at the end, are the algorithm; what stands before them opens what it needs.
"""

from collections.abc import Sequence
from contextlib import ExitStack
from typing import Any

import torch

from agents.engines.engine import Generator
from agents.engines.serving import open_backend, tokenizer_of
from agents.engines.spending import total
from agents.models.loading import resolve_model
from agents.models.policy import POLICY, Policy
from agents.proposals.rewrite import chat_of
from agents.research_agent import ResearchAgent
from agents.supporters.build import Supporters, build_supporters
from agents.supporters.call import SupporterCall
from atlas_gym import make_task
from atlas_gym.seeding import stream
from trainers.data.redraws import Redraws
from trainers.data.rollouts import ProgramCache
from trainers.loop.advisers import PhaseAdvisers
from trainers.loop.beginning import note_beginning
from trainers.loop.config import RunConfig, save_config
from trainers.loop.confirmation import confirm
from trainers.loop.exploration import Explorer
from trainers.loop.fine_tuning import Tuning
from trainers.loop.measure import Panel
from trainers.loop.observer import Observer
from trainers.loop.phase_data import PhaseData
from trainers.loop.probe import Probes
from trainers.loop.resources import greet_supporters, make_policy, make_pool, silent_servers
from trainers.loop.schedule import TaskSchedule, starting_program
from trainers.loop.settings import Instance
from trainers.loop.teaching import Teacher
from trainers.store.store import RunStore


class AtlasRun:
    """One run, begun or continued; a context manager that leaves no process behind.

    Args:
        config: everything that decides the run.
        store: its run store; a stored run is continued.
        observers: told of everything that happens.

    Raises:
        AdapterError: the adapter to begin with is missing, damaged or another model's.
        ModelMissing: the model is not on this machine; the message names the command that fetches it.
        SettingsError: the settings do not fit the environment or the machine.
        BackendError: a model behind an API cannot be used.
        NothingToEdit: a start has no place for any of the styles that are asked for.
    """

    def __init__(self, config: RunConfig, store: RunStore, observers: Sequence[Observer] = ()):
        self.config = config
        self.store = store
        self._observers = observers
        folder = resolve_model(config.model) if config.needs_policy else None
        torch.set_num_threads(config.torch_threads)
        self.tasks = TaskSchedule(config)
        self.spec = make_task(config.env, **config.env_args)
        self._resources = ExitStack()
        self.pool = self._resources.enter_context(make_pool(config))
        self.policy = make_policy(config, folder, store.folder) if folder else None
        tokenizer = self.policy.tokenizer if self.policy else tokenizer_of(config.backend, config.model)
        self.agent = ResearchAgent(
            self.spec, config.agent, seed=config.seed, chat=chat_of(tokenizer), messages=config.messages,
            instances=len(self.tasks.instances),
        )  # fmt: skip
        for island in range(config.exploration.islands if config.exploration.samples else 0):
            start = self.tasks.instances[island % len(self.tasks.instances)].start or config.start
            self.agent.require_sites(self.spec.starts[start], f"the start `{start}`", island)
        self._ledger = store.folder / "spending.jsonl"
        self.backend = open_backend(
            config.backend, config.sampling, model=config.model, folder=store.folder / "adapters" / "served",
            policy=self.policy, further=config.island_models, ledger=self._ledger,
        )  # fmt: skip
        self._resources.callback(self.backend.close)
        greet_supporters(config.supporters)
        for text in silent_servers(config):
            self._tell("stage", text)
        self.cache = ProgramCache(self.pool, self.tasks.tasks(1), store)
        supporters = build_supporters(config.supporters, config.seed)
        supporters.resume(SupporterCall.from_dict(call) for call in store.supporter_calls())
        self.explorer = Explorer(
            config.exploration, self.agent, self._current_generator, self.cache, store, supporters.exploration,
            teaching=config.teaches_exploration,
        )  # fmt: skip
        self.tuning = self.policy and self._tuning(self.policy, supporters)
        self._generator: Generator | None = None
        # Last: a run that could not even begin must not tie its folder to the settings that prevented it.
        save_config(config, store.folder / "config.yaml")
        note_beginning(config, store)

    def _tuning(self, policy: Policy, supporters: Supporters) -> Tuning:
        config, store, backend, agent = self.config, self.store, self.backend, self.agent
        asked = config.measure.samples > 0
        panel = Panel(config, self.tasks, agent.styles, self.pool, store) if asked else None
        probes = Probes(config, policy, backend, agent, self.cache, store, self._tell, panel)
        data = PhaseData(config, store, policy.tokenizer, self._teacher(supporters), panel, self._redraws())
        advisers = PhaseAdvisers(config, supporters, store)
        return Tuning(config, policy, backend, agent, advisers, self.cache, store, data, probes, self._tell)

    def _teacher(self, supporters: Supporters) -> Teacher | None:
        config = self.config
        if supporters.exploration is None or not config.teaches_phases:
            return None
        return Teacher(
            supporters.exploration, self.spec, self.cache, self.store, lessons=config.lessons,
            prompts=config.pairs.prompts, seed=config.seed, without=config.messages,
        )  # fmt: skip

    def _redraws(self) -> Redraws | None:
        pairs = self.config.pairs
        if pairs.redraws == 0:
            return None
        return Redraws(self.pool, self.tasks.redrawn, self.store.candidate, pairs.redraws, pairs.margin)

    def __enter__(self) -> "AtlasRun":
        return self

    def __exit__(self, *exc_info: object) -> None:
        self._resources.close()

    def _seed(self) -> None:
        """Round 0: every island begins at its instance's starting program."""
        begun = self.store.unit_summary(0, 0) is not None
        if not begun:
            self.store.set_instances(len(self.tasks.instances))
        self.explorer.seed(() if begun else self._starts())
        self._tell("seeded", self.agent.best_score, self.store.last_round(), self.config.rounds)

    def _starts(self) -> list[str]:
        """The instances' starting programs."""

        def start(number: int, own: Instance) -> str:
            def score(program: str) -> float | None:
                return self.cache.evaluate(program, number).score

            program = self.spec.starts[own.start or self.config.start]
            rng = stream(self.config.seed, "weakened", number)
            return starting_program(program, self.spec.function, own.weakened, rng, score)

        return [start(number, own) for number, own in enumerate(self.tasks.instances)]

    def _set_task(self, block: int) -> None:
        tasks = self.tasks.tasks(block)
        self.explorer.notes = [self.tasks.observed(task) for task in tasks]
        if self.tasks.changes(block):
            self.explorer.change_tasks(tasks)

    def _explore(self, first: int, last: int) -> None:
        self._tell("stage", f"rounds {first} to {last}: exploring")
        with ExitStack() as served:
            # Serving the policy's adapter costs a second; a block that is only replayed never asks for it.
            self._serve = lambda: served.enter_context(self.backend.serving(POLICY))
            for summary in self.explorer.rounds(first, last):
                self._tell("unit", summary, self.agent.best_score)
            self._generator = None

    def _current_generator(self) -> Generator:
        if self._generator is None:
            self._generator = self._serve()
        return self._generator

    def _confirm(self) -> dict[str, Any]:
        """The best program against the first, on random numbers that no candidate was chosen by."""
        summary = confirm(self.config, self.store, self.pool, self._tell)
        summary["spending"] = total(self._ledger)
        self._tell("finished", summary)
        return summary

    def _tell(self, event: str, *details: Any) -> None:
        for observer in self._observers:
            getattr(observer, event)(*details)

    def run(self) -> dict[str, Any]:
        """Walk every step of the run that is not stored yet; returns the summary of the whole run."""
        self._seed()
        for k, (first, last) in enumerate(self.config.blocks, start=1):
            self._set_task(k)
            self._explore(first, last)
            if self.tuning and k <= self.config.phases:
                take_phase(self.tuning, k, first, last)
                self._tell("phase", self.store.phases()[k - 1])
            elif self.tuning and self.tasks.changes(k):
                self.tuning.probes.unseen(k, last)
        if self.tuning:
            self.tuning.conclude()
        return self._confirm()


def take_phase(tuning: Tuning, k: int, first: int, last: int) -> None:
    """Phase k of EvoDPO, after the rounds `first` to `last`: both adapters move, or neither does."""
    if tuning.restore(k):  # what is stored is read
        return None
    if reason := tuning.idle(first, last):
        return tuning.skip(k, last, reason)
    buffer, G_k = tuning.buffer(k, first, last)  # all that was written and taught so far, less G_k's prompts
    # Under the strategist's threshold, β, epochs and rate.
    advice, D_k = tuning.examples(k, first, last, buffer)
    if not D_k:
        return tuning.skip(k, last, tuning.why_nothing(k, buffer))
    # Eqs. 2 to 5: the candidate set C_k, K̂L and Ŝ of each along G_k, one of them proposed, the gate and the inspector.
    outcome = tuning.tune(k, last, advice, D_k, G_k)
    return tuning.record(k, last, advice, D_k, outcome)  # π_{k+1} and π_ref,k+1
