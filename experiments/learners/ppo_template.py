"""PPO on a template, with Stable-Baselines3 (SAC and A2C as they come too): actions are a program's constants.

An episode is one program, so the return is its reward and nothing is bootstrapped. On the leaderboard the best program
is submitted; alone, a trained policy's deterministic action on the observation at reset, the same for every task.

    python -m atlas_gym.experiments.learners.ppo_template horizon=500 replicas=2 --record docs/learners/ppo_bandit
"""

import argparse
import json
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pandas as pd

from atlas_gym import make_task
from atlas_gym.arguments import Parser
from atlas_gym.envs.program_env import ProgramEnv
from atlas_gym.experiments.learners.changes import Change, changes_from_defaults
from atlas_gym.experiments.learners.ledger import BudgetSpent, Ledger, Trial, confirm, patient
from atlas_gym.optional import require
from atlas_gym.tasks.constants import constants_from
from atlas_gym.wrappers import TemplateAction

_START = {"log_std_init": -0.5}
ALGORITHMS: dict[str, dict[str, Any]] = {
    "PPO": {"n_steps": 64, "batch_size": 32, "learning_rate": 3e-3, "policy_kwargs": _START},
    "A2C": {"n_steps": 16, "learning_rate": 3e-3, "normalize_advantage": True, "policy_kwargs": _START},
    "SAC": {"learning_starts": 32, "learning_rate": 3e-3, "batch_size": 64, "buffer_size": 10_000},
}
"""Where settings differ from the library's own, which are for millions of cheap steps."""


def train(env: gym.Env, budget: int, seed: int, algorithm: str = "PPO") -> Any:
    """Train on the environment for so many evaluations (PPO and A2C take whole batches); returns the model."""
    settings = settings_of(algorithm, budget)
    batch = settings.get("n_steps", 1)
    if budget < batch:
        raise ValueError(f"{algorithm} learns from batches of {batch}: a budget of {budget} is less than one")
    kind = getattr(require("stable_baselines3", "sb3"), algorithm)
    return kind("MlpPolicy", env, seed=seed, device="cpu", **settings).learn(budget // batch * batch)


def settings_of(algorithm: str, budget: int) -> dict[str, Any]:
    """What an algorithm is given for a budget of evaluations."""
    settings = dict(ALGORITHMS[algorithm])
    if algorithm == "PPO":  # eight updates are the least that shows learning
        settings["n_steps"] = min(settings["n_steps"], max(8, budget // 8))
        settings["batch_size"] = min(settings["batch_size"], settings["n_steps"])
    return settings


def changes(trial: Trial) -> dict[str, Change]:
    """How PPO's settings differ from the library's."""
    why = "the library's own are for millions of cheap steps, and these are few"
    here = {name: (value, why) for name, value in settings_of("PPO", trial.budget).items()}
    return changes_from_defaults(require("stable_baselines3", "sb3").PPO, here)


class Counted(gym.Wrapper):
    """Tells a ledger of every evaluation, and asks it before."""

    def __init__(self, env: gym.Env, ledger: Ledger):
        super().__init__(env)
        self._ledger = ledger

    def step(self, action: Any) -> Any:
        """See `gymnasium.Env.step`; raises `BudgetSpent`."""
        if not self._ledger.ask():
            raise BudgetSpent
        result = self.env.step(action)
        self._ledger.note(result[-1]["program"], self.get_wrapper_attr("last_evaluation"))
        return result


class Recorded(gym.Wrapper):
    """Keeps a row of every evaluation."""

    def __init__(self, env: gym.Env):
        super().__init__(env)
        self.rows: list[dict[str, Any]] = []

    def step(self, action: Any) -> Any:
        """See `gymnasium.Env.step`."""
        result = self.env.step(action)
        told = {name: result[-1][name] for name in ("task_seed", "status", "score")}
        self.rows.append({"evaluation": len(self.rows) + 1, **told})
        return result


def learn_ppo(ledger: Ledger, seed: int) -> None:
    """PPO on the training task's default template."""
    trial = ledger.trial
    env = TemplateAction(ProgramEnv(task=trial.env_id, task_seed=trial.seed, **trial.constants))
    try:
        train(Counted(env, ledger), trial.budget, seed)
    finally:
        env.close()


def main(arguments: list[str] | None = None) -> None:
    """Train on one task after the other, confirm on held-out ones, and print or record both."""
    parser = Parser(
        prog="python -m atlas_gym.experiments.learners.ppo_template", description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )  # fmt: skip
    parser.add_argument("constants", nargs="*", metavar="NAME=VALUE", help="of the environment, in training")
    parser.add_argument("--env-id", default="ATLAS-Bandit-v0")
    parser.add_argument("--algorithm", choices=ALGORITHMS, default="PPO")
    parser.add_argument("--budget", type=int, default=1984, help="evaluations (default 1984)")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--held-out", type=int, default=16, help="held-out tasks (default 16)")
    parser.add_argument("--expert", default="tuned_sw_linucb", help="what it is compared with")
    parser.add_argument("--record", type=Path, help="path without ending: also write .csv and .json")
    options = parser.parse_args(arguments)
    result = record(options, constants_from(options.constants))
    text = json.dumps(result, indent=2) + "\n"
    if options.record is not None:
        options.record.with_suffix(".json").write_text(text, encoding="utf-8")
    print(text, end="")


def record(options: argparse.Namespace, constants: dict[str, Any]) -> dict[str, Any]:
    """Train, and write the evaluations to a CSV file where one is named; what came of it, and the expert's score."""
    task = make_task(options.env_id, **constants)
    if options.expert not in task.programs:
        raise SystemExit(f"Error: no expert {options.expert}; --expert is one of {', '.join(task.programs)}")
    posed = TemplateAction(ProgramEnv(task=options.env_id, limits=patient(task.limits), **constants))
    env = Recorded(posed)
    try:
        model = train(env, options.budget, options.seed, options.algorithm)
        action, _ = model.predict(env.reset(seed=0)[0], deterministic=True)
    finally:
        env.close()
    if options.record is not None:
        pd.DataFrame(env.rows).to_csv(options.record.with_suffix(".csv"), index=False, lineterminator="\n")
    point = np.clip(action, -1.0, 1.0)
    ours, theirs = (
        float(np.mean(confirm(options.env_id, program, options.held_out)))
        for program in (posed.template.program(point), task.programs[options.expert].program)
    )
    return {
        "algorithm": options.algorithm, "env_id": options.env_id, "search": constants,
        "evaluations": model.num_timesteps, "seed": options.seed, "parameters": posed.template.values(point),
        "held_out_tasks": options.held_out, "held_out_score": ours, options.expert: theirs,
        "worse_by": ours / theirs - 1.0,
    }  # fmt: skip


if __name__ == "__main__":
    main()
