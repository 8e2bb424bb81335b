"""What a run's candidates are scored on, block by block: one task, or one that drifts between phases.

Drift (`RunConfig.drift`) is the control for memorised constants: where the best window changes with every block,
`window = 10` cannot be what tuning taught. Scores under two tasks mean nothing to one another, so when the task
changes each island's best programs are scored again and everything else of it is forgotten
(`trainers.loop.exploration`); bests, improvements and the confirmation count from there.
"""

from collections.abc import Mapping
from typing import Any

from atlas_gym import ProgramTask, make_task
from trainers.loop.config import RunConfig
from trainers.store.plain import SettingsError


class TaskSchedule:
    """The tasks of a run.

    Args:
        config: the run's configuration.

    Raises:
        SettingsError: the environment does not exist, does not take these keywords, or has no such start.
    """

    def __init__(self, config: RunConfig):
        self._config = config
        for block in range(1, max(1, len(config.drift)) + 1):
            try:
                self.task(block)
            except (TypeError, ValueError, ImportError, OSError) as error:
                where = f"drift[{block - 1}] on env_args" if config.drift else "env_args"
                raise SettingsError(
                    f"{config.env} with {where} {dict(self.arguments(block))}: {error}"
                ) from error
        starts = make_task(config.env, **config.env_args).starts
        if config.start not in starts:
            raise SettingsError(f"start must be one of {', '.join(starts)}, not {config.start!r}")

    def arguments(self, block: int) -> Mapping[str, Any]:
        """The environment's keywords in a block; blocks count from 1, as phases do."""
        drift = self._config.drift
        return {**self._config.env_args, **(drift[(block - 1) % len(drift)] if drift else {})}

    def task(self, block: int) -> ProgramTask:
        """What programs are scored on in a block."""
        return make_task(self._config.env, seed=self._config.seed, **self.arguments(block))

    def held_out(self, block: int, seed: int) -> ProgramTask:
        """A task for confirming what a block came to."""
        return make_task(self._config.env, seed=seed, split="held_out", **self.arguments(block))

    def notes(self, block: int) -> tuple[str, ...]:
        """What prompts say of the task: observed statistics, if the run shows them."""
        if not self._config.observe:
            return ()
        return self.task(block).observations()

    def changes(self, block: int) -> bool:
        """Whether a block's task is another than the block's before."""
        return block > 1 and self.arguments(block) != self.arguments(block - 1)
