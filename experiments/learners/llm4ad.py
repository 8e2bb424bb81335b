"""LLM4AD's EoH as a learner: a population of thoughts with their code, four operators, the signature to start from."""

from pathlib import Path
from typing import Any

from experiments.learners.peer import SLOTS, TOKENS, Order, Peer

SETTINGS = {
    "method.max_generations": (None, "the budget ends it"),
    "method.num_samplers": (SLOTS, "as many at a time as the model's server answers"),
    "method.num_evaluators": (SLOTS, "the same"),
    "model.max_tokens": (TOKENS, "longer than any starting program; its client sets no limit"),
    "model.temperature": (1.0, "its client leaves that to the server"),
    "model.timeout": (900, "seconds; two cores are slow"),
}  # fmt: skip

_DEFAULTS = """
import inspect, json
from llm4ad.method.eoh import EoH
from llm4ad.tools.llm.llm_api_openai import OpenAIAPI

method, model = (inspect.signature(made.__init__).parameters for made in (EoH, OpenAIAPI))
settings = {name: one.default for name, one in method.items() if one.default is not one.empty}
print(json.dumps({"method": settings, "model": {"timeout": model["timeout"].default}}))
"""
_EVALUATION = '''"""Starts the search; a program's score is the referee's."""
import json
import random
import urllib.request

import numpy as np
import yaml
from llm4ad.base import Evaluation
from llm4ad.method.eoh import EoH, EoHProfiler
from llm4ad.tools.llm.llm_api_openai import OpenAIAPI


class Referee(Evaluation):
    def evaluate_program(self, program_str, callable_func):
        body = json.dumps({{"program": program_str}}).encode()
        with urllib.request.urlopen(urllib.request.Request("{url}/evaluate", body)) as reply:
            found = json.load(reply)
        return found["score"] if found["status"] == "ok" else None


class Model(OpenAIAPI):
    def draw_sample(self, prompt, *args, **kwargs):
        messages = [{{"role": "user", "content": prompt.strip()}}]
        sampling = {{name: model[name] for name in ("max_tokens", "temperature")}}
        reply = self._client.chat.completions.create(model=self._model, messages=messages, **sampling)
        return reply.choices[0].message.content


with open("config.yaml") as file:
    settings = yaml.safe_load(file)
with open("initial.py") as file:
    start = "".join(line for line in file if "EVOLVE-BLOCK" not in line)
model, task = settings["model"], settings["task"]
random.seed(task["seed"])
np.random.seed(task["seed"])
evaluation = Referee(start, task["description"], exec_code=False, safe_evaluate=False)
client = Model(model["base_url"], "none", model["name"], model["timeout"])
profiler = EoHProfiler("results", log_style="simple", create_random_path=False)
EoH(client, evaluation, profiler, **settings["method"]).run()
'''


def _given(order: Order) -> dict[str, Any]:
    return {
        "method.max_sample_nums": order.trial.budget,
        "model.base_url": f"{order.url}/v1",
        "model.name": order.model,
        "task.description": order.trial.task().describe(),
        "task.seed": order.trial.seed,
    }


LLM4AD = Peer(
    "LLM4AD", "1.11", Path(__file__).with_name("llm4ad.txt"),
    SETTINGS, _given, _DEFAULTS, _EVALUATION, lambda order: ["evaluate.py"],
)  # fmt: skip
"""https://pypi.org/project/llm4ad"""
