"""Run where verifiers is installed: list a taskset, score replies through verifiers' own scoring, print JSON.

`python -m tests.atlas_gym.bridges.verifiers_scores ENV CONSTANTS`, the constants in JSON.
"""

import asyncio
import json
import sys

import atlas_gym
from atlas_gym.bridges.verifiers import AtlasConfig, AtlasTaskset


class Reply:
    """As much of a trace as verifiers' scoring of a task touches."""

    def __init__(self, text):
        self.last_reply, self.rewards, self.metrics = text, {}, {}

    def record_reward(self, name, value, weight):
        self.rewards[name] = value


def main(env_id, constants):
    config = AtlasConfig(id="atlas", env_id=env_id, tasks=3, first_seed=5, constants=json.loads(constants))
    tasks = list(AtlasTaskset(config))
    program = atlas_gym.make_task(env_id).starts["named"]
    replies = [f"Here:\n```python\n{program}```", program, "I give up."]
    scores = []
    for task, text in zip(tasks, replies, strict=True):
        trace = Reply(text)
        asyncio.run(task.score(trace))
        scores.append(trace.rewards["normalized_score"])
    found = {
        "seeds": [task.data.seed for task in tasks],
        "prompt": tasks[0].data.prompt,
        "scores": scores,
    }
    json.dump(found, sys.stdout)


if __name__ == "__main__":
    main(*sys.argv[1:])
