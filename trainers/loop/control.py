"""The frozen control: the same run with tuning off, so that what tuning changed can be told from what search found.

Until the first phase that tunes, both runs are the same step by step: the control takes those rounds over from the run
and explores on from there with the untuned model, under the same seeds, for as many candidates. It lies in a store of
its own in the run's folder and is resumed like any run.
"""

import shutil
from dataclasses import replace
from pathlib import Path

from atlas_gym.trainers.loop.beginning import BEGIN
from atlas_gym.trainers.loop.config import RunConfig
from atlas_gym.trainers.store.store import RunStore

FOLDER = "frozen"
"""The control's folder within the run's."""


def frozen(config: RunConfig) -> RunConfig:
    """The control's configuration."""
    return replace(config, tuning=False, control="off")


def open_control(run: RunStore, folder: Path) -> RunStore:
    """The control's store, begun with what it shares with the run, whose rounds are all done."""
    store = RunStore(folder)
    if store.round_summary(0) is None:
        if (run.folder / BEGIN).exists():
            shutil.copytree(run.folder / BEGIN, folder / BEGIN, dirs_exist_ok=True)
        tuned = (phase["round"] for phase in run.tuned_phases())
        store.begin_like(run, min(tuned, default=run.last_round()))
    return store
