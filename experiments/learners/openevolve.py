"""OpenEvolve as a learner: MAP-Elites on islands, prompts with the best programs, one completion an iteration."""

from collections.abc import Sequence
from pathlib import Path

import yaml

from agents.engines.llama_server import MODEL
from experiments.learners.ledger import Change
from experiments.learners.peer import SLOTS, TOKENS, Order, Peer, marked

CHANGES = {
    "diff_based_evolution": Change(
        False, True, "assumed, not measured: so small a model seldom writes a diff that applies"
    ),
    "llm.max_tokens": Change(
        TOKENS, 4096, "longer than any starting program; a small model is assumed to ramble on"
    ),
    "llm.timeout": Change(900, 60, "seconds; two cores are slow, and a repeated request would count twice"),
    "llm.random_seed": Change(
        -1, "from random_seed", "one seed for all requests: equal prompts get equal answers"
    ),
    "prompt.num_top_programs": Change(1, 3, "a prompt costs a small machine more than its answer"),
    "prompt.num_diverse_programs": Change(0, 2, "the same"),
    "evaluator.parallel_evaluations": Change(
        SLOTS, 1, "as many iterations at a time as the model's server answers"
    ),
    "evaluator.cascade_evaluation": Change(False, True, "programs are evaluated in one stage"),
}

_EVALUATION = '''"""Asks the referee for a program's score."""
import json
import urllib.request


def evaluate(path):
    with open(path, encoding="utf-8") as file:
        body = json.dumps({{"program": file.read()}}).encode()
    with urllib.request.urlopen(urllib.request.Request("{url}/evaluate", body)) as reply:
        return {{"combined_score": json.load(reply)["score"]}}
'''


def _prepare(folder: Path, order: Order) -> Sequence[str]:
    config: dict = {
        "max_iterations": order.budget,
        "random_seed": order.seed,
        "llm": {"models": [{"name": MODEL, "api_base": f"{order.url}/v1", "api_key": "none"}]},
        "prompt": {"system_message": order.task.describe()},
    }
    for name, change in CHANGES.items():
        *section, key = name.split(".")
        (config.setdefault(section[0], {}) if section else config)[key] = change.value
    (folder / "config.yaml").write_text(yaml.safe_dump(config), encoding="utf-8")
    (folder / "initial.py").write_text(marked(order.start), encoding="utf-8")
    (folder / "evaluate.py").write_text(_EVALUATION.format(url=order.url), encoding="utf-8")
    files = ["initial.py", "evaluate.py", "--config", "config.yaml", "--output", "output"]
    return ["-m", "openevolve.cli", *files]


OPENEVOLVE = Peer("OpenEvolve", "0.4.0", Path(__file__).with_name("openevolve.txt"), CHANGES, _prepare)
"""https://pypi.org/project/openevolve"""
