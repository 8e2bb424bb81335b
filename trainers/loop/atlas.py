"""The ATLAS loop (Algorithm 1): explore on islands, build pairs, tune with EvoDPO, let the gate decide, go on.

    blocks of `phase_every` rounds:   explore … explore | phase 1 | explore … explore | phase 2 | …

EvoTune, EvoDPO and plain search are the same loop under other settings (`trainers.loop.methods`). The loop keeps
no state that the run store does not have: run again, it walks the same steps and reads each one that is stored,
so killing it at any moment and calling it again is the same as never having killed it.

`AtlasRun.run`, at the end, and `Tuning.take` are the algorithm; `trainers.loop.resources` opens what they need.
"""

from collections.abc import Sequence
from contextlib import ExitStack
from functools import cache
from typing import Any, Self

from atlas_gym.agents.engines.spending import LEDGER, total
from atlas_gym.agents.models.policy import POLICY
from atlas_gym.trainers.loop.beginning import note_beginning
from atlas_gym.trainers.loop.config import RunConfig, save_config
from atlas_gym.trainers.loop.confirmation import confirm
from atlas_gym.trainers.loop.exploration import Explorer
from atlas_gym.trainers.loop.observer import Observer
from atlas_gym.trainers.loop.phase import Tuning
from atlas_gym.trainers.loop.resources import Parts
from atlas_gym.trainers.store.store import RunStore


class AtlasRun(Parts):
    """One run, begun or continued; a context manager that leaves no process behind, also where the run cannot begin.

    See `Parts` and `Tuning` for the arguments and what is raised.
    """

    def __init__(self, config: RunConfig, store: RunStore, observers: Sequence[Observer] = ()):
        with ExitStack() as opened:
            super().__init__(config, store, observers, opened)
            self.explorer = Explorer(
                config.exploration, config.writers, self.agent, lambda: self._generator(), self.cache, store,
                config.evaluations, self.supporters.exploration,
                notes=[self.tasks.observed(task) for task in self.tasks.tasks()],
            )  # fmt: skip
            self.tuning = Tuning(self, self.policy) if self.policy else None
            # Last: a run that could not even begin must not tie its folder to the settings that prevented it.
            save_config(config, store.folder / "config.yaml")
            note_beginning(config, store)
            store.set_meta("engine", self.config.backend.name)
            self._resources = opened.pop_all()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self._resources.close()

    def _seed(self) -> None:
        """Round 0: every island begins at its instance's starting program."""
        starts: list[str] = []
        if self.store.round_summary(0) is None:
            if self.tuning and self.tuning.exam:
                _ = self.tuning.exam.questions  # whose starts must not fail: a run keeps its settings
            self.store.set_instances(len(self.tasks.instances))
            starts = [self.spec.starts[own.start or self.config.start] for own in self.tasks.instances]
        self.explorer.seed(starts)
        self.tell("seeded", self.agent.best_score, self.store.last_round(), self.config.rounds)

    def _explore(self, first: int, last: int) -> None:
        self.tell("stage", f"rounds {first} to {last}: exploring")
        with ExitStack() as served:
            # Serving the policy's adapter costs a second; a block that is only replayed never asks for it.
            self._generator = cache(lambda: served.enter_context(self.backend.serving(POLICY)))
            for summary in self.explorer.rounds(first, last):
                self.tell("round", summary, self.agent.best_score)
            self._generator.cache_clear()

    def run(self) -> dict[str, Any]:
        """Walk every step of the run that is not stored yet; returns the summary of the whole run."""
        self._seed()
        for k, (first, last) in enumerate(self.config.blocks, start=1):
            self._explore(first, last)
            budget = self.config.evaluations
            spent = budget > 0 and self.store.candidate_counts()["evaluated"] >= budget
            if spent and self.store.last_round() <= last:
                break  # no round follows, and so no phase
            if self.tuning and k <= self.config.phases:
                self.tuning.take(k)
                self.tell("phase", self.store.phases()[k - 1])
        # The best program against the first, on random numbers that no candidate was chosen by.
        summary = confirm(self.config, self.store, self.pool, self.tell)
        summary["spending"] = total(self.store.folder / LEDGER)
        self.tell("finished", summary)
        return summary
