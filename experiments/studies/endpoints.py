"""What a study of tuning asks of its runs: how far a policy went, how near known lines are, what a search found.

    python -m atlas_gym.experiments.studies.endpoints RUN … --output endpoints.csv

Known lines are good answers that the untuned model all but never writes. Their log-probability moves long before a
sample is one of them: what lies above about −5 nats is found by some hundred samples.
"""

import math
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from statistics import fmean
from typing import Any

import pandas as pd
import torch

from atlas_gym import make_task
from atlas_gym.agents.models.loading import resolve_model
from atlas_gym.agents.models.policy import POLICY, REFERENCE, AdapterError, Policy
from atlas_gym.agents.proposals import EditLine, Showing
from atlas_gym.arguments import Parser, progress
from atlas_gym.experiments.loggers.metrics import improvement
from atlas_gym.experiments.report.data import RunData, read_run
from atlas_gym.experiments.report.tables import run_row
from atlas_gym.experiments.studies.results import write_csv
from atlas_gym.text import clean
from atlas_gym.trainers.data.measures import distinct_programs, is_improving
from atlas_gym.trainers.dpo.kl import Divergence, Item, log_known_gain
from atlas_gym.trainers.loop.beginning import require_trust
from atlas_gym.trainers.loop.config import RunConfig, load_config
from atlas_gym.trainers.loop.resources import device_of, load_policy
from atlas_gym.trainers.loop.tasks import parent_of
from atlas_gym.trainers.store.plain import SettingsError
from atlas_gym.trainers.store.store import RunStore, StoreError

BEST = 10
"""Programs of an instance whose mean is `best_ten`."""
Known = tuple[str, dict[str, Any], tuple[tuple[str, str], ...]]
KNOWN: dict[str, Known] = {
    "ATLAS-Bandit-v0": (
        "inlined",
        {"dimension": 6, "variation_budget": 500, "replicas": 4},
        (
            ("y =", " history.rewards[-50:] * 0.93 ** np.arange(len(X))[::-1]"),
            ("y =", " history.rewards[-50:] * np.linspace(0.1, 1.0, len(X))"),
            ("b =", " X[-20:].T @ y[-20:]"),
            ("b =", " (X.T * 0.93 ** np.arange(len(X))[::-1]) @ y"),
            ("theta =", " np.linalg.solve(A, X[-20:].T @ y[-20:])"),
        ),
    ),
    "ATLAS-Dispatching-v0": (
        "named",
        {"tightness": 0.7, "spread": 0.5},
        (
            (
                "return",
                " weight / processing_time * np.exp(-np.maximum(due - processing_time - now, 0)"
                " / (2 * processing_time.mean()))",
            ),
        ),
    ),
}
"""By task: a start, an instance that no run of a study has, and lines that are good there, with their edit sites. The
bandit's fade or weigh by age, or use the recent part only; the other is ATC (Vepsalainen and Morton 1987)."""


def known_lines(policy: Policy, config: RunConfig) -> float:
    """Mean log-probability of the task's known lines under the policy, nats; NaN for a task that has none."""
    if config.env not in KNOWN:
        return math.nan
    start, own, lines = KNOWN[config.env]
    task = make_task(config.env, seed=0, split="held_out", **own)
    style, parent = EditLine(task.function), parent_of(task.starts[start], None)
    sites = {site.label: site for site in style.sites(parent.program)}
    notes = (*task.call_hints, *(task.observations() if config.observe else ()))
    values = []
    for label, line in lines:
        prompt = style.propose(parent, sites[label], Showing(notes=notes)).prompt
        values += log_known_gain(policy, POLICY, {prompt: [(f"{line}\n", 1.0)]})
    return fmean(values)


def gate_answers(store: RunStore) -> list[Item]:
    """The last phase's gate prompts, which nothing was trained on, with the best answer to each that ran."""
    phase = store.tuned_phases()[-1]
    taught = store.taught(phase["phase"])
    found: dict[str, tuple[float, str]] = {}
    for round_, island, prompt in store.asked(phase["round"]):
        if prompt in phase["gate_prompts"]:
            for answer in (*store.round_candidates(round_, island), *taught):
                if answer.prompt == prompt and answer.passed:
                    known = found.get(prompt, (-math.inf, ""))
                    found[prompt] = max(known, (answer.value, answer.completion))
    return [(prompt, text) for prompt, (_, text) in found.items()]


def searched(run: RunData) -> dict[str, float]:
    """What was found, in shares of the start's loss on the run's own seeds (`best_ten`), as a mean over instances, and
    how many distinct programs improved on the program that they changed."""
    shares: list[float] = []
    best: defaultdict[int, dict[str, float]] = defaultdict(dict)
    records = [c for c in run.everything() if c.round > 0]
    for record in records:
        if record.score is not None and record.program_key is not None:
            best[record.island % run.instances][record.program_key] = record.score
    for start, _ in run.ends:
        scores = sorted(best[start.island % run.instances].values(), reverse=True)[:BEST]
        if start.score is not None and scores:
            shares.append(fmean(improvement(start.score, score) for score in scores))
    improving = distinct_programs(c for c in records if is_improving(c, 0.002))
    return {
        "best_ten": fmean(shares) if shares else math.nan,
        "distinct_improving": float(len(improving)),
    }


def endpoints(folder: Path, policies: dict[str, Policy]) -> dict[str, Any]:
    """A run's row. `policies`: models by name, loaded once for all runs. Raises `SettingsError`: it is no run;
    `StoreError`: its store cannot be read; `AdapterError`: its adapter is damaged or another model's."""
    config, run = load_config(folder / "config.yaml", {}), read_run(folder)
    row = {"run": folder.name, "method": config.method, "seed": config.seed, **run_row(run), **searched(run)}
    with RunStore.open_readonly(folder) as store:
        phases = store.tuned_phases()
        if not phases:
            return row | {"kl": math.nan, "nats": math.nan}
        tuned, asked = store.phase_folder(phases[-1]["phase"]) / POLICY, gate_answers(store)
    key = f"{config.model} {config.dtype} {config.lora}"
    if key not in policies:
        torch.set_num_threads(config.torch_threads)
        # What was tuned on a GPU can be looked at on a machine without one.
        device = device_of(replace(config, device="auto") if config.device == "cuda" else config)
        policies[key] = load_policy(config, resolve_model(config.model), device)
        policies[key].add("base", copy_of=REFERENCE)
    policy = policies[key]
    policy.copy("base", POLICY)
    row["nats_base"] = known_lines(policy, config)
    policy.restore(POLICY, tuned)
    # A buffer of few prompts has none for a gate.
    row["kl"] = Divergence(policy, "base", asked).of([POLICY])[POLICY].mean if asked else math.nan
    return row | {"nats": known_lines(policy, config)}


def main(arguments: Sequence[str] | None = None) -> None:
    """Print a row a run, and write it."""
    parser = Parser(prog="python -m atlas_gym.experiments.studies.endpoints", description=__doc__)
    parser.add_argument("runs", type=Path, nargs="+", help="folders of runs")
    parser.add_argument("--output", type=Path, help="also written here, as CSV")
    parser.add_argument("--trust", action="store_true", help="import what runs of somebody else's name")
    options = parser.parse_args(arguments)
    rows: list[dict[str, Any]] = []
    policies: dict[str, Policy] = {}
    try:
        for run in options.runs:
            if not options.trust:
                require_trust(run, load_config(run / "config.yaml", {}))
            progress(run.name)
            rows.append(endpoints(run, policies))
            if options.output:
                write_csv(pd.DataFrame(rows), options.output)
    except (SettingsError, StoreError, AdapterError) as error:
        raise SystemExit(f"Error: {clean(str(error), 5000)}") from error
    progress()
    shown = ["run", "evaluations", "improvement", "best_ten", "distinct_improving", "kl", "nats"]
    print(pd.DataFrame(rows)[shown].round(3).to_string(index=False))


if __name__ == "__main__":
    main()
