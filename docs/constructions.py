"""Writes docs/constructions.md and its pictures: the programs that come with each construction, judged once.

`python docs/constructions.py`; ten minutes of computing, nearly all of it the experts' own searches.
"""

from pathlib import Path

import numpy as np

from atlas_gym import make_task
from atlas_gym.evaluation import Evaluation, EvaluatorPool
from atlas_gym.tasks.program_task import ProgramTask
from atlas_gym.tasks.registry import BUILT_IN, find_task

PAGE = Path(__file__).with_name("constructions.md")
PICTURE = PAGE.parent / "figures" / "constructions.png"
HEAD = """\
# Constructions

Problems on which systems that discover programs are compared, most of them from AlphaEvolve's list. A program returns
the construction itself. It cannot touch its judge, and the judge has no tolerance: the numbers that a program returns
are rational numbers, and whether they are feasible and what they are worth is computed exactly, or in intervals of
which the worse end counts. The score is how far the value is from the best known, as a share of it: 0 equals it, above
0 it is a record, as `info["record"]` says. There is one problem for all seeds, so held-out seeds confirm nothing.

```python
import gymnasium as gym
import atlas_gym

env = gym.make("ATLAS-Construct-Hexagons-v0", preset="hexagons_12")
```

Made by `make docs`; *best here* is the best program that comes along. Where the best known values are from, and when
they were published, is in the [reference](reference/constructions.md). `best_known` is a keyword of each environment.

| problem | judged in | better | best known | source | start | best here | by | score |
|---|---|---|---|---|---|---|---|---|
"""
TAIL = """
![The best construction here of each problem that has a picture](figures/constructions.png)

## What was put before these judges

[AlphaEvolve's constructions](https://github.com/google-deepmind/alphaevolve_results) (as of 5 January 2026) hold
without tolerance and have the printed values: circles (2.63586276, 2.93794453, in a rectangle 2.36583213), hexagons
(3.93009107, 3.94191152), distances (12.88926611, 4.16584977), convex regions (0.03093689, 0.02783557), autocorrelations
(1.50529397, 0.89627994, 1.45564280), overlap (0.38092304), 593 vectors, sums and differences (1.14798890 with 2,003
integers). Its points in a triangle lie a rounding outside; moved inside they have 0.03652989, as printed.

Of 26 circles ShinkaEvolve's 2.63598283 holds. Two larger sums do not: AutoEvolver's 2.63598844 leaves the square by
6e-7, and with radii that are small enough is 2.63597234; a sum of ThetaEvolve's, 2.63598566, is 2.63598164 so. What
ThetaEvolve states for tolerance 0, 2.63598308, is the best known. AutoEvolver's overlap 0.38086945 and its
autoconvolution 1.50286290 hold.

The 604 vectors in dimension 11 have √2 in their coordinates. `kissing_604` builds them anew, and they hold exactly. The
points of `heilbronn_convex_published` are AlphaEvolve's, polished: 13 are then better than in its publication.
"""
JUDGED_IN = {
    "Kissing": "integers, √2",
    "Hadamard": "integers",
    "SumsDifferences": "integers, intervals",
    "Hexagons": "intervals",
}
"""The others in rational numbers."""


def problems() -> dict[str, ProgramTask]:
    """Each construction under each of its presets, by what the table calls it."""
    found = {
        "circles in a square, n = 26": make_task("ATLAS-CirclePacking-v0"),
        "circles in a square, n = 32": make_task("ATLAS-CirclePacking-v0", preset="circles_32"),
    }
    for env_id in BUILT_IN:
        if env_id.startswith("ATLAS-Construct-"):
            for preset in find_task(env_id).presets:
                name = env_id.removeprefix("ATLAS-Construct-").removesuffix("-v0")
                found[name if preset == "default" else f"{name}, `{preset}`"] = make_task(
                    env_id, preset=preset
                )
    return found


def row(name: str, task: ProgramTask, results: dict[str, Evaluation]) -> str:
    """A line of the table."""
    kind, lower = name.partition(",")[0], getattr(task, "lower_is_better", False)
    value = next(m for m in task.metric_names if m != "normalized_score")
    best = max(results, key=lambda program: _score(results[program]))
    best_known: float = task.best_known  # type: ignore[attr-defined]
    cells = (
        name,
        JUDGED_IN.get(kind, "rational numbers"),
        "lower" if lower else "higher",
        f"{best_known:.12g}",
        getattr(task, "source", "ThetaEvolve, November 2025; Packomania, September 2026"),
        f"{results['start'].metrics[value]:.8g}",
        f"{results[best].metrics[value]:.12g}",
        f"`{best}`",
        f"{_score(results[best]):+.2g}",
    )
    return "| " + " | ".join(cells) + " |\n"


def _score(evaluation: Evaluation) -> float:
    return -np.inf if evaluation.score is None else evaluation.score


def picture(drawn: list[tuple[str, ProgramTask, Evaluation]]) -> None:
    """The best constructions side by side."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(12, 12), layout="constrained")
    for axes, (name, task, evaluation) in zip(figure.subplots(4, 4).flat, drawn, strict=False):
        task.draw(axes, evaluation.traces)
        axes.set_title(name.replace("`", ""), fontsize=8)
        axes.tick_params(labelsize=6)
        axes.set(xlabel="")
    for axes in figure.axes[len(drawn) :]:
        axes.set_axis_off()
    figure.savefig(PICTURE, dpi=80)


if __name__ == "__main__":
    table, drawn = "", []
    with EvaluatorPool(2) as pool:
        waiting = {
            name: (task, {e.name: pool.submit(e.program, task) for e in task.programs.values()})
            for name, task in problems().items()
        }
        for name, (task, futures) in waiting.items():
            results = {program: future.result() for program, future in futures.items()}
            for program, evaluation in results.items():
                print(
                    name,
                    program,
                    evaluation.status,
                    evaluation.score,
                    round(evaluation.cpu_s or np.nan, 1),
                    flush=True,
                )
            table += row(name, task, {program: e for program, e in results.items() if e.ok})
            drawn.append((name, task, max(results.values(), key=_score)))
    picture([d for d in drawn if "points_14" not in d[0] and "absolute" not in d[0]][:16])
    PAGE.write_text(HEAD + table + TAIL, encoding="utf-8")
