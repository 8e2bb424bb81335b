"""The part of a phase that costs: training, then Eq. 3 of everything it could propose.

It is a function of the policy's two adapters and a `TuneJob`, which is plain data, so that it can be done in this
process (`tune_here`) or in several others (`trainers.evodpo.launch`).
"""

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from atlas_gym.agents.models.policy import POLICY, REFERENCE, Policy
from atlas_gym.seeding import stream, torch_seed
from atlas_gym.trainers.data.pairs import PreferencePair
from atlas_gym.trainers.evodpo import processes
from atlas_gym.trainers.evodpo.kl import Divergence, KLEstimate
from atlas_gym.trainers.evodpo.settings import TrainingSettings
from atlas_gym.trainers.evodpo.training import StepRecord, Training, train

_BEGINNING = "beginning"
"""Adapter that remembers the policy from which all are trained."""


@dataclass(frozen=True)
class TuneJob:
    """What is to be done with a policy."""

    examples: tuple[PreferencePair, ...]
    """What to train on."""
    settings: TrainingSettings
    """How."""
    checkpoints: int
    """Intermediate checkpoints that become candidates."""
    gate_items: tuple[tuple[str, str], ...]
    """(prompt, completion) along which Eq. 3 is taken."""
    phase: int
    """Number of the phase, for its random streams."""
    seed: int
    """Seed of the run."""
    max_kl: float = math.inf
    """K̂L beyond which there is nothing to gain."""


@dataclass
class Tuned:
    """What came of it, besides the policy's adapters: `POLICY` trained, and one for every checkpoint."""

    training: Training
    """The steps and the checkpoints' names."""
    kls: dict[str, KLEstimate]
    """Eq. 3 of each candidate: alternatives, checkpoints in the order of their steps, last `POLICY`."""
    seconds: dict[str, float] = field(default_factory=dict)
    """Wall time of `train` and `kl`."""
    processes: int = 1
    """How many shared the work."""


Tune = Callable[[Policy, TuneJob], Tuned]
"""Someone who does a job."""


def tune_here(policy: Policy, job: TuneJob, on_step: Callable[[StepRecord], None] | None = None) -> Tuned:
    """Do the job with the model in this process (in a distributed one: this process's share); `on_step` hears of each
    step as it happens.

    Raises:
        ValueError: there is nothing to train on, or none of it is short enough.
    """
    began = time.perf_counter()
    divergence = Divergence(policy, REFERENCE, job.gate_items)
    training = train(
        policy,
        job.examples,
        job.settings,
        checkpoints=job.checkpoints,
        rng=stream(job.seed, "phase", job.phase, "order"),
        seed=torch_seed(job.seed, "phase", job.phase, "trainer") % 2**32,
        on_step=on_step,
        divergence=lambda: divergence.of([POLICY])[POLICY].mean,
        max_kl=job.max_kl,
    )
    trained = time.perf_counter()
    kls = divergence.of([*training.checkpoints, POLICY])
    seconds = {"train": trained - began, "kl": time.perf_counter() - trained}
    return Tuned(training, kls, seconds, processes.size())


def tune_all(
    policy: Policy,
    job: TuneJob,
    alternatives: Sequence[TrainingSettings],
    tune: Tune = tune_here,
) -> Tuned:
    """Do a job, and before it the same job under each of the `alternatives`, all from the same beginning.

    What they lead to becomes adapters `alternative-1`, …, which stand before the job's own checkpoints.
    """
    others: dict[str, Tuned] = {}
    if alternatives:
        policy.add(_BEGINNING, copy_of=POLICY)
    for number, settings in enumerate(alternatives, start=1):
        name = f"alternative-{number}"
        others[name] = tune(policy, replace(job, settings=settings, checkpoints=0))
        policy.add(name, copy_of=POLICY)
        policy.copy(_BEGINNING, POLICY)
    if alternatives:
        policy.remove(_BEGINNING)
    own = tune(policy, job)
    steps = {name: len(other.training.steps) for name, other in others.items()}
    own.training.checkpoints = steps | own.training.checkpoints
    own.kls = {name: other.kls[POLICY] for name, other in others.items()} | own.kls
    own.training.tokens += sum(other.training.tokens for other in others.values())
    for what in own.seconds:
        own.seconds[what] += sum(other.seconds[what] for other in others.values())
    return own
