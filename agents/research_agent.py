"""The research agent: who is to write next, and what the language model is asked, on every island.

The agent folds the run's records into its islands and its tallies of what paid. In each round it draws a parent for an
island (by score) and a worse program to show beside it, shares the island's evaluations among the *writers*, and makes
proposals: prompts for the model, one for each edit site, and completions of those writers that need no model. It
neither generates nor evaluates; the loop does::

    parent, worse = agent.parents(round, island)
    shares = agent.shares(round, island, parent, settings)      # evaluations by writer
    for proposal in agent.propose(round, island, parent, worse, asked):      # goes to an engine
        proposal.candidate(id, round, completion)               # ... is evaluated
    agent.record(candidate)                                     # in an order that is the same in every run

What it answers depends on the seed, the labels and the records folded so far, nothing else. Migration happens in
``record``, when an island's first record of a round arrives, so replaying stored records alone restores the agent.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from atlas_gym.agents.population.candidate import AGENT, EXPRESSIONS, NUMBERS, SUPPORTER, Candidate, Proposal
from atlas_gym.agents.population.choice_statistics import ChoiceStatistics
from atlas_gym.agents.population.island import Island
from atlas_gym.agents.proposals import (
    Complete,
    EditLine,
    EditSite,
    Expressions,
    MessageStyle,
    Numbers,
    Rewrite,
    Showing,
    Style,
)
from atlas_gym.agents.proposals.rewrite import Chat
from atlas_gym.agents.settings import AgentSettings
from atlas_gym.seeding import stream, torch_seed
from atlas_gym.tasks.program_task import ProgramTask

_RECENT = 0.98
"""Decay of a writer's tally: half is forgotten in 34 evaluations."""
_FLOOR = 0.05
"""Share of the evaluations that are dealt to all writers alike, whatever they have found."""


class NothingToEdit(ValueError):
    """No writer finds a place in a program where it could write."""


class ResearchAgent:
    """Islands, writers and tallies of one run."""

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
        asking: list[Style] = [EditLine(spec.function), Complete(spec.function), Rewrite(spec, chat)]
        if messages:
            asking = [MessageStyle(spec, "rewrite"), MessageStyle(spec, "diff")]
        self.styles = [style for style in asking if self._weights.get(style.name, 0) > 0]
        """How the model is asked."""
        self._unasked: list[Style] = [Numbers(spec.function), Expressions(spec.function)]
        self._starts: dict[int, Candidate] = {}
        self._site_statistics = ChoiceStatistics()
        self._writers = ChoiceStatistics(decay=_RECENT, uniform=_FLOOR)

    @property
    def best_score(self) -> float | None:
        """Score of the best candidate folded so far; with several instances the mean of their best."""
        return sum(self._best.values()) / len(self._best) if self._best else None

    def record(self, record: Candidate) -> None:
        """Fold one candidate into its island and, unless it was written to teach, the tallies of sites and writers."""
        if record.score is not None:
            instance = record.island % self._instances
            self._best[instance] = max(record.score, self._best.get(instance, record.score))
        new = Island(record.island, temperature=self.settings.temperature, round=record.round)
        island = self.islands.setdefault(record.island, new)
        if record.round > island.round:
            self._begin_round(island, record.round)
        island.add(record)
        if record.id < 0:
            return
        if record.origin == "seed":
            self._starts.setdefault(record.island, record)
        else:
            improved = self.improves(record)
            if record.origin != SUPPORTER:
                self._site_statistics.add((record.style, record.site), improved)
            if record.evaluated:
                self._writers.add(record.writer, improved)

    def improves(self, record: Candidate) -> bool:
        """True for a program not seen before that beats its parent by the smallest gain that counts."""
        first = not record.is_copy and record.duplicate_of is None
        return first and record.gain is not None and record.gain > self.settings.min_gain

    def tuned(self) -> None:
        """The model has been tuned: what it found before says little of what it will find."""
        for style in self.styles:
            self._writers.forget(style.name)

    def yield_of(self, writer: str) -> float:
        """The writer's recent rate of improvements per evaluation, shrunken towards 1/8."""
        return self._writers.weight(writer)

    def parents(self, round: int, island: int) -> tuple[Candidate, Candidate | None]:
        """The program that an island changes in a round, and a worse one to show beside it, if it has one."""
        if not self.settings.evolve:
            return self._starts[island], None
        rng = stream(self.seed, "parent", round, island)
        parent = self.islands[island].choose_parent(rng)
        return parent, self.islands[island].choose_worse(parent, rng)

    def shares(
        self,
        round: int,
        island: int,
        parent: Candidate,
        writers: Mapping[str, float],
        evaluations: int,
        *,
        by_yield: bool,
    ) -> Counter[str]:
        """An island's evaluations in a round by writer: those of `writers`, with their weights, that find a place in
        the parent; the agent stands for its styles. `by_yield`: by Thompson sampling of their recent yields, which are
        expected to be as the weights are until there are any; otherwise in proportion to the weights. Raises
        NothingToEdit if nobody finds a place."""
        able = self.require_writers(parent.program, writers, f"candidate {parent.id}")
        rng = stream(self.seed, "shares", round, island)
        if by_yield:
            return Counter(self._writers.sample(able, rng) for _ in range(evaluations))
        # Systematic sampling: each has its share, rounded up or down at random.
        edges = np.cumsum(list(able.values())) / sum(able.values()) * evaluations
        drawn = np.searchsorted(edges, np.arange(evaluations) + rng.random(), side="right")
        return Counter(list(able)[min(place, len(able) - 1)] for place in drawn.tolist())

    def require_writers(self, program: str, writers: Mapping[str, float], called: str) -> dict[str, float]:
        """The writers that find a place in a program, the agent by its styles, with their weights.

        Raises NothingToEdit if there are none; it calls the program by the name that is given.
        """
        asking = {s.name: self._weights[s.name] for s in self.styles if s.sites(program)}
        scale = writers.get(AGENT, 0) / (sum(asking.values()) or 1)
        able = {name: weight * scale for name, weight in asking.items()}
        able |= {s.name: writers.get(s.name, 0) for s in self._unasked if s.sites(program)}
        able[SUPPORTER] = writers.get(SUPPORTER, 0)
        able = {name: weight for name, weight in able.items() if weight > 0}
        if not able:
            styles = ", ".join(name for name, weight in self._weights.items() if weight > 0)
            asked = ", ".join(
                name + f" ({styles})" * (name == AGENT) for name, weight in writers.items() if weight
            )
            raise NothingToEdit(
                f"no writer finds anything to change in {called}, of {asked}: {NUMBERS} needs a number, "
                f"{AGENT} and {EXPRESSIONS} a function with statements; `atlas check` lists what a start has"
            )
        return able

    def propose(
        self,
        round: int,
        island: int,
        parent: Candidate,
        worse: Candidate | None,
        asked: Mapping[str, int],
        *,
        notes: Sequence[str] = (),
        critique: str = "",
        sites: int = 1,
    ) -> list[Proposal]:
        """Completions of a parent to be written, divided among several of its edit sites: a proposal for each. `asked`:
        how many by writer, the agent by its styles. `sites`: those that a model is asked about, at most; other writers
        use as many as they can. The others are what prompts show: see `Showing`."""
        if parent.score is None:
            raise ValueError(f"candidate {parent.id} has no score")
        proposals = []
        for style in (*self._unasked, *self.styles):  # what is written at once has the lower ids
            n = asked.get(style.name, 0)
            rng = stream(self.seed, "round", round, island, style.name)
            chosen = self._sites(style, parent, min(sites, n) if style in self.styles else n, rng)
            for number, site in enumerate(chosen):
                showing = self._showing(island, parent, worse, notes, critique, style, site)
                proposal = style.propose(parent, site, showing)
                samples = n // len(chosen) + (number < n % len(chosen))
                proposals.append(
                    replace(
                        proposal,
                        island=island,
                        n=samples,
                        seed=torch_seed(self.seed, "round", "tokens", round, island, style.name, number),
                        texts=style.write(proposal, samples, rng),
                    )
                )
        return proposals

    def answered(
        self, island: int, parent: Candidate, worse: Candidate | None, program: str, notes: Sequence[str]
    ) -> Proposal | None:
        """The prompt that a changed parent answers, whoever changed it: it asks for the one line in which they differ.

        None if they differ elsewhere, or if the agent edits no lines."""
        for style in self.styles if parent.program_key else ():
            for site in style.sites(parent.program) if style.name == EditLine.name else ():
                if site.holds(parent.program, program):
                    showing = self._showing(island, parent, worse, notes, "", style, site)
                    return replace(style.propose(parent, site, showing), island=island)
        return None

    def _showing(
        self, island: int, parent: Candidate, worse: Candidate | None, notes: Sequence[str], critique: str,
        style: Style, site: EditSite,
    ) -> Showing:  # fmt: skip
        """What a prompt shows besides the parent."""
        shown = self.settings.variants if style.name == EditLine.name else 0
        variants = self._variants(self.islands[island], style, site)[-shown:] if shown else ()
        failed = list(self.islands[island].failed)[-2:]
        score = parent.score if self.settings.scores else None
        return Showing(worse, notes, failed, critique, score, variants)

    def _sites(self, style: Style, parent: Candidate, count: int, rng: np.random.Generator) -> list[EditSite]:
        """Up to `count` of the sites that a style finds in the parent, those that have paid more often."""
        sites, chosen = style.sites(parent.program), list[EditSite]()
        while sites and len(chosen) < count:
            site = sites[self._site_statistics.choose([(style.name, site.label) for site in sites], rng)]
            chosen.append(site)
            # Sites that begin at one place have one prompt, and prompts are what samples are told apart by.
            sites = [other for other in sites if other.start != site.start]
        return chosen

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
