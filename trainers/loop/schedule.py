"""What a run's candidates are scored on, block by block, and from which programs it starts.

Drift (`RunConfig.drift`) is the control for memorised constants: where the best window changes with every block,
`window = 10` cannot be what tuning taught. Scores under two tasks mean nothing to one another, so when the task
changes each island's best programs are scored again and everything else of it is forgotten
(`trainers.loop.exploration`); bests, improvements and the confirmation count from there.

Where a task's own start leaves little to find, one with worse constants (`starting_program`) leaves more.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np

from atlas_gym import ProgramTask, make_task
from atlas_gym.agents.population.candidate import CandidateRecord
from atlas_gym.agents.proposals import Numeric, Showing
from atlas_gym.program_text import program_key
from atlas_gym.seeding import torch_seed
from atlas_gym.trainers.loop.config import RunConfig
from atlas_gym.trainers.loop.settings import Instance
from atlas_gym.trainers.store.plain import SettingsError

_DRAWS = 8
"""Weakened programs that are tried before the start itself is taken."""
_UNSEEN = 100_000
"""Held-out seeds below this one confirm results; those above it are for the measure of learning."""


def instance_seed(seed: int, number: int) -> int:
    """The task seed of a run's instance: instances share no random numbers, even where their constants are the same."""
    return torch_seed(seed, "instance", number) % 2**31 if number else seed


class TaskSchedule:
    """The tasks of a run.

    Args:
        config: the run's configuration.

    Raises:
        SettingsError: the environment does not exist, does not take these keywords, or has no such start.
    """

    def __init__(self, config: RunConfig):
        self._config = config
        self.instances = config.instances or (Instance(),)
        for where, arguments in self._all_arguments():
            try:
                if own := {"seed", "split"} & arguments.keys():
                    raise ValueError(f"{', '.join(sorted(own))}: the run sets that itself, by its --seed")
                make_task(config.env, seed=config.seed, **arguments)
            except (TypeError, ValueError, ImportError, OSError) as error:
                raise SettingsError(f"{config.env} with {where} {dict(arguments)}: {error}") from error
        starts = make_task(config.env, **config.env_args).starts
        for start in (
            config.start,
            *(own.start for own in (*self.instances, *config.measure.instances) if own.start),
        ):
            if start not in starts:
                raise SettingsError(f"start must be one of {', '.join(starts)}, not {start!r}")

    def _all_arguments(self) -> Iterator[tuple[str, Mapping[str, Any]]]:
        """The environment's keywords wherever the run poses a task, and which settings they come from."""
        config = self._config
        for block in range(1, max(1, len(config.drift)) + 1):
            for number in range(len(self.instances)):
                where = f"drift[{block - 1}] on env_args" if config.drift else "env_args"
                where = f"instances[{number}] on {where}" if config.instances else where
                yield where, self.arguments(block, number)
        for number, instance in enumerate(config.measure.instances):
            yield f"measure.instances[{number}] on env_args", {**config.env_args, **instance.env_args}

    def arguments(self, block: int, island: int = 0) -> Mapping[str, Any]:
        """The environment's keywords on an island in a block; blocks count from 1, as phases do."""
        drift = self._config.drift
        own = self.instances[island % len(self.instances)].env_args
        return {**self._config.env_args, **(drift[(block - 1) % len(drift)] if drift else {}), **own}

    def task(self, block: int, island: int = 0) -> ProgramTask:
        """What an island's programs are scored on in a block."""
        seed = instance_seed(self._config.seed, island % len(self.instances))
        return make_task(self._config.env, seed=seed, **self.arguments(block, island))

    def tasks(self, block: int) -> list[ProgramTask]:
        """The tasks of a block, dealt to the islands in turn."""
        return [self.task(block, number) for number in range(len(self.instances))]

    def held_out(self, block: int, seed: int, island: int = 0) -> ProgramTask:
        """A task for confirming what an island came to in a block."""
        return make_task(self._config.env, seed=seed, split="held_out", **self.arguments(block, island))

    def unseen(self, instance: Instance, seed: int) -> ProgramTask:
        """An instance of the held-out split that no candidate of a run is scored on, nor any result confirmed on."""
        arguments = {**self._config.env_args, **instance.env_args}
        return make_task(self._config.env, seed=_UNSEEN + seed, split="held_out", **arguments)

    def observed(self, task: ProgramTask) -> tuple[str, ...]:
        """What prompts say of a task: observed statistics, if the run shows them."""
        return task.observations() if self._config.observe else ()

    def changes(self, block: int) -> bool:
        """Whether a block's task is another than the block's before, on any island."""
        numbers = range(len(self.instances))
        return block > 1 and any(self.arguments(block, n) != self.arguments(block - 1, n) for n in numbers)


def starting_program(
    program: str, function: str, changes: int, rng: np.random.Generator, score: Callable[[str], float | None]
) -> str:
    """The start with `changes` constants changed: of a few draws the first that runs and scores lower; the start itself
    if none does.

    Args:
        program: the start.
        function: name of its entry function.
        changes: how many constants are changed.
        rng: draws them.
        score: a program's score, None if it fails.
    """
    own = score(program) if changes else None
    if own is None:
        return program
    for weaker in _perturbed(program, Numeric(function), changes, rng):
        found = score(weaker)
        if found is not None and found < own:
            return weaker
    return program


def _perturbed(program: str, style: Numeric, changes: int, rng: np.random.Generator) -> Iterator[str]:
    count = len(style.sites(program))
    for _ in range(_DRAWS if count else 0):
        weaker = program
        for place in rng.choice(count, min(changes, count), replace=False):
            proposal = style.propose(parent_of(weaker, None), style.sites(weaker)[place], Showing())
            weaker = proposal.assemble(style.write(proposal, 1, rng)[0])
        yield weaker


def parent_of(program: str, score: float | None) -> CandidateRecord:
    """A program that is no candidate of a run, as the parent of a proposal."""
    return CandidateRecord(
        id=-1, round=-1, island=-1, origin="seed", style="", hole="", parent_id=None, prompt="", completion="",
        program=program, program_key=program_key(program), status="ok", score=score,
    )  # fmt: skip
