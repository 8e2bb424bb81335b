"""The probe: what tuning changed, on prompts that it was not tuned on.

Before and after each phase the same prompts are answered with the same seeds, so a difference is the policy's and
not the prompts'. By default they are one for each hole of the starting program, equal through the whole run; for
figures that are to tell 2 % from 4 %, `prompts: 100` draws that many from the islands as exploration would, without
those of the phase's pairs. Number holes (whose text in the parent is a number) and structural holes are reported
apart: a value can be memorised, a change of structure hardly. The programs are evaluated like any other but enter
nothing.
"""

from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import dataclass
from typing import Any

from agents.engines.engine import Generator
from agents.engines.serving import Backend
from agents.models.policy import POLICY, Policy
from agents.population.candidate import CandidateRecord, Proposal
from agents.proposals import Showing, Style
from agents.research_agent import ResearchAgent
from atlas_gym.seeding import torch_seed
from trainers.data.groups import Examples
from trainers.data.measures import measure
from trainers.data.pairs import is_number
from trainers.data.rollouts import ProgramCache, again, fresh_samples
from trainers.loop.config import RunConfig
from trainers.loop.measure import MEASURE, Panel
from trainers.loop.settings import ProbeSettings
from trainers.store.store import RunStore

_DRAWS = 10
"""Draws per wanted prompt before the islands are taken to have no more."""

_BASE = "base"
"""Adapter that changes nothing, for as long as the base model is asked."""


@dataclass(eq=False)
class Probes:
    """Takes the probes of a run and stores them, and the policies' answers to the measure's questions."""

    config: RunConfig
    """The run's."""
    policy: Policy
    """The policy that is tuned."""
    backend: Backend
    """Writes with any adapter of the policy."""
    agent: ResearchAgent
    """Proposes what is asked."""
    cache: ProgramCache
    """Evaluates what is written."""
    store: RunStore
    """The run store."""
    tell: Callable[..., None]
    """Passes events to the observers."""
    panel: Panel | None = None
    """Has the questions of the measure; None: nobody is asked."""

    def take(
        self,
        number: int,
        moment: str,
        last: int,
        examples: Examples = (),
        adapter: str = POLICY,
    ) -> None:
        """The probe of phase `number` that follows the round `last`, on prompts that none of the `examples` has."""
        settings = self.config.probe
        if settings.samples == 0:
            return
        result = self.store.probe(number, moment)
        if result is None:
            asked = self._proposals(number, last, {example.prompt for example in examples})
            margin, seed = self.config.agent.min_gain, self.config.seed
            with self.backend.serving(adapter) as generator:
                result = take_probe(generator, self.cache, asked, settings, margin=margin, seed=seed)
            self.store.add_probe(number, moment, result)
        self.tell("probe", number, moment, result)

    def unseen(self, block: int, last: int) -> None:
        """The decisive probe, on the task of a block that no phase follows: base model against tuned policy.

        Prompts and parents are the new task's, so what a phase remembered of earlier numbers is of no use.
        """
        if self.config.probe.samples == 0:
            return
        self.policy.add(_BASE, copy_of=POLICY)
        self.policy.reset(_BASE, self.config.seed)
        try:
            for moment, adapter in (("base", _BASE), ("tuned", POLICY)):
                self.take(block, moment, last, adapter=adapter)
        finally:
            self.policy.remove(_BASE)

    def measure(self, number: int) -> None:
        """The policy's answers to the measure's questions after a phase; before the first it is the base model."""
        if self.panel is None:
            return
        if self.store.probe(number, MEASURE) is None:
            self.tell("stage", "measuring on instances that no phase sees")
            with self.backend.serving(POLICY) as generator:
                self.store.add_probe(number, MEASURE, self.panel.answers(generator))
        self.tell("measured", number, self.store.probes())

    def _proposals(self, number: int, last: int, tuned_on: Set[str]) -> list[Proposal]:
        if self.config.probe.prompts:
            return drawn_proposals(self.agent, self.config.probe.prompts, number, tuned_on)
        return probe_proposals(self.agent.styles[0], self.store.start(last))


def probe_proposals(style: Style, start: CandidateRecord) -> list[Proposal]:
    """One proposal for each hole of the starting program."""
    return [
        again(style.propose(start, site, Showing()), start.island, start)
        for site in style.sites(start.program)
    ]


def drawn_proposals(agent: ResearchAgent, n: int, phase: int, tuned_on: Set[str]) -> list[Proposal]:
    """Up to `n` different prompts drawn as exploration draws them, none of them in `tuned_on`."""
    found: dict[str, Proposal] = {}
    islands = sorted(set(agent.islands) - set(agent.messages))
    for draw in range(_DRAWS * n // len(islands) + 1):
        for proposal in agent.propose(draw, islands, 1, purpose=f"probe {phase}"):
            prompt = proposal.prompt
            if prompt and prompt not in tuned_on and len(found) < n:
                found.setdefault(prompt, proposal)
    return list(found.values())


def take_probe(
    generator: Generator,
    cache: ProgramCache,
    proposals: list[Proposal],
    settings: ProbeSettings,
    *,
    margin: float,
    seed: int,
) -> dict[str, Any]:
    """Sample, evaluate and measure; plain values, with the numbers of each hole apart."""
    seeds = [torch_seed(seed, "probe", index) for index in range(len(proposals))]
    groups = fresh_samples(generator, cache, proposals, settings.samples, seeds)

    def by(label: Callable[[Proposal], str]) -> dict[str, dict[str, Any]]:
        members: dict[str, list[Sequence[CandidateRecord]]] = {}
        for proposal, group in zip(proposals, groups, strict=True):
            members.setdefault(label(proposal), []).append(group)
        return {name: measure(own, margin) for name, own in members.items()}

    return {
        **measure(groups, margin),
        "kinds": by(lambda proposal: "number" if is_number(proposal.avoid or "") else "structure"),
        "holes": {hole: _shares(measures) for hole, measures in by(lambda proposal: proposal.hole).items()},
    }


def _shares(measures: Mapping[str, Any]) -> dict[str, float]:
    return {name: measures[name]["value"] for name in ("valid", "new", "improving")}
