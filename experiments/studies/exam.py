"""The exam: what policies write by themselves on many bandits that no run had.

    python -m atlas_gym.experiments.studies.exam RUN …

The one within a run has some hundred samples, since every phase waits for it. This one asks the base model and each
run's last policy for 1,728: twelve bandits, nine edit sites of the run's start on each, sixteen samples a site, the
same prompts and random numbers for all.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pandas as pd
import torch

from atlas_gym import make_task
from atlas_gym.agents.engines.hf_transformers import TransformersEngine
from atlas_gym.agents.models.loading import resolve_model
from atlas_gym.agents.models.policy import POLICY, AdapterError, Policy
from atlas_gym.agents.proposals.rewrite import chat_of
from atlas_gym.agents.research_agent import ResearchAgent
from atlas_gym.arguments import Parser, at_least_one, progress
from atlas_gym.evaluation import EvaluatorPool
from atlas_gym.experiments.studies.results import write_csv
from atlas_gym.text import clean
from atlas_gym.trainers.data.comparison import Comparison
from atlas_gym.trainers.loop.beginning import require_trust
from atlas_gym.trainers.loop.config import RunConfig, load_config
from atlas_gym.trainers.loop.exam import BASE, Exam, learned
from atlas_gym.trainers.loop.resources import device_of, load_policy
from atlas_gym.trainers.loop.tasks import Tasks
from atlas_gym.trainers.store.plain import SettingsError
from atlas_gym.trainers.store.store import RunStore, StoreError

UNSEEN: tuple[dict[str, Any], ...] = (
    {"variation_budget": 300},
    {"variation_budget": 500},
    {"variation_budget": 700},
    {"variation_budget": 1000},
    {"variation_budget": 300, "noise": 0.2},
    {"variation_budget": 500, "noise": 0.4},
    {"variation_budget": 500, "dimension": 4},
    {"variation_budget": 500, "dimension": 6},
    {"variation_budget": 500, "arms": 3},
    {"variation_budget": 500, "arms": 6},
    {"drift": "rotation", "variation_budget": 200},
    {"drift": "jumps", "variation_budget": 60},
)
EXAM = {"samples": 16, "prompts": 9, "seeds": 1, "instances": [{"env_args": own} for own in UNSEEN]}


def examined(
    runs: Sequence[Path], settings: dict[str, Any], workers: int = 1
) -> Iterator[tuple[str, dict[str, Comparison]]]:
    """Each run's last policy against the base model, by measure; `workers` processes evaluate what they write. Raises
    `SettingsError`: there is no run, or it asks its model otherwise than the first, or another one; `StoreError`: its
    store cannot be read; `AdapterError`: its adapter is damaged or another model's."""
    asked, base = "", None
    with EvaluatorPool(workers) as pool:
        for run in runs:
            config = load_config(run / "config.yaml", {"exam": settings})
            policy = policy_of(config)
            with RunStore.open_readonly(run) as store:
                task = make_task(config.env, **config.env_args)
                agent = ResearchAgent(task, config.agent, seed=config.seed, chat=chat_of(policy.tokenizer))
                exam = Exam(config, Tasks(config), agent.styles, pool, store)
                # All that the base model's answers depend on: runs that have it in common share them.
                model, posed = ((config.model, config.sampling), (config.env, config.env_args))
                own = repr((model, posed, config.exam.instances, sorted(exam.prompts)))
                progress(
                    f"{run.name}: {len(exam.questions)} questions, {config.exam.samples} answers to each"
                )
                if base is None:
                    asked, base = own, answers(policy, config, exam)
                elif own != asked:
                    text = f"{run} asks its model otherwise than {runs[0]}: examine it by itself"
                    raise SettingsError(text)
                if not (phases := store.tuned_phases()):
                    raise SettingsError(f"{run} has no phase")
                policy.restore(POLICY, store.phase_folder(phases[-1]["phase"]) / POLICY)
                tuned = answers(policy, config, exam)
                progress()
            yield run.name, learned({BASE: base, 1: tuned})[1]


def policy_of(config: RunConfig) -> Policy:
    """A run's model, as it is before anything tunes it."""
    torch.set_num_threads(config.torch_threads)
    # A run that asked for a GPU can be examined on a machine without one.
    device = device_of(replace(config, device="auto") if config.device == "cuda" else config)
    return load_policy(config, resolve_model(config.model), device)


def answers(policy: Policy, config: RunConfig, exam: Exam) -> dict[str, Any]:
    """Answers of the policy as it is now."""
    engine = TransformersEngine(policy.base, policy.tokenizer, config.sampling, policy=policy)
    with engine.serving(POLICY):
        return exam.answers(engine)


def _row(run: str, measure: str, found: Comparison) -> dict[str, Any]:
    difference, ratio, factor = found.difference, found.ratio, found.ratio_factor
    return {
        "run": run, "measure": measure, "base": found.base, "tuned": found.tuned, "difference": difference.mean,
        "low": difference.low, "high": difference.high, "ratio": ratio, "ratio_low": ratio / factor,
        "ratio_high": ratio * factor, "instances": found.instances,
    }  # fmt: skip


def main(arguments: Sequence[str] | None = None) -> None:
    """Print what each policy writes beside the base model, with 95 % intervals over bandits."""
    parser = Parser(prog="python -m atlas_gym.experiments.studies.exam", description=__doc__)
    parser.add_argument("--samples", type=at_least_one, default=EXAM["samples"], help="per question")
    parser.add_argument("--workers", type=at_least_one, default=1, help="processes that evaluate")
    parser.add_argument("runs", type=Path, nargs="+", help="folders of runs")
    parser.add_argument("--output", type=Path, help="also written here, as CSV")
    parser.add_argument("--trust", action="store_true", help="import what runs of somebody else's name")
    options = parser.parse_args(arguments)
    rows: list[dict[str, Any]] = []
    try:
        for run in [] if options.trust else options.runs:
            require_trust(run, load_config(run / "config.yaml", {}))
        for name, measures in examined(options.runs, {**EXAM, "samples": options.samples}, options.workers):
            own = [_row(name, measure, found) for measure, found in measures.items()]
            print(pd.DataFrame(own).round(3).to_string(index=False), flush=True)
            rows += own
            if options.output:
                write_csv(pd.DataFrame(rows), options.output)
    except (SettingsError, StoreError, AdapterError) as error:
        raise SystemExit(f"Error: {clean(str(error), 5000)}") from error


if __name__ == "__main__":
    main()
