"""PPO on a template, with Stable-Baselines3: the actions are a program's numbers.

    python -m atlas_gym.experiments.learners.ppo horizon=500 replicas=2

An episode is one program, so the return is its reward and nothing is bootstrapped. `TemplateAction` makes the action
space a box and shows numbers instead of prompts. What comes out is the policy's deterministic action on the observation
at reset, scored on held-out tasks beside an expert program; the constants (here: shorter bandits, which are cheaper)
are those of training alone. Needs `pip install "atlas-gym[sb3]"`.
"""

import argparse
from typing import Any

import numpy as np

from atlas_gym import make_task
from atlas_gym.envs.program_env import ProgramEnv
from atlas_gym.experiments.learners import held_out_means
from atlas_gym.optional import require
from atlas_gym.tasks.constants import constants_from
from atlas_gym.wrappers import TemplateAction

PPO = require("stable_baselines3", "sb3").PPO


def main(arguments: list[str] | None = None) -> dict[str, Any]:
    """Train on one task after the other and confirm on held-out ones; print and return what came out."""
    parser = argparse.ArgumentParser(prog="python -m atlas_gym.experiments.learners.ppo")
    parser.add_argument("constants", nargs="*", metavar="NAME=VALUE", help="of the environment, in training")
    parser.add_argument("--env-id", default="ATLAS-Bandit-v0")
    parser.add_argument("--budget", type=int, default=1984, help="evaluations, in batches (default 1984)")
    parser.add_argument("--batch", type=int, default=64, help="evaluations between two updates (default 64)")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--held-out", type=int, default=16, help="held-out tasks (default 16)")
    parser.add_argument("--expert", default="tuned_sw_linucb", help="program that it is compared with")
    options = parser.parse_args(arguments)
    if options.budget < options.batch:
        parser.error(f"a budget of {options.budget} is less than one batch of {options.batch}")

    env = TemplateAction(ProgramEnv(task=options.env_id, **constants_from(options.constants)))
    try:
        # The library's own settings are for millions of cheap steps, and these are few.
        model = PPO("MlpPolicy", env, seed=options.seed, device="cpu", learning_rate=3e-3, n_steps=options.batch,
                    batch_size=min(32, options.batch), policy_kwargs={"log_std_init": -0.5})  # fmt: skip
        model.learn(options.budget // options.batch * options.batch)
        observation, _ = env.reset(seed=0)
        point = np.clip(model.predict(observation, deterministic=True)[0], -1.0, 1.0)
    finally:
        env.close()

    program, numbers = env.template.program(point), env.template.values(point)
    expert = make_task(options.env_id).programs[options.expert].program  # of the whole task
    ours, theirs = held_out_means(options.env_id, [program, expert], options.held_out)
    print(f"{program}\n{model.num_timesteps} evaluations; {numbers}")
    print(f"held out {ours:.4f}, {options.expert} {theirs:.4f}")
    return {"numbers": numbers, "evaluations": model.num_timesteps, "held_out": ours, "expert": theirs}


if __name__ == "__main__":
    main()
