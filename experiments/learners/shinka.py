"""ShinkaEvolve as a learner: islands, an archive, patches of several kinds, rejected ones asked for again."""

from collections.abc import Sequence
from pathlib import Path

import yaml

from agents.engines.llama_server import MODEL
from experiments.learners.ledger import Change
from experiments.learners.peer import SLOTS, TOKENS, Order, Peer, marked

CHANGES = {
    "evo.patch_types": Change(
        ["full"], ["diff", "full", "cross"], "assumed, not measured: so small a model seldom writes a diff that applies"
    ),
    "evo.patch_type_probs": Change([1.0], [0.6, 0.3, 0.1], "the same"),
    "evo.llm_kwargs": Change(
        {"temperatures": [0.5, 1.0], "max_tokens": TOKENS}, {"temperatures": [0.0, 0.5, 1.0], "max_tokens": 16384},
        "longer than any starting program; at temperature 0 one prompt has one answer",
    ),
    "evo.llm_dynamic_selection": Change(None, "ucb", "there is one model"),
    "evo.embedding_model": Change(None, "text-embedding-3-small", "none is served; novelty is not judged by it"),
    "evo.meta_rec_interval": Change(None, 10, "its summaries would be candidates' tokens spent on other text"),
    "max_proposal_jobs": Change(SLOTS, 6, "as many at a time as the model's server answers"),
    "max_evaluation_jobs": Change(SLOTS, 4, "the same"),
}  # fmt: skip

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


def _prepare(folder: Path, order: Order) -> Sequence[str]:
    config: dict = {
        "evo": {"llm_models": [f"local/{MODEL}@{order.url}/v1"], "task_sys_msg": order.task.describe()},
        "db": {},
    }
    for name, change in CHANGES.items():
        section, dot, key = name.rpartition(".")
        (config[section] if dot else config)[key] = change.value
    task = folder / "task"
    task.mkdir(exist_ok=True)
    (task / "config.yaml").write_text(yaml.safe_dump(config), encoding="utf-8")
    (task / "initial.py").write_text(marked(order.start), encoding="utf-8")
    (task / "evaluate.py").write_text(_EVALUATION.format(url=order.url), encoding="utf-8")
    seeded = f"import random; random.seed({order.seed}); "
    program = f"{seeded}import runpy; runpy.run_module('shinka.cli.run', run_name='__main__')"
    files = ["--task-dir", "task", "--config-fname", "config.yaml", "--results_dir", "results"]
    return ["-c", program, *files, "--num_generations", str(order.budget + 1)]


SHINKA = Peer("ShinkaEvolve", "0.0.7", Path(__file__).with_name("shinka.txt"), CHANGES, _prepare)
"""https://pypi.org/project/shinka-evolve"""
