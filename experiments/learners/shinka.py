"""ShinkaEvolve as a learner: islands, an archive, patches of several kinds, rejected ones asked for again."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from experiments.learners.peer import SLOTS, TOKENS, Order, Peer

SETTINGS = {
    "evo.patch_types": (["full"], "assumed, not measured: so small a model seldom writes a diff that applies"),
    "evo.patch_type_probs": ([1.0], "the same"),
    "evo.llm_kwargs.temperatures": ([0.5, 1.0], "at temperature 0 one prompt has one answer"),
    "evo.llm_kwargs.max_tokens": (TOKENS, "longer than any starting program"),
    "evo.llm_dynamic_selection": (None, "there is one model"),
    "evo.embedding_model": (None, "none is served; novelty is not judged by it"),
    "evo.meta_rec_interval": (None, "its summaries would be candidates' tokens spent on other text"),
    "max_proposal_jobs": (SLOTS, "as many at a time as the model's server answers; so that it keeps to that it is told "
        "of four times as many cores: it allows half a request a core, but the model is not in its process"),
    "max_evaluation_jobs": (SLOTS, "the same"),
}  # fmt: skip

_DEFAULTS = """
import dataclasses, inspect, json
from shinka.core import EvolutionConfig, ShinkaEvolveRunner
from shinka.database import DatabaseConfig

jobs = inspect.signature(ShinkaEvolveRunner.__init__).parameters
settings = {name: jobs[name].default for name in ("max_proposal_jobs", "max_evaluation_jobs")}
settings |= {"evo": dataclasses.asdict(EvolutionConfig()), "db": dataclasses.asdict(DatabaseConfig())}
print(json.dumps(settings, default=str))
"""
_EVALUATION = '''"""Asks the referee for a program's score."""
import argparse
import json
import os
import urllib.request

parser = argparse.ArgumentParser()
parser.add_argument("--program_path")
parser.add_argument("--results_dir")
options = parser.parse_args()
with open(options.program_path, encoding="utf-8") as file:
    body = json.dumps({{"program": file.read()}}).encode()
with urllib.request.urlopen(urllib.request.Request("{url}/evaluate", body)) as reply:
    found = json.load(reply)
os.makedirs(options.results_dir, exist_ok=True)
correct = {{"correct": found["status"] == "ok", "error": found["detail"]}}
for name, value in (("metrics", {{"combined_score": found["score"]}}), ("correct", correct)):
    with open(os.path.join(options.results_dir, name + ".json"), "w") as file:
        json.dump(value, file)
'''


def _given(order: Order) -> dict[str, Any]:
    return {
        "evo.llm_models": [f"local/{order.model}@{order.url}/v1"],
        "evo.task_sys_msg": order.trial.task().describe(),
        "db": {},
    }


def _command(order: Order) -> Sequence[str]:
    told = f"import os, random; os.cpu_count = lambda: {4 * SLOTS}; random.seed({order.trial.seed}); "
    program = f"{told}import runpy; runpy.run_module('shinka.cli.run', run_name='__main__')"
    files = ["--task-dir", ".", "--config-fname", "config.yaml", "--results_dir", "results"]
    return ["-c", program, *files, "--num_generations", str(order.trial.budget + 1)]


SHINKA = Peer(
    "ShinkaEvolve", "0.0.7", Path(__file__).with_name("shinka.txt"),
    SETTINGS, _given, _DEFAULTS, _EVALUATION, _command,
)  # fmt: skip
"""https://pypi.org/project/shinka-evolve"""
