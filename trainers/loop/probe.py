"""The probe: what tuning changed, on prompts that it was not tuned on.

Before and after each phase the same prompts are answered with the same seeds, so a difference is the policy's and
not the prompts'. By default they are one for each hole of the starting program, equal through the whole run; for
figures that are to tell 2 % from 4 %, `prompts: 100` draws that many from the islands as exploration would, without
those of the phase's pairs. Number holes (whose text in the parent is a number) and structural holes are reported
apart: a value can be memorised, a change of structure hardly. The programs are evaluated like any other but enter
nothing.
"""

from collections.abc import Callable, Mapping, Sequence, Set
from typing import Any

from agents.engines.engine import Generator
from agents.population.candidate import CandidateRecord, Proposal
from agents.proposals import Showing, Style
from agents.research_agent import ResearchAgent
from atlas_gym.seeding import torch_seed
from trainers.data.evaluations import ProgramCache
from trainers.data.measures import measure
from trainers.data.rollouts import again, fresh_samples
from trainers.loop.settings import ProbeSettings
from trainers.store.plain import plain

_DRAWS = 10
"""Draws per wanted prompt before the islands are taken to have no more."""


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
        return {name: plain(measure(own, margin)) for name, own in members.items()}

    return {
        **plain(measure(groups, margin)),
        "kinds": by(lambda proposal: "number" if asks_for_number(proposal) else "structure"),
        "holes": {hole: _shares(measures) for hole, measures in by(lambda proposal: proposal.hole).items()},
    }


def asks_for_number(proposal: Proposal) -> bool:
    """Whether the parent has nothing but a number at the hole."""
    try:
        float((proposal.avoid or "").strip())
    except ValueError:
        return False
    return True


def _shares(measures: Mapping[str, Any]) -> dict[str, float]:
    return {name: measures[name]["value"] for name in ("valid", "new", "improving")}
