"""How near a policy is to lines that are known to be good: `python -m atlas_gym.experiments.studies.known_lines RUN …`.

As long as good lines are too unlikely to be sampled, shares of improving samples are 0 and say nothing; their
log-probabilities move long before. Each run is asked under its base model, and under policy and reference after every
phase, on the bandit whose constants are written into the formulas and which no run had. What lies above about −5 nats
is found by 200 samples.
"""

from argparse import Namespace
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from atlas_gym import ProgramTask, make_task
from atlas_gym.agents.models.policy import POLICY, REFERENCE, Policy
from atlas_gym.agents.population.candidate import Proposal
from atlas_gym.agents.proposals import EditLine, Showing
from atlas_gym.evaluation import EvaluatorPool, Pool
from atlas_gym.experiments.studies.measuring import base_policy, measure
from atlas_gym.trainers.evodpo.likelihood import log_likelihoods
from atlas_gym.trainers.loop.config import RunConfig, load_config
from atlas_gym.trainers.loop.schedule import parent_of

ENV, START = "ATLAS-Bandit-v0", "inlined"
UNSEEN = {"dimension": 6, "variation_budget": 500, "replicas": 4}
LINES = (
    ("y =", " history.rewards[-50:] * 0.93 ** np.arange(len(X))[::-1]"),
    ("y =", " history.rewards[-50:] * np.linspace(0.1, 1.0, len(X))"),
    ("b =", " X[-20:].T @ y[-20:]"),
    ("b =", " (X.T * 0.93 ** np.arange(len(X))[::-1]) @ y"),
    ("theta =", " np.linalg.solve(A, X[-20:].T @ y[-20:])"),
)
"""Edit sites and what to write there: fade by age, weigh by recency, use the recent part only."""


def unseen() -> ProgramTask:
    """The bandit that no run had."""
    return make_task(ENV, seed=0, split="held_out", **UNSEEN)


def asked_by(config: RunConfig) -> list[Proposal]:
    """What a run's policy is asked there, as its prompts are."""
    task = unseen()
    return proposals(task, task.observations() if config.observe else ())


def proposals(task: ProgramTask, notes: Sequence[str]) -> list[Proposal]:
    """What the policy is asked where each line belongs."""
    style, parent = EditLine(task.function), parent_of(task.starts[START], None)
    sites = {site.label: site for site in style.sites(parent.program)}
    return [style.propose(parent, sites[label], Showing(notes=notes)) for label, _ in LINES]


def gains(task: ProgramTask, asked: Sequence[Proposal], pool: Pool) -> list[float]:
    """By how much each line raises the start's score, as a share of its loss."""
    programs = [p.assemble(line) for p, (_, line) in zip(asked, LINES, strict=True)]
    found = [pool.submit(program, task) for program in (task.starts[START], *programs)]
    start, *scores = [evaluation.result().score for evaluation in found]
    assert start is not None
    return [float("nan") if score is None else (score - start) / abs(start) for score in scores]


def nats(policy: Policy, adapter: str, asked: Sequence[Proposal]) -> list[float]:
    """Log-probability of each line with its line break, under an adapter."""
    items = [(p.prompt, f"{line}\n") for p, (_, line) in zip(asked, LINES, strict=True)]
    return log_likelihoods(policy, adapter, items)


def of_run(run: Path) -> Iterator[dict[str, Any]]:
    """One row an adapter and line, the base model's first.

    Raises:
        SettingsError: there is no run.
        AdapterError: an adapter is damaged or another model's.
    """
    config = load_config(run / "config.yaml", {})
    policy = base_policy(config)
    asked = asked_by(config)
    for folder in (None, *sorted((run / "adapters").glob("phase-*"))):
        phase = int(folder.name.removeprefix("phase-")) if folder else 0  # those skipped have none
        for adapter in (POLICY, REFERENCE) if folder else (POLICY,):
            if folder:
                policy.restore(adapter, folder / adapter)
            name = ("policy" if adapter == POLICY else adapter) if folder else "base"
            for (_, line), value in zip(LINES, nats(policy, adapter, asked), strict=True):
                yield {"run": run.name, "phase": phase, "adapter": name, "line": line.strip(), "nats": value}


def _rows(options: Namespace) -> Iterator[list[dict[str, Any]]]:
    with EvaluatorPool(1) as pool:
        worth = gains(unseen(), proposals(unseen(), ()), pool)
    for (_, line), gain in zip(LINES, worth, strict=True):
        print(f"{gain:+.1%} {line.strip()}")
    for run in options.runs:
        yield list(of_run(run))


def _shown(own: pd.DataFrame) -> str:
    wide = own.pivot(index=["run", "phase", "adapter"], columns="line", values="nats")
    return wide[[line.strip() for _, line in LINES]].round(1).to_string()


def main(arguments: Sequence[str] | None = None) -> None:
    """Print what each line is worth, and how near every policy is to it."""
    measure("known_lines", __doc__, _rows, arguments, shown=_shown)


if __name__ == "__main__":
    main()
