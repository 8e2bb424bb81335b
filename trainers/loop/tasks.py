"""What a run's candidates are scored on, and from which programs it starts."""

from collections.abc import Mapping
from typing import Any

from atlas_gym import ProgramTask, make_task
from atlas_gym.agents.population.candidate import Candidate
from atlas_gym.program_text import program_key
from atlas_gym.seeding import torch_seed
from atlas_gym.trainers.loop.config import RunConfig
from atlas_gym.trainers.loop.settings import Instance
from atlas_gym.trainers.store.plain import SettingsError

_UNSEEN = 100_000
"""Held-out seeds below this one confirm results; those above it are for the exam."""


class Tasks:
    """The tasks of a run. Raises `SettingsError` if the environment does not exist, does not take these keywords, or
    has no such start."""

    def __init__(self, config: RunConfig):
        self._config = config
        self.instances = config.instances or (Instance(),)
        given = [
            (f"instances[{number}] on env_args" if config.instances else "env_args", self.arguments(number))
            for number in range(len(self.instances))
        ]
        given += [
            (f"exam.instances[{number}] on env_args", {**config.env_args, **instance.env_args})
            for number, instance in enumerate(config.exam.instances)
        ]
        for where, arguments in given:
            try:
                if own := {"seed", "split"} & arguments.keys():
                    raise ValueError(f"{', '.join(sorted(own))}: the run sets that itself, by its --seed")
                make_task(config.env, seed=config.seed, **arguments)
            except (TypeError, ValueError, ImportError, OSError) as error:
                raise SettingsError(f"{config.env} with {where} {dict(arguments)}: {error}") from error
        starts = make_task(config.env, **config.env_args).starts
        for start in (
            config.start,
            *(own.start for own in (*self.instances, *config.exam.instances) if own.start),
        ):
            if start not in starts:
                raise SettingsError(f"start must be one of {', '.join(starts)}, not {start!r}")

    def arguments(self, island: int = 0) -> Mapping[str, Any]:
        """The environment's keywords on an island."""
        return {**self._config.env_args, **self.instances[island % len(self.instances)].env_args}

    def tasks(self) -> list[ProgramTask]:
        """What programs are scored on: a task for each instance, dealt to the islands in turn. Instances share no
        random numbers, even where their constants are the same."""
        env, own = self._config.env, self._config.seed
        seeds = [torch_seed(own, "instance", i) % 2**31 if i else own for i in range(len(self.instances))]
        return [make_task(env, seed=seed, **self.arguments(i)) for i, seed in enumerate(seeds)]

    def held_out(self, seed: int, island: int = 0) -> ProgramTask:
        """A task for confirming what an island came to."""
        return make_task(self._config.env, seed=seed, split="held_out", **self.arguments(island))

    def unseen(self, instance: Instance, seed: int) -> ProgramTask:
        """An instance of the held-out split that no candidate of a run is scored on, nor any result confirmed on."""
        arguments = {**self._config.env_args, **instance.env_args}
        return make_task(self._config.env, seed=_UNSEEN + seed, split="held_out", **arguments)

    def observed(self, task: ProgramTask) -> tuple[str, ...]:
        """What prompts say of a task: its arguments, and observed statistics, if the run shows them."""
        return (*task.call_hints, *(task.observations() if self._config.observe else ()))


def parent_of(program: str, score: float | None) -> Candidate:
    """A program that is no candidate of a run, as the parent of a proposal."""
    return Candidate(
        id=-1, round=-1, island=-1, origin="seed", style="", site="", parent_id=None, prompt="", completion="",
        program=program, program_key=program_key(program), status="ok", score=score,
    )  # fmt: skip
