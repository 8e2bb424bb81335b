"""How a round of exploration is laid out, which instances of the task a run has, and what the exam asks.

What is right on one instance (a window for its drift, a strength for its noise) is wrong on another, so a policy that
learns on several has to read what the prompt says.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from atlas_gym.agents.population.candidate import WRITERS
from atlas_gym.trainers.store.plain import require


@dataclass(frozen=True)
class ExplorationSettings:
    """How a round is laid out."""

    islands: int = 6
    """Number of islands (paper: 6)."""
    samples: int = 8
    """Programs per island and round that are evaluated, at most (EvoTune: 8)."""
    writers: Mapping[str, float] = field(default_factory=lambda: dict.fromkeys(WRITERS, 1.0))
    """Who writes them, and how much where shares are fixed or nobody has found anything yet: `agent` (the model),
    `supporter` (the exploration supporter's patches, unless it is off), and without a model `numbers` and
    `expressions`, drawn at random."""
    by_yield: bool = True
    """Whether a writer's share follows what it has found lately, in improvements per evaluation."""
    draws: int = 4
    """Programs that are written for each of them. All have a smoke run; the first that pass it and are new are
    evaluated."""
    sites: int = 1
    """Edit sites of its parent at which an island asks in a round, at most; the agent's samples are divided among them.
    The prompts of one parent are read together, so further sites cost little."""

    def __post_init__(self) -> None:
        require(self, {"at least 1": "islands samples draws sites"})
        if unknown := sorted(set(self.writers) - set(WRITERS)):
            raise ValueError(f"exploration.writers: there is no {unknown[0]!r}, only {', '.join(WRITERS)}")
        if min(self.writers.values(), default=0) < 0 or not sum(self.writers.values()) > 0:
            raise ValueError("exploration.writers need weights of at least 0, one of them positive")

    def candidate_id(self, round_: int, island: int, number: int) -> int:
        """Arithmetic id: equal in every run of the same layout, and ascending in the order of recording."""
        return (round_ * self.islands + island) * self.samples * self.draws + number


@dataclass(frozen=True)
class Instance:
    """How an instance differs from the run's task."""

    env_args: Mapping[str, Any] = field(default_factory=dict)
    """Keywords laid on the run's `env_args`."""
    start: str = ""
    """Its starting program by name; empty: the run's."""


@dataclass(frozen=True)
class ExamSettings:
    """What the base model is asked, and the policy after a phase: instances that no phase sees."""

    samples: int = 0
    """Samples per question, 8 for the best of 8 (of fewer, the best of those). 0: nothing is asked."""
    prompts: int = 4
    """Questions per instance: edit sites of its program, drawn at random."""
    instances: tuple[Instance, ...] = (Instance(),)
    """The instances. With constants that no instance of the run has they show whether learning carries over."""
    seeds: int = 4
    """Held-out seeds under which each instance is posed; each counts as an instance, and intervals need several."""
    rounds: int = 3
    """Rounds of the searches on these instances, where `controls` asks for them (`unseen`)."""

    def __post_init__(self) -> None:
        require(self, {"at least 0": "samples", "at least 1": "prompts seeds rounds"})
        if not self.instances:
            raise ValueError("exam: there must be instances")
