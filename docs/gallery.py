"""Writes docs/gallery.md: every program that comes with an environment, scored on the same held-out seeds.

`python docs/gallery.py [SEEDS]`; what is drawn depends on the machine's secret, figures differ within the intervals.
"""

import math
import sys
from concurrent.futures import Future
from pathlib import Path

from atlas_gym import make_task
from atlas_gym.evaluation import Evaluation, EvaluatorPool
from atlas_gym.intervals import Interval, improvement_interval, mean_interval
from atlas_gym.tasks.program_task import ProgramTask
from atlas_gym.tasks.registry import registered_ids

PAGE = Path(__file__).with_name("gallery.md")
HEAD = """\
# Gallery

Every program that comes with an environment, under its default preset, on the same {seeds} held-out seeds; ± is half
of a 95 % interval over them. *Better* is by how much a program's mean score is closer to 0 than the initial program's,
paired by seed. Made by `make docs`; tasks depend on the machine's secret, so another machine's figures differ within
the intervals. [Constructions](constructions.md) have a page of their own.
"""


def table(task: ProgramTask, seeds: int, pool: EvaluatorPool) -> str:
    """The programs of one task, its controls included, and the ends of its scale."""
    programs = [*task.programs.values(), *task.controls.values()]
    played: dict[str, list[Future[Evaluation]]] = {
        e.name: [pool.submit(e.program, task.at(seed, "held_out")) for seed in range(seeds)] for e in programs
    }
    scores = {name: [future.result().score for future in row] for name, row in played.items()}
    lines = [f"## {task.env_id}", "", "| program | what it is | score | better |", "|---|---|---|---|"]
    for expert in programs:
        row, start = scores[expert.name], scores[task.initial]
        better = "–" if expert.name == task.initial else shown(improvement_interval(row, start), ".1%")
        score = shown(mean_interval(row), ".4f")
        title = expert.title.replace("|", "\\|")
        lines.append(f"| `{expert.name}` | {title} | {score} | {better} |")
    ends = [task.at(seed, "held_out").reference_scores() for seed in range(seeds)]
    for name in ends[0]:
        lines.append(f"| *{name}* | | {shown(mean_interval([end[name] for end in ends]), '.4f')} | |")
    return "\n".join(lines) + "\n"


def shown(interval: Interval, form: str) -> str:
    """Mean and half-width; the mean alone for one seed."""
    mean = format(interval.mean, form)
    return mean if math.isnan(interval.half_width) else f"{mean} ± {interval.half_width:{form}}"


if __name__ == "__main__":
    number = int(sys.argv[1]) if len(sys.argv) > 1 else 4
    with EvaluatorPool(2) as evaluators:
        tables = [
            table(make_task(env_id), number, evaluators)
            for env_id in registered_ids()
            if "Construct" not in env_id
        ]
    PAGE.write_text("\n".join([HEAD.format(seeds=number), *tables]), encoding="utf-8")
