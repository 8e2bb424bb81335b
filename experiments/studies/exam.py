"""What policies write by themselves on many bandits that no run had.

    python -m atlas_gym.experiments.studies.exam RUN …

The measure within a run has some hundred samples, since every phase waits for it. This one asks the base model and
each run's last policy for 1,728: twelve bandits, nine edit sites of the run's start on each, sixteen samples a site,
the same prompts and random numbers for all.
"""

from argparse import Namespace
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from atlas_gym import make_task
from atlas_gym.agents.engines.hf_transformers import TransformersEngine
from atlas_gym.agents.models.policy import POLICY, Policy
from atlas_gym.agents.proposals.rewrite import chat_of
from atlas_gym.agents.research_agent import ResearchAgent
from atlas_gym.arguments import at_least_one
from atlas_gym.evaluation import EvaluatorPool, Pool
from atlas_gym.experiments.studies.measuring import base_policy, measure
from atlas_gym.trainers.data.comparison import Comparison
from atlas_gym.trainers.loop.config import RunConfig, load_config
from atlas_gym.trainers.loop.exam import BASE, Exam, learned
from atlas_gym.trainers.loop.tasks import Tasks
from atlas_gym.trainers.store.plain import SettingsError
from atlas_gym.trainers.store.store import RunStore

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


def answers(policy: Policy, config: RunConfig, panel: Exam) -> dict[str, Any]:
    """What the policy as it is now writes."""
    engine = TransformersEngine(policy.base, policy.tokenizer, config.sampling, policy=policy)
    with engine.serving(POLICY):
        return panel.answers(engine)


def panel_of(config: RunConfig, policy: Policy, pool: Pool, store: RunStore) -> Exam:
    """The questions to a run's policies, as its agent would ask them."""
    task = make_task(config.env, **config.env_args)
    agent = ResearchAgent(task, config.agent, seed=config.seed, chat=chat_of(policy.tokenizer))
    return Exam(config, Tasks(config), agent.styles, pool, store)


def question(config: RunConfig, panel: Exam) -> str:
    """All that a base model's answers depend on: runs that have it in common may share them."""
    model, posed = (config.model, config.sampling), (config.env, config.env_args)
    return repr((model, posed, config.exam.instances, sorted(panel.prompts)))


def last_policy(run: Path) -> Path:
    """The adapter that a run's phases have led to; raises `SettingsError` if there was none."""
    phases = sorted((run / "adapters").glob("phase-*"))
    if not phases:
        raise SettingsError(f"{run} has no phase")
    return phases[-1] / POLICY


def examined(
    runs: Sequence[Path], exam: dict[str, Any], workers: int = 1
) -> Iterator[tuple[str, dict[str, Comparison]]]:
    """Each run's last policy against the base model, by measure; `workers` processes evaluate what they write.

    Raises:
        SettingsError: there is no run, or it asks its model otherwise than the first, or another one.
        StoreError: its store cannot be read.
        AdapterError: its adapter is damaged or another model's.
    """
    asked = ""
    base: dict[str, Any] = {}
    with EvaluatorPool(workers) as pool:
        for run in runs:
            config = load_config(run / "config.yaml", {"exam": exam})
            policy = base_policy(config)
            with RunStore.open_readonly(run) as store:
                panel = panel_of(config, policy, pool, store)
                own = question(config, panel)
                if not asked:
                    asked, base = own, answers(policy, config, panel)
                elif own != asked:
                    raise SettingsError(
                        f"{run} asks its model otherwise than {runs[0]}: examine it by itself"
                    )
                policy.restore(POLICY, last_policy(run))
                tuned = answers(policy, config, panel)
            yield run.name, learned({BASE: base, 1: tuned})[1]


def row(run: str, measure: str, found: Comparison) -> dict[str, Any]:
    """As it is printed and written."""
    difference, ratio, factor = found.difference, found.ratio, found.ratio_factor
    return {
        "run": run, "measure": measure, "base": found.base, "tuned": found.tuned, "difference": difference.mean,
        "low": difference.low, "high": difference.high, "ratio": ratio, "ratio_low": ratio / factor,
        "ratio_high": ratio * factor, "instances": found.instances,
    }  # fmt: skip


def _rows(options: Namespace) -> Iterator[list[dict[str, Any]]]:
    exam = {**EXAM, "samples": options.samples}
    for run, measures in examined(options.runs, exam, options.workers):
        yield [row(run, name, found) for name, found in measures.items()]


def main(arguments: Sequence[str] | None = None) -> None:
    """Print what each policy writes beside the base model, with 95 % intervals over bandits."""
    own = {
        "--samples": {"type": at_least_one, "default": EXAM["samples"], "help": "per question"},
        "--workers": {"type": at_least_one, "default": 1, "help": "processes that evaluate"},
    }
    measure("exam", __doc__, _rows, arguments, own)


if __name__ == "__main__":
    main()
