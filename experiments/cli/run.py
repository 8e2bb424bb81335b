"""Begin or continue a run: `atlas run --config default --seed 3 --phase.beta 0.2`.

Without a configuration it is the main job, `--config default`. Everything that decides a run is in its configuration;
the command line only lays single values on top. The run's folder remembers the result, so `--resume` needs nothing but
the folder. What a run needs is imported only when its settings are right: a typo has its answer at once.
"""

import os
import sys
from argparse import Namespace
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from atlas_gym.experiments.cli.options import read_arguments
from atlas_gym.experiments.shipped import find
from atlas_gym.text import clean
from atlas_gym.trainers.loop.config import RunConfig, as_yaml, load_config, refused_changes
from atlas_gym.trainers.store.plain import SettingsError, flatten

EXIT_USAGE = 2


def main(arguments: Sequence[str] | None = None) -> int:
    """Run or resume; returns the exit code (0 done, 1 failed, 2 asked wrongly, 130 interrupted)."""
    try:
        flags, settings = read_arguments(arguments)
        config, folder = _resolve(flags, settings)
        if flags.print_settings:
            print(as_yaml(config), end="")
            return 0
        from atlas_gym.trainers.loop.tasks import Tasks

        Tasks(config)  # refuses what the environment does not know, before anything is written
        _require_own_folder(flags, config, folder)
    except SettingsError as error:
        print(f"Error: {clean(str(error), 5000)}", file=sys.stderr)
        return EXIT_USAGE
    from atlas_gym.experiments.cli.main_job import begin

    return begin(config, folder)


def _resolve(flags: Namespace, settings: Mapping[str, Any]) -> tuple[RunConfig, Path]:
    folder = Path(flags.folder) if flags.folder else None
    sweep, run = os.environ.get("WANDB_SWEEP_ID"), os.environ.get("WANDB_RUN_ID")
    if folder is None and sweep and run:  # runs of a sweep differ in what a folder's name does not show
        folder = Path("runs") / f"sweep-{sweep}" / run
    stored = folder / "config.yaml" if folder else None
    lost = stored is not None and (not stored.exists() or (stored.is_file() and stored.stat().st_size == 0))
    if stored is not None and lost and (flags.resume or flags.resume_if_exists):
        from atlas_gym.trainers.loop.beginning import restore_config

        restore_config(stored.parent)
    if stored is not None and not stored.exists():
        stored = None
    if flags.resume and stored is None:
        where = f"{folder} has no config.yaml" if folder else "atlas resume FOLDER"
        if folder and not folder.exists():
            where = f"there is no folder {folder}"
        raise SettingsError(f"--resume needs --folder with a run in it: {where}")
    if stored is not None and stored.stat().st_size == 0:
        raise SettingsError(f"{stored} is empty: put the run's back, or name another --folder")
    given = find("configs", flags.config) if flags.config is not None else stored or _main_job(settings)
    try:
        config = load_config(given, settings)  # what is not said anew is as the stored run has it
    except SettingsError as error:
        if given is not stored or settings:
            raise
        raise SettingsError(
            f"{error}; if it is damaged, delete {stored}: --resume writes it again"
        ) from error
    if stored is not None and given is stored and not flags.trust:
        from atlas_gym.trainers.loop.beginning import require_trust

        require_trust(stored.parent, config, flatten(settings))
    return config, folder or Path("runs") / config.name


def _main_job(settings: Mapping[str, Any]) -> Path | None:
    """The default configuration; none where another task or method is named, which its bandits and controls do not
    fit."""
    path = find("configs", "default")
    config = load_config(path, {})
    fits = all(
        settings.get(name, own) == own for name, own in (("env", config.env), ("method", config.method))
    )
    return path if fits else None


def _require_own_folder(flags: Namespace, config: RunConfig, folder: Path) -> None:
    """A folder holds one run, and a run keeps its settings."""
    if not (folder / "config.yaml").exists():
        return
    if not (flags.resume or flags.resume_if_exists):
        raise SettingsError(
            f"{folder} holds a run already: atlas resume {folder} continues it; or name another --folder"
        )
    if changes := refused_changes(load_config(folder / "config.yaml", {}), config):
        raise SettingsError(
            f"{folder} was begun with other settings ({changes}); a run keeps its own. Name another --folder"
        )
