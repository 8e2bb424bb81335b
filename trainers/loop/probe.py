"""The probe: what tuning changed, on prompts that it was not tuned on.

Before and after each phase the same prompts are answered with the same seeds, so a difference is the policy's and
not the prompts'. By default they are one for each hole of the starting program, equal through the whole run; for
figures that are to tell 2 % from 4 %, `prompts: 100` draws that many from the islands as exploration would, without
those of the phase's pairs. Number holes (whose text in the parent is a number) and structural holes are reported
apart: a value can be memorised, a change of structure hardly. The programs are evaluated like any other but enter
nothing.
"""

from collections.abc import Sequence, Set
from typing import Any

from atlas_gym.agents.engines.engine import Generator
from atlas_gym.agents.models.policy import POLICY, Policy
from atlas_gym.agents.population.candidate import Proposal
from atlas_gym.agents.proposals import Showing
from atlas_gym.agents.research_agent import ResearchAgent
from atlas_gym.seeding import torch_seed
from atlas_gym.trainers.data.measures import grouped, measure
from atlas_gym.trainers.data.pairs import PreferencePair, is_number
from atlas_gym.trainers.data.rollouts import again, fresh_samples
from atlas_gym.trainers.loop.measure import BASE, MEASURE, Panel
from atlas_gym.trainers.loop.resources import Parts

_DRAWS = 10
"""Draws per wanted prompt before the islands are taken to have no more."""

_BASE = "base"
"""Adapter that changes nothing, for as long as the base model is asked."""


class Probes:
    """Takes the probes of a run and stores them, and the policies' answers to the measure's questions.

    Args:
        run: the parts of the run.
        policy: the policy that is tuned.
        panel: has the questions of the measure; None: nobody is asked.
    """

    def __init__(self, run: Parts, policy: Policy, panel: Panel | None = None):
        self.run, self.policy, self.panel = run, policy, panel
        self.config, self.store, self.tell = run.config, run.store, run.tell

    def take(
        self, number: int, moment: str, examples: Sequence[PreferencePair] = (), adapter: str = POLICY
    ) -> None:
        """The probe after a block of rounds, on prompts that none of the `examples` has."""
        if self.config.probe.samples == 0:
            return
        result = self.store.probe(number, moment)
        if result is None:
            asked = self._proposals(number, {example.prompt for example in examples})
            with self.run.backend.serving(adapter) as generator:
                result = self._sampled(generator, asked)
            self.store.add_probe(number, moment, result)
        self.tell("probe", number, moment, result)

    def unseen(self, block: int) -> None:
        """The decisive probe, on the task of a block that no phase follows: base model against tuned policy.

        Prompts and parents are the new task's, so what a phase remembered of earlier numbers is of no use.
        """
        if self.config.probe.samples == 0:
            return
        self.policy.add(_BASE, copy_of=POLICY)
        self.policy.reset(_BASE, self.config.seed)
        try:
            for moment, adapter in (("base", _BASE), ("tuned", POLICY)):
                self.take(block, moment, adapter=adapter)
        finally:
            self.policy.remove(_BASE)

    def measure(self, number: int) -> None:
        """The policy's answers to the measure's questions after a phase; before the first it is the base model."""
        if self.panel is None:
            return
        asked = self.store.probe(number, MEASURE) is not None
        if not asked:
            self.tell("stage", "measuring on instances that no phase sees")
            with self.run.backend.serving(POLICY) as generator:
                self.store.add_probe(number, MEASURE, self.panel.answers(generator))
        if not (asked and number == BASE):  # every phase begins with it
            self.tell("measured", number, self.store.probes())

    def _proposals(self, number: int, tuned_on: Set[str]) -> list[Proposal]:
        """As many as are to be drawn, or one for each hole of the starting program."""
        if self.config.probe.prompts:
            return drawn_proposals(self.run.agent, self.config.probe.prompts, number, tuned_on)
        _, last = self.config.blocks[number - 1]
        style, start = self.run.agent.styles[0], self.store.start(last)
        sites = style.sites(start.program)
        return [again(style.propose(start, site, Showing()), start.island, start) for site in sites]

    def _sampled(self, generator: Generator, proposals: list[Proposal]) -> dict[str, Any]:
        """Sample, evaluate and measure; plain values, with those of sites that hold a number apart."""
        samples, margin = self.config.probe.samples, self.config.agent.min_gain
        seeds = [torch_seed(self.config.seed, "probe", index) for index in range(len(proposals))]
        groups = fresh_samples(generator, self.run.cache, proposals, samples, seeds)
        kinds = grouped(
            zip(proposals, groups, strict=True),
            lambda pair: "number" if is_number(pair[0].avoid or "") else "structure",
        )
        apart = {kind: measure([group for _, group in own], margin) for kind, own in kinds.items()}
        return {**measure(groups, margin), "kinds": apart}


def drawn_proposals(agent: ResearchAgent, n: int, phase: int, tuned_on: Set[str]) -> list[Proposal]:
    """Up to `n` different prompts drawn as exploration draws them, none of them in `tuned_on`."""
    found: dict[str, Proposal] = {}
    islands = sorted(set(agent.islands) - set(agent.messages))
    for draw in range(_DRAWS * n // len(islands) + 1 if islands else 0):
        for proposal in agent.propose(draw, islands, 1, purpose=f"probe {phase}"):
            prompt = proposal.prompt
            if prompt and prompt not in tuned_on and len(found) < n:
                found.setdefault(prompt, proposal)
    return list(found.values())
