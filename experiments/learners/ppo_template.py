"""PPO on a template, with Stable-Baselines3 (SAC and A2C as they come too): actions are a program's constants.

An episode is one program, so the return is its reward and nothing is bootstrapped. What a trained policy
submits is its deterministic action on the observation at reset, which is the same for every task.

    python -m experiments.learners.ppo_template --algorithm PPO --budget 3000 --record docs/learners/ppo_bandit
"""

import argparse
import csv
import json
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np

from atlas_gym import make_task
from atlas_gym.envs.program_env import ProgramEnv
from atlas_gym.optional import require
from atlas_gym.wrappers import ProgramChoice
from experiments.learners.objective import Found, Setting, confirm, confirm_expert, relative_gap, setting_for

_START = {"log_std_init": -0.5}
ALGORITHMS: dict[str, dict[str, Any]] = {
    "PPO": {"n_steps": 64, "batch_size": 32, "learning_rate": 3e-3, "policy_kwargs": _START},
    "A2C": {"n_steps": 16, "learning_rate": 3e-3, "normalize_advantage": True, "policy_kwargs": _START},
    "SAC": {"learning_starts": 32, "learning_rate": 3e-3, "batch_size": 64, "buffer_size": 10_000},
}
"""Where settings differ from the library's own, which are for millions of cheap steps."""

REFERENCES = {
    "ATLAS-Bandit-v0": "tuned_sw_linucb",
    "ATLAS-Burgers-v0": "shock_downweight",
    "ATLAS-BinPacking-v0": "leave_room",
    "ATLAS-TSP-v0": "look_ahead",
    "ATLAS-CirclePacking-v0": "grid",
}
"""The expert that a recorded run is compared with; of any other task, the last one."""


def reference_of(env_id: str) -> str:
    """The name of the expert that learners are compared with."""
    return REFERENCES.get(env_id) or list(make_task(env_id).programs)[-1]


def learn_sb3(setting: Setting, budget: int, seed: int, algorithm: str, record: Path | None = None) -> Found:
    """Train on the setting's template and return the coordinates that the policy submits.

    Args:
        setting: environment, template and cost of an evaluation.
        budget: evaluations at most; PPO and A2C take whole batches of them.
        seed: seed of the policy and its exploration.
        algorithm: key of ALGORITHMS.
        record: CSV file for task, status and score of every evaluation.
    """
    action, evaluations = _train(setting.make(), setting, budget, seed, algorithm, record)
    return Found(np.clip(np.asarray(action, float), -1.0, 1.0), evaluations)


def choose_expert(setting: Setting, budget: int, seed: int, algorithm: str = "PPO") -> tuple[str, int]:
    """Train on the choice among the environment's expert programs (Discrete); the name chosen, and the
    evaluations it took. SAC has no discrete actions."""
    env = ProgramChoice(ProgramEnv(task=setting.env_id, **setting.constants))
    action, evaluations = _train(env, setting, budget, seed, algorithm)
    return env.names[int(action)], evaluations


def _train(
    env: gym.Env, setting: Setting, budget: int, seed: int, algorithm: str, record: Path | None = None
) -> tuple[Any, int]:
    sb3 = require("stable_baselines3", "sb3")
    settings = _settings(algorithm, budget)
    batch = settings.get("n_steps", 1)
    if budget < batch:
        raise ValueError(f"{algorithm} learns from batches of {batch}: a budget of {budget} is less than one")
    if isinstance(env.action_space, gym.spaces.Discrete):
        settings.pop("policy_kwargs")  # the width of a continuous policy
    model = getattr(sb3, algorithm)("MlpPolicy", env, seed=seed, device="cpu", **settings)
    model.learn(budget // batch * batch, callback=None if record is None else _recorder(record))
    observation, _ = env.reset(seed=setting.first_seed)
    action, _ = model.predict(observation, deterministic=True)
    env.close()
    return action, model.num_timesteps


def _settings(algorithm: str, budget: int) -> dict[str, Any]:
    """PPO's batches are an eighth of a small budget: eight updates are the least that shows learning."""
    settings = dict(ALGORITHMS[algorithm])
    if algorithm == "PPO":
        settings["n_steps"] = min(settings["n_steps"], max(8, budget // 8))
        settings["batch_size"] = min(settings["batch_size"], settings["n_steps"])
    return settings


def _recorder(path: Path) -> Any:
    callback: Any = require("stable_baselines3.common.callbacks", "sb3").BaseCallback

    class Recorder(callback):
        """Writes each evaluation as it comes, so that an interrupted run leaves what it had."""

        def _on_training_start(self) -> None:
            path.parent.mkdir(parents=True, exist_ok=True)
            self.file = path.open("w", newline="", encoding="utf-8")
            self.rows = csv.writer(self.file, lineterminator="\n")
            self.rows.writerow(["evaluation", "task_seed", "status", "score"])

        def _on_step(self) -> bool:
            info = self.locals["infos"][0]
            self.rows.writerow([self.num_timesteps, info["task_seed"], info["status"], info["score"]])
            self.file.flush()
            return True

        def _on_training_end(self) -> None:
            self.file.close()

    return Recorder()


def main(arguments: list[str] | None = None) -> None:
    """Train, confirm on held-out tasks, and record both."""
    parser = argparse.ArgumentParser(prog="python -m experiments.learners.ppo_template", description=__doc__)
    parser.add_argument("--env-id", default="ATLAS-Bandit-v0")
    parser.add_argument("--algorithm", choices=ALGORITHMS, default="PPO")
    parser.add_argument("--budget", type=int, default=3000, help="evaluations (default 3000)")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--held-out", type=int, default=16, help="held-out tasks (default 16)")
    parser.add_argument("--record", type=Path, required=True, help="path without ending for .csv and .json")
    options = parser.parse_args(arguments)
    setting = setting_for(options.env_id)
    record = options.record.with_suffix(".csv")
    found = learn_sb3(setting, options.budget, options.seed, options.algorithm, record)
    template = setting.load_template()
    reference = reference_of(options.env_id)
    scores = confirm(options.env_id, template.program(found.coordinates), options.held_out)
    expert = confirm_expert(options.env_id, reference, options.held_out)
    result = {
        "algorithm": options.algorithm,
        "env_id": options.env_id,
        "search": setting.search,
        "evaluations": found.evaluations,
        "seed": options.seed,
        "parameters": template.values(found.coordinates),
        "held_out_tasks": options.held_out,
        "held_out_score": float(np.mean(scores)),
        reference: float(np.mean(expert)),
        "worse_by": relative_gap(scores, expert),
    }
    options.record.with_suffix(".json").write_text(json.dumps(result, indent=2) + "\n", encoding="utf-8")
    print(json.dumps(result, indent=2))


if __name__ == "__main__":
    main()
