"""OpenEvolve as a learner: MAP-Elites on islands, prompts with the best programs, one completion an iteration."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from experiments.learners.peer import SLOTS, TOKENS, Order, Peer

SETTINGS = {
    "diff_based_evolution": (False, "assumed, not measured: so small a model seldom writes a diff that applies"),
    "llm.max_tokens": (TOKENS, "longer than any starting program; a small model is assumed to ramble on"),
    "llm.timeout": (900, "seconds; two cores are slow, and a repeated request would count twice"),
    "llm.random_seed": (-1, "with one seed for all requests equal prompts get equal answers"),
    "prompt.num_top_programs": (1, "a prompt costs a small machine more than its answer"),
    "prompt.num_diverse_programs": (0, "the same"),
    "evaluator.parallel_evaluations": (SLOTS, "as many iterations at a time as the model's server answers"),
    "evaluator.cascade_evaluation": (False, "programs are evaluated in one stage"),
}  # fmt: skip

_DEFAULTS = (
    "import json; from openevolve.config import Config; print(json.dumps(Config().to_dict(), default=str))"
)
_EVALUATION = '''"""Asks the referee for a program's score."""
import json
import urllib.request


def evaluate(path):
    with open(path, encoding="utf-8") as file:
        body = json.dumps({{"program": file.read()}}).encode()
    with urllib.request.urlopen(urllib.request.Request("{url}/evaluate", body)) as reply:
        return {{"combined_score": json.load(reply)["score"]}}
'''


def _given(order: Order) -> dict[str, Any]:
    return {
        "max_iterations": order.trial.budget,
        "random_seed": order.trial.seed,
        "llm.models": [{"name": order.model, "api_base": f"{order.url}/v1", "api_key": "none"}],
        "prompt.system_message": order.trial.task().describe(),
    }


def _command(order: Order) -> Sequence[str]:
    files = ["initial.py", "evaluate.py", "--config", "config.yaml", "--output", "output"]
    return ["-m", "openevolve.cli", *files]


OPENEVOLVE = Peer(
    "OpenEvolve", "0.4.0", Path(__file__).with_name("openevolve.txt"),
    SETTINGS, _given, _DEFAULTS, _EVALUATION, _command,
)  # fmt: skip
"""https://pypi.org/project/openevolve"""
