"""The probe: what tuning changed, on prompts that stay the same through the whole run.

Every hole of the starting program is asked about, before and after each phase, with the same seeds; so a
difference is the policy's and not the prompts'. The programs are evaluated like any other but enter nothing.
"""

from dataclasses import dataclass
from typing import Any

from agents.candidate import CandidateRecord
from agents.generation import Generator
from agents.proposals import Showing, Style
from agents.research_agent import IslandPlan
from agents.seeding import torch_seed
from trainers.fresh import fresh_samples, plan_of
from trainers.measures import measure
from trainers.program_cache import ProgramCache
from trainers.settings_file import plain


@dataclass(frozen=True)
class ProbeSettings:
    """How much is sampled before and after each phase."""

    samples: int = 10
    """Samples per prompt; there is one prompt for each hole of the starting program. 0: no probe."""


def probe_plans(style: Style, start: CandidateRecord) -> list[IslandPlan]:
    """One plan for each hole of the starting program."""
    return [plan_of(-1, style.propose(start, hole, Showing()), start) for hole in style.holes(start.program)]


def take_probe(
    generator: Generator,
    cache: ProgramCache,
    plans: list[IslandPlan],
    settings: ProbeSettings,
    *,
    margin: float,
    seed: int,
) -> dict[str, Any]:
    """Sample, evaluate and measure; plain values, with the numbers of each hole apart."""
    seeds = [torch_seed(seed, "probe", index) for index in range(len(plans))]
    groups = fresh_samples(generator, cache, plans, settings.samples, seeds)
    by_hole = {
        plan.proposal.hole: plain(measure([group], margin)) for plan, group in zip(plans, groups, strict=True)
    }
    return {
        **plain(measure(groups, margin)),
        "holes": {
            hole: {name: m[name]["value"] for name in ("valid", "new", "improving")}
            for hole, m in by_hole.items()
        },
    }
