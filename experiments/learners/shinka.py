"""ShinkaEvolve behind our evaluator: its loop and prompts, our confined scores.

    python -m atlas_gym.experiments.learners.shinka --url http://127.0.0.1:8000/v1 --model NAME --budget 200

ShinkaEvolve (islands, an archive, patches that are asked for again when they do not apply) starts a process for each
evaluation, in which the program finds what scores it. Here that process hands the text to our evaluator, so that a
score cannot be forged. Needs `pip install atlas-gym "shinka-evolve==0.0.7"` and a model behind a server of OpenAI's
kind.
"""

import os
import random
import sqlite3
import sys
from pathlib import Path

from atlas_gym import make_task
from atlas_gym.experiments.learners import confirmed, search_parser

EVALUATOR = """\
import argparse
import json
from pathlib import Path

from atlas_gym import make_task
from atlas_gym.evaluation import EvaluatorPool

if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--program_path", type=Path)
    parser.add_argument("--results_dir", type=Path)
    options = parser.parse_args()
    task = make_task({env_id!r}, seed={seed})
    with EvaluatorPool(1) as pool:
        found = pool.evaluate(options.program_path.read_text(encoding="utf-8"), task)
    score = task.worst_score if found.score is None else found.score
    options.results_dir.mkdir(parents=True, exist_ok=True)
    correct = {{"correct": found.score is not None, "error": found.detail}}
    (options.results_dir / "metrics.json").write_text(json.dumps({{"combined_score": score}}))
    (options.results_dir / "correct.json").write_text(json.dumps(correct))
"""
"""The program that ShinkaEvolve starts for each evaluation."""


def main(arguments: list[str] | None = None) -> tuple[str, float]:
    """Search; print and return the best program and its score on the training task."""
    parser = search_parser("shinka", "generations, a candidate each")
    parser.add_argument("--url", required=True, help="of the server, up to and including the version")
    parser.add_argument("--model", required=True, help="what the server calls the model")
    parser.add_argument("--out", type=Path, default=Path("runs/shinka"), help="folder of its files")
    options = parser.parse_args(arguments)
    os.environ.setdefault("OPENAI_API_KEY", "none")

    from shinka.core import EvolutionConfig, ShinkaEvolveRunner
    from shinka.database import DatabaseConfig
    from shinka.launch import LocalJobConfig

    random.seed(options.seed)
    task, out = make_task(options.env_id, seed=options.seed), options.out.absolute()
    start = task.starts["named"]
    out.mkdir(parents=True, exist_ok=True)
    evaluator = out / "evaluate.py"
    evaluator.write_text(EVALUATOR.format(env_id=options.env_id, seed=options.seed), encoding="utf-8")
    (out / "initial.py").write_text(
        f"# EVOLVE-BLOCK-START\n{start.rstrip()}\n# EVOLVE-BLOCK-END\n", encoding="utf-8"
    )
    ShinkaEvolveRunner(
        EvolutionConfig(
            task_sys_msg=task.describe(),
            patch_types=["full"],  # a small model seldom writes a diff that applies
            patch_type_probs=[1.0],
            num_generations=options.budget + 1,  # the start is one
            llm_models=[f"local/{options.model}@{options.url}"],
            llm_dynamic_selection=None,
            llm_kwargs={"temperatures": [0.5, 1.0], "max_tokens": 1024},
            embedding_model=None,
            meta_rec_interval=None,
            init_program_path=str(out / "initial.py"),
            results_dir=str(out),
        ),
        LocalJobConfig(eval_program_path=str(evaluator), python_executable=sys.executable),
        DatabaseConfig(db_path="programs.sqlite"),
        max_evaluation_jobs=2,
        max_proposal_jobs=2,
    ).run()
    with sqlite3.connect(out / "programs.sqlite") as database:
        query = "select code, combined_score from programs where correct order by combined_score desc limit 1"
        best, score = database.execute(query).fetchone()
    return confirmed(options, start, best, score)


if __name__ == "__main__":
    main()
