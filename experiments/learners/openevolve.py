"""OpenEvolve behind our evaluator: its loop and prompts, our confined scores.

    python -m atlas_gym.experiments.learners.openevolve --url http://127.0.0.1:8000/v1 --model NAME --budget 200

OpenEvolve (MAP-Elites on islands, one completion an iteration) runs a program in a process of its own, where the
program finds the evaluator and its hidden state. Here `evaluate` hands the text to `EvaluatorPool`, so that a score
cannot be forged. Needs `pip install atlas-gym "openevolve==0.4.0"` and a model behind an OpenAI-compatible server.
"""

import os
from pathlib import Path

from atlas_gym import make_task
from atlas_gym.experiments.learners import confirmed, search_parser

EVALUATOR = """\
from atlas_gym import make_task
from atlas_gym.evaluation import EvaluatorPool

TASK, POOL = make_task({env_id!r}, seed={seed}), EvaluatorPool(1)


def evaluate(path):
    with open(path, encoding="utf-8") as file:
        found = POOL.evaluate(file.read(), TASK)
    return {{"combined_score": TASK.worst_score if found.score is None else found.score}}
"""
"""The file that OpenEvolve imports in each of its processes."""


def main(arguments: list[str] | None = None) -> tuple[str, float]:
    """Search; print and return the best program and its score on the training task."""
    parser = search_parser("openevolve", "iterations, a candidate each")
    parser.add_argument("--url", required=True, help="of the server, up to and including the version")
    parser.add_argument("--model", required=True, help="what the server calls the model")
    parser.add_argument("--out", type=Path, default=Path("runs/openevolve"), help="folder of its files")
    options = parser.parse_args(arguments)

    from openevolve.api import run_evolution
    from openevolve.config import Config

    task = make_task(options.env_id, seed=options.seed)
    key = os.environ.get("OPENAI_API_KEY", "none")
    config = Config.from_dict({
        "random_seed": options.seed,
        "diff_based_evolution": False,  # a small model seldom writes a diff that applies
        "llm": {
            "models": [{"name": options.model, "api_base": options.url, "api_key": key}],
            "max_tokens": 1024,
            "timeout": 900,
            "random_seed": -1,  # with one seed for all requests equal prompts get equal answers
        },
        "prompt": {"system_message": task.describe(), "num_top_programs": 1, "num_diverse_programs": 0},
        "evaluator": {"cascade_evaluation": False, "parallel_evaluations": 2},
    })  # fmt: skip
    options.out.mkdir(parents=True, exist_ok=True)
    evaluator = options.out / "evaluate.py"
    evaluator.write_text(EVALUATOR.format(env_id=options.env_id, seed=options.seed), encoding="utf-8")
    start = task.starts["named"]
    result = run_evolution(
        f"# EVOLVE-BLOCK-START\n{start.rstrip()}\n# EVOLVE-BLOCK-END\n", str(evaluator), config,
        iterations=options.budget, output_dir=str(options.out), cleanup=False,
    )  # fmt: skip
    return confirmed(options, start, result.best_code or start, result.best_score)


if __name__ == "__main__":
    main()
