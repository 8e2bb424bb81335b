"""A sweep's search: an Optuna study in a file of the sweep's folder, written before anything is acted on.

Its sampler is seeded with the number of runs begun, so a sweep that was killed goes on as if it had not been.
"""

import fcntl
import json
import math
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import optuna
from optuna.storages.journal import JournalFileBackend
from optuna.trial import FrozenTrial, Trial, TrialState

from atlas_gym.agents.population.settings import ClusterSettings
from atlas_gym.experiments.loggers.metrics import RoundHistory, final_row
from atlas_gym.experiments.report.data import intelligible
from atlas_gym.experiments.studies.sweep_file import Sweep
from atlas_gym.seeding import torch_seed
from atlas_gym.trainers.store.plain import SettingsError, build, plain, read_mapping
from atlas_gym.trainers.store.store import RunStore, StoreError

_RANDOM_FIRST = 4
"""Runs that bayes draws at random before it has anything to model."""
SUMMARY_METRICS = ("held_out_score", "held_out_gap", "improvement")
"""Known at a run's end only: until then it is judged by `score/best`."""


class Search:
    """One sweep's runs, as Optuna's trials.

    Args:
        sweep: the sweep.
        folder: its folder; made if it is missing.
        seed: of the search.

    Raises:
        SettingsError: the folder belongs to another sweep, or another process is running this one.
    """

    def __init__(self, sweep: Sweep, folder: Path, seed: int):
        optuna.logging.set_verbosity(optuna.logging.ERROR)
        folder.mkdir(parents=True, exist_ok=True)
        self._lock = (folder / "sweep.lock").open("w")
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise SettingsError(f"another process is running the sweep in {folder}") from error
        self.sweep, self._seed = sweep, seed
        rule, journal = sweep.early_terminate, folder / "sweep.journal"
        if journal.exists():  # a line that a full disk cut short was never acted on, and would spoil the next
            os.truncate(journal, journal.read_bytes().rfind(b"\n") + 1)
        self.study = optuna.create_study(
            study_name=sweep.name,
            storage=optuna.storages.JournalStorage(JournalFileBackend(str(journal))),
            direction=sweep.metric.goal,
            load_if_exists=True,
            pruner=optuna.pruners.SuccessiveHalvingPruner(min_resource=rule.first, reduction_factor=rule.eta)
            if rule
            else optuna.pruners.NopPruner(),
        )
        self._claim(folder, {"sweep file": json.dumps(plain(sweep)), "seed": seed})

    def _claim(self, folder: Path, identity: Mapping[str, Any]) -> None:
        for key, value in identity.items():
            if self.study.user_attrs.get(key, value) != value:
                raise SettingsError(
                    f"{folder} was begun with another {key}; name another folder with --folder"
                )
            self.study.set_user_attr(key, value)
        for cell in self.sweep.cells() if self.sweep.method == "grid" else ():
            self.study.enqueue_trial(cell, skip_if_exists=True)

    def close(self) -> None:
        """Let another process have the sweep."""
        self._lock.close()

    def trials(self, *states: TrialState) -> list[FrozenTrial]:
        """Optuna's records of the runs begun so far, in order; of these states only, if any are given."""
        found = self.study.get_trials(deepcopy=False)
        return [t for t in found if t.state != TrialState.WAITING and (not states or t.state in states)]

    def interrupted(self) -> list[Trial]:
        """The runs that were under way when the sweep was killed, to be gone on with."""
        return [self._whole(trial) for trial in self.trials(TrialState.RUNNING)]

    def _whole(self, begun: FrozenTrial) -> Trial:
        """The trial, with what it lacks where the sweep was killed while its parameters were drawn."""
        self.study.sampler = self._sampler(begun.number)
        trial = Trial(self.study, begun._trial_id)
        for name, found in self.sweep.distributions.items():
            if name in begun.params and not found.single():  # drawn again: the next draw is the next one's
                self.study.sampler.sample_independent(self.study, begun, name, found)
            trial._suggest(name, found)
        return trial

    def next(self) -> Trial | None:
        """A new run's trial; None if the cap is reached or a grid exhausted."""
        begun, all_ = len(self.trials()), len(self.study.get_trials(deepcopy=False))
        if begun == self.sweep.run_cap or (self.sweep.method == "grid" and begun == all_):
            return None
        self.study.sampler = self._sampler(begun)
        return self.study.ask(dict(self.sweep.distributions))

    def _sampler(self, number: int) -> optuna.samplers.BaseSampler:
        seed = torch_seed(self._seed, "sweep", number) % 2**32
        if self.sweep.method == "bayes":
            return optuna.samplers.GPSampler(
                seed=seed, n_startup_trials=_RANDOM_FIRST, warn_independent_sampling=False
            )
        return optuna.samplers.RandomSampler(seed=seed)

    def settings(self, trial: Trial | FrozenTrial) -> dict[str, Any]:
        """A trial's parameters, as the sweep file has them."""
        found = self.sweep.distributions
        return {
            n: json.loads(trial.params[n]) if hasattr(found[n], "choices") else trial.params[n] for n in found
        }

    def best(self) -> FrozenTrial | None:
        """The best run that came to its end, the earliest of equals; None if there is none."""
        return self.study.best_trial if self.trials(TrialState.COMPLETE) else None


class RunWatch:
    """Reads a run's metric from its own store, and reports it to its trial while the run goes on.

    Args:
        trial: the run's trial.
        folder: the run's folder; need not exist yet.
        sweep: the sweep.
    """

    def __init__(self, trial: Trial, folder: Path, sweep: Sweep):
        self.trial = trial
        self._folder, self._sweep = folder, sweep
        self._rounds: RoundHistory | None = None
        self._values: list[float] = []
        self._told = len(trial.study.trials[trial.number].intermediate_values)

    @property
    def rounds(self) -> int:
        """How many rounds have been seen."""
        return len(self._values)

    def is_hopeless(self) -> bool:
        """Report the rounds that are new; whether one of them came to too little to go on."""
        name = "score/best" if self._sweep.metric.name in SUMMARY_METRICS else self._sweep.metric.name
        rows = self._read(self._history) or []
        self._values = [row[name] for row in rows if _is_number(row.get(name))]
        for step, value in list(enumerate(self._values, start=1))[self._told :]:
            self._told = step
            self.trial.report(value, step)
            if self.trial.should_prune():
                return True
        return False

    def value(self) -> float | None:
        """What the run came to: its final value where there is one, else that of its best round."""
        metric = self._sweep.metric
        final = (self._read(final_row) or {}).get(metric.name)
        if _is_number(final):
            return final
        rounds = () if metric.name in SUMMARY_METRICS else self._values
        return (max if metric.goal == "maximize" else min)(rounds, default=None)

    def _read(self, look: Callable[[RunStore], Any]) -> Any:
        try:
            with intelligible("damaged"), RunStore.open_readonly(self._folder) as store:
                return look(store)
        except StoreError:
            return None

    def _history(self, store: RunStore) -> list[dict]:
        config = self._folder / "config.yaml"
        if self._rounds is None:
            if not config.is_file():
                return []
            settings = read_mapping(config, "the configuration")
            islands = settings.get("agent", {}).get("islands", {})
            clusters = build(ClusterSettings, islands.get("clusters", {}))
            self._rounds = RoundHistory(settings.get("exploration", {}).get("groups", 1), clusters)
        return self._rounds.extend(store)


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and math.isfinite(value)
