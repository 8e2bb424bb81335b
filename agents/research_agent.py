"""The research agent: what to ask the language model next, on every island.

The agent folds the run's records into its islands and its tallies of what paid, and makes proposals from
them: per island and round one parent (by score), one worse program to show beside it, one style, one or several of its
edit sites. It neither generates nor evaluates; the loop does, with ``propose`` and ``record``::

    for proposal in agent.propose(round, islands, n):           # goes to an engine, which writes completions
        proposal.candidate(id, round, completion)            # ... is evaluated
    agent.record(candidate)                                  # in an order that is the same in every run

A proposal depends on the seed, its labels and the records folded so far, nothing else. Migration
happens in ``record``, when an island's first record of a round arrives, so replaying stored records alone
restores the agent.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

import numpy as np

from atlas_gym.agents.population.candidate import Candidate, Proposal
from atlas_gym.agents.population.choice_statistics import ChoiceStatistics
from atlas_gym.agents.population.island import Island
from atlas_gym.agents.proposals import (
    Complete,
    EditLine,
    EditSite,
    MessageStyle,
    Numeric,
    Rewrite,
    Showing,
    Style,
)
from atlas_gym.agents.proposals.rewrite import Chat
from atlas_gym.agents.settings import AgentSettings
from atlas_gym.seeding import stream, torch_seed
from atlas_gym.tasks.program_task import ProgramTask


class NothingToEdit(ValueError):
    """No style of the settings finds a place in a program where a model, or a random number, could write."""


class ResearchAgent:
    """Islands, styles and tallies of one run."""

    def __init__(
        self,
        spec: ProgramTask,
        settings: AgentSettings | None = None,
        *,
        seed: int,
        chat: Chat | None = None,
        messages: Mapping[str, float] | None = None,
        instances: int = 1,
    ):
        """``chat`` applies an instruct model's chat template (see
        :func:`agents.proposals.rewrite.chat_of`). ``messages``: the styles, with their weights, if the model answers
        messages."""
        self.spec = spec
        self.settings = settings or AgentSettings()
        self.seed = seed
        self.islands: dict[int, Island] = {}
        self._instances = instances
        self._best: dict[int, float] = {}
        self._weights = messages or self.settings.styles
        self.styles: list[Style] = [
            EditLine(spec.function), Complete(spec.function), Rewrite(spec, chat), Numeric(spec.function)
        ]  # fmt: skip
        if messages:
            self.styles = [MessageStyle(spec, "rewrite"), MessageStyle(spec, "diff")]
        self.styles = [style for style in self.styles if self._weights.get(style.name, 0) > 0]
        self._starts: dict[int, Candidate] = {}
        self._site_statistics = ChoiceStatistics()
        self._style_statistics = ChoiceStatistics()

    @property
    def best_score(self) -> float | None:
        """Score of the best candidate folded so far; with several instances the mean of their best."""
        return sum(self._best.values()) / len(self._best) if self._best else None

    def record(self, record: Candidate) -> None:
        """Fold one evaluated candidate into its island and the tallies."""
        new = Island(
            record.island, temperature=self.settings.temperature,
            round=record.round,
        )  # fmt: skip
        island = self.islands.setdefault(record.island, new)
        if record.round > island.round:
            self._begin_round(island, record.round)
        island.add(record)
        if record.origin == "seed":
            self._starts.setdefault(record.island, record)
        if record.origin == "agent":
            improved = self.improves(record)
            self._site_statistics.add((record.style, record.site), improved)
            self._style_statistics.add(record.style, improved)
        if record.score is not None:
            instance = record.island % self._instances
            self._best[instance] = max(record.score, self._best.get(instance, record.score))

    def improves(self, record: Candidate) -> bool:
        """True for a program not seen before that beats its parent by the smallest gain that counts."""
        first = not record.is_copy and record.duplicate_of is None
        return first and record.gain is not None and record.gain > self.settings.min_gain

    def propose(
        self,
        round: int,
        islands: Iterable[int],
        n: int,
        *,
        purpose: str = "round",
        notes: Mapping[int, Sequence[str]] | None = None,
        sites: int = 1,
    ) -> list[Proposal]:
        """Per island ``n`` samples of one parent, divided among several of its edit sites: a proposal for each.

        Args:
            round: Exploration round, a label of the random streams.
            islands: Which islands are to propose.
            n: Samples per island.
            purpose: A further label of the random streams: other purposes get other proposals.
            notes: Facts shown in an island's prompt, one line each, by island.
            sites: Edit sites per island, at most.
        """
        return [
            proposal
            for index in islands
            for proposal in self._propose(
                self.islands[index], round, n, purpose, (notes or {}).get(index, ()), sites
            )
        ]

    def _propose(
        self, island: Island, round: int, n: int, purpose: str, notes: Sequence[str], sites: int
    ) -> list[Proposal]:
        rng = stream(self.seed, purpose, round, island.index)
        # The program to change, and a worse one to show beside it.
        parent = island.choose_parent(rng) if self.settings.evolve else self._starts[island.index]
        worse = island.choose_worse(parent, rng) if self.settings.evolve else None
        if parent.score is None:
            raise ValueError(f"candidate {parent.id} has no score")
        style, chosen = self._choose(parent, min(sites, n), rng)
        score = parent.score if self.settings.scores else None
        proposals = []
        for number, site in enumerate(chosen):
            shown = self.settings.variants if style.name == EditLine.name else 0
            variants = self._variants(island, style, site)[-shown:] if shown else ()
            showing = Showing(worse, notes, score, variants)
            proposal = style.propose(parent, site, showing)
            samples = n // len(chosen) + (number < n % len(chosen))
            further = (number,) if number else ()
            proposals.append(
                replace(
                    proposal,
                    island=island.index,
                    n=samples,
                    seed=torch_seed(self.seed, purpose, "tokens", round, island.index, *further),
                    texts=style.write(proposal, samples, rng),
                )
            )
        return proposals

    def require_sites(self, program: str, called: str) -> list[tuple[Style, list[EditSite]]]:
        """The styles, each with the places in a program that it could ask about.

        Raises NothingToEdit if there are none; it calls the program by the name that is given.
        """
        options = [(style, sites) for style in self.styles if (sites := style.sites(program))]
        if not options:
            asked = ", ".join(name for name, weight in self._weights.items() if weight > 0)
            raise NothingToEdit(
                f"no style finds anything to rewrite in {called}, of {asked}: `numeric` needs a number, "
                "the others a function with statements; `atlas check` lists what a start has"
            )
        return options

    def _choose(
        self, parent: Candidate, count: int, rng: np.random.Generator
    ) -> tuple[Style, list[EditSite]]:
        """A style, and up to `count` of the sites it finds in the parent."""
        options = self.require_sites(parent.program, f"candidate {parent.id}")
        prior = [self._weights[style.name] for style, _ in options]
        tally = self._style_statistics if self.settings.adaptive_styles else ChoiceStatistics()
        style, sites = options[tally.choose([style.name for style, _ in options], rng, prior)]
        chosen: list[EditSite] = []
        while sites and len(chosen) < count:
            labels = [(style.name, site.label) for site in sites]
            site = sites[self._site_statistics.choose(labels, rng)]
            chosen.append(site)
            # Sites that begin at one place have one prompt, and prompts are what samples are told apart by.
            sites = [other for other in sites if other.start != site.start]
        return style, chosen

    def _variants(self, island: Island, style: Style, site: EditSite) -> list[tuple[float, str]]:
        """How the island's programs fill this site: the best score of each text, worst first."""
        best: dict[str, float] = {}
        for record in island.population:
            for other in style.sites(record.program):
                if other.label == site.label and record.score is not None:
                    text = record.program[: other.end].rpartition("\n")[2]
                    best[text] = max(record.score, best.get(text, record.score))
        return sorted((score, text) for text, score in best.items())

    def _begin_round(self, island: Island, round: int) -> None:
        """Migration: every so many rounds an island receives the best of its neighbour in the ring of its instance."""
        every = self.settings.migrate_every
        if every and round // every > island.round // every:
            ring = [index for index in sorted(self.islands) if (index - island.index) % self._instances == 0]
            neighbour = self.islands[ring[ring.index(island.index) - 1]].best
            if neighbour is not None:
                island.add(neighbour)
