# ruff: noqa: E501 (the page is written as it is read)
"""Writes docs/results.md, its three pictures and the table of README.md: every number in them is of a committed CSV file.

python docs/results.py
"""

import re
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from atlas_gym.experiments.report.style import COLORS, MUTED, TEXT_WIDTH, plot_style
from atlas_gym.experiments.studies.results import by_task
from atlas_gym.intervals import half_width, mean_interval

DOCS = Path(__file__).parent
FIGURES, STUDY = DOCS / "figures", DOCS / "study"
METHODS = {
    "atlas": "ATLAS", "search": "the model alone, untuned", "supporter": "a supporter's rules, no model",
    "numbers": "random numbers, no model", "expressions": "random expressions, no model",
}  # fmt: skip
CONTROLS = {"supporter": "rules", "numbers": "numbers", "expressions": "expressions"}
LEAST = -100.0
"""What a run that ends below counts as, in per cent: a program that diverges on held-out tasks has no bound."""
TASKS = {"burgers": "Burgers"}
TAUGHT = {
    "gated": "both, gated reference", "fixed": "both, fixed reference", "supervised": "chosen answers alone",
    "base": "the model untuned", "teacher": "the supporter's rules, no model",
}  # fmt: skip
"""Arms where a supporter teaches. Both: preferences, and the term for chosen answers."""
UNTAUGHT = {
    "dpo": "preferences, fixed reference", "gated": "preferences, gated reference", "supervised": "chosen answers alone",
    "base": "the model untuned", "expressions": "random expressions, no model",
}  # fmt: skip
"""Arms where nobody teaches."""
PHASES = {
    "normal": "256 pairs, taught, 0.4 nats", "64 pairs": "64 pairs", "to 0.1 nats": "to 0.1 nats",
    "to 0.8 nats": "to 0.8 nats", "without the supervised term": "no supervised term", "the agent's answers": "its own answers",
}  # fmt: skip


def rows(path: Path) -> pd.DataFrame:
    return pd.read_csv(path, dtype={"task": str, "arm": str})


def points(values: Sequence[float] | pd.Series) -> str:
    found = mean_interval(np.asarray(values))
    return (f"{found:.1f}" if len(values) > 1 else f"{found.mean:.1f} (one seed)").replace("-", "−")


def paired(table: pd.DataFrame, one: str, other: str) -> pd.Series:
    return (table[one] - table[other]).dropna()


# The numbers.

methods = {
    task: of.clip(lower=LEAST)
    for task, of in by_task(rows(STUDY / "methods" / "runs.csv"), "improvement").items()
}
better = {task: str(of[[*CONTROLS]].mean().idxmax()) for task, of in methods.items()}
ahead = {task: paired(of, "atlas", better[task]) for task, of in methods.items()}
others = [arm for arm in METHODS if arm != "atlas"]
less = {arm: {task: paired(of, "atlas", arm) for task, of in methods.items()} for arm in others}
main_job = rows(FIGURES / "main_job.csv")
runs = main_job.drop_duplicates("seed")
larger = rows(STUDY / "larger_closed_loop" / "runs.csv").set_index("arm")
phases = rows(STUDY / "phases" / "runs.csv").dropna(subset=["kl", "nats"])
phases = phases.drop_duplicates(["arm", "seed", "kl"])
phases.loc[(phases.arm == "normal") & (phases.pairs == 64), "arm"] = "64 pairs"  # those of another task
failures = rows(FIGURES / "failures.csv")
taught = by_task(rows(STUDY / "references" / "runs.csv"), "improvement")["bandits"]
untaught = by_task(rows(STUDY / "preferences" / "runs.csv"), "improvement")["jobs"]


def main_job_table() -> str:
    names = {"supporter-alone": "the supporter's rules alone", "unseen": "unseen bandits: the model tuned, beside it untuned"}  # fmt: skip
    lines = ["| beside | runs | score: the run, beside it | difference | in words |", "|---|---|---|---|---|"]
    for control, own in main_job.groupby("control", sort=False):
        found = mean_interval(own.ahead)
        words = found.in_words("ahead", "behind", "not told apart")
        row = f"| {names[str(control)]} | {len(own)} | {own.run.mean():.3f}, {own.beside.mean():.3f} | {found:+.4f} | {words} |"
        lines.append(row.replace("-0.", "−0."))
    return "\n".join(lines)


def main_job_counts() -> str:
    """How single runs come out, each with an interval over its bandits."""
    told = []
    for control, own in main_job.groupby("control", sort=False):
        ahead, behind = ((sign * own.ahead > own.half_width).sum() for sign in (1, -1))
        who = "the tuned model is" if control == "unseen" else "the run is"
        told.append(
            f"{who} ahead in {ahead}, behind in {behind} and not told apart in {len(own) - ahead - behind}"
        )
    return "; ".join(told)


def methods_table() -> str:
    """Of README."""
    tasks = [TASKS.get(task, task) for task in methods]
    lines = [f"| method | {' | '.join(tasks)} | mean |", "|---" * (len(tasks) + 2) + "|"]
    for arm, name in METHODS.items():
        means = [of[arm].mean() for of in methods.values()]
        cells = [f"{mean:.0f} %" for mean in (*means, np.mean(means))]
        lines.append(f"| {name} | {' | '.join(cells)} |".replace("-", "−"))
    return "\n".join(lines)


def told(of: dict[str, pd.Series]) -> str:
    """On how many tasks the differences are told from chance."""
    words = [mean_interval(values).in_words("ahead", "behind", "") for values in of.values()]
    up, down = words.count("ahead"), words.count("behind")
    return f"ahead on {up}, behind on {down} and not told apart on {len(words) - up - down} of {len(words)} tasks"


def over_tasks(of: dict[str, pd.Series], seeds: int = 0) -> str:
    """The mean over tasks, or those of so many seeds at least, of the seeds that have all."""
    return points(
        pd.concat({t: own for t, own in of.items() if len(own) >= seeds}, axis=1).dropna().mean(axis=1)
    )


def better_table() -> str:
    lines = [
        "| task (seeds) | better control | ATLAS | less it, points | less the model untuned, points |",
        "|---" * 5 + "|",
    ]
    for task, of in methods.items():
        name, both = better[task], of[["atlas", better[task]]].mean()
        cells = [
            f"{TASKS.get(task, task)} ({len(ahead[task])})", f"{CONTROLS[name]} {both[name]:.0f} %", f"{both['atlas']:.0f} %",
            points(ahead[task]), points(less["search"][task]),
        ]  # fmt: skip
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def trainings_of(study: str) -> pd.DataFrame:
    ends = rows(STUDY / study / "endpoints.csv")
    ends["arm"] = ends.run.str.extract(r"-(\w+)-s\d+$")
    return ends[ends.phases > 0]


def tuned_table(study: str, names: dict[str, str], found: pd.DataFrame) -> str:
    """Means of each arm's trainings and searches."""
    trainings = trainings_of(study)
    lines = ["| arm | K̂L | known lines, nats | improvement |", "|---" * 4 + "|"]
    for arm, name in names.items():
        own = trainings[trainings.arm == arm]
        went = f"{own.kl.mean():.2f} | {own.nats.mean():.0f}" if len(own) else "– | –"
        if arm == "base":
            went = f"– | {trainings.nats_base.mean():.0f}"
        lines.append(f"| {name} | {went} | {found[arm].mean():.1f} % |".replace("-", "−"))
    return "\n".join(lines)


def moved(study: str) -> str:
    trainings = trainings_of(study)
    own = trainings[trainings.arm == "gated"]
    return f"{own.promoted.sum():.0f} of {own.phases.sum():.0f} phases"


def page() -> str:
    far = phases[(phases.arm == "base model") | (phases.kl > 0.1)]
    nats = {arm: f"−{-own.nats.mean():.0f}" for arm, own in far.groupby("arm")}
    failed = failures[failures.reason != "runs"]
    first = failed.sort_values("count", ascending=False).reason.tolist()[:2]
    each = ", ".join(
        f"{over_tasks(of)} ({METHODS[arm].split(',')[0]})" for arm, of in less.items() if arm != "search"
    )
    return f"""\
# Results

*Improvement* is the share of the starting program's loss that is gone on held-out tasks; *points* are percentage points. Square
brackets are 95 % intervals. [Terms](concepts.md). `docs/results.py` makes every number and picture of the CSV files beside them.

## 1. What is asked

Does a small model that is tuned while it searches find better programs than one that is not, or none?

- **A budget** counts programs that were executed and new, those that teach included. Smoke runs do not count.
- **What is replicated** is the run, or training and search together. Intervals are over runs, of a single run over its
  bandits; tasks are fixed.
- **The result** is the held-out score, on tasks that no program met.
- **Starts** hide their constants in formulas. Levels differ between machines: tasks are drawn under a secret of each ([why](faq.md)).

Sections 6 and 7 were measured at commit `a6b99836` or before, where plans are: without smoke runs, and in ATLAS the model alone wrote.

## 2. The main job

`make run`: six bandits that differ in drift and noise. Four writers share 440 evaluations; after the second round the model learns the chosen answers alone, without a gate. Controls: the supporter's rules alone, as many evaluations; a round by the model alone, tuned and not, on twelve unseen bandits.

![A line per run and control: its difference with its 95 % interval](figures/main_job.png)

{main_job_table()}

Of single runs {main_job_counts()} ([data](figures/main_job.csv)). Mean improvement is {100 * runs.improvement.mean():.1f} %, {100 * runs.improvement.min():.1f} to {100 * runs.improvement.max():.1f}; {100 * runs.valid.mean():.0f} % of programs ran. These are {len(runs)} runs, each under a secret of its own (`atlas study main_job`).

## 3. Methods

Five tasks, 240 evaluations a run, five seeds (on Burgers three). In ATLAS four writers share the evaluations: the model, tuned once, rules, random numbers, random expressions. Beside it each alone.

![Improvement of every run by method and task, controls without a model shaded](figures/methods.png)

*A dot is a run, a bar the mean with its interval, one below −100 % counts as −100 % ([study](study/methods/README.md)).*

{better_table()}

Beside the better control, known afterwards only, ATLAS is {told(ahead)}; in the mean {over_tasks(ahead)} points, without Burgers {over_tasks(ahead, 5)}. No one control is the better one everywhere: less each of them, on all tasks, ATLAS has {each}.

EvoTune and EvoDPO were last compared at commit `a6b99836`: not told from the model untuned.

## 4. The model alone

After two phases that a supporter taught, the model searches by itself on six bandits that no phase saw, 288 evaluations.

![Improvement of every search by arm](study/references/improvement.png)

*A dot is a training with its search, {len(taught)} an arm ([study](study/references/README.md)).*

*Both*: preferences, and a term for chosen answers. *K̂L*: how far tuning went from the base model. *Known lines*: section 6.

{tuned_table("references", TAUGHT, taught)}

Chosen answers alone, which went further, less both (gated): **{points(paired(taught, "supervised", "gated"))}** points. A gated reference less a fixed one: {points(paired(taught, "gated", "fixed"))}; the gate moved it in {moved("references")}. Gated less the model untuned: {points(paired(taught, "gated", "base"))}. Chosen answers alone less their teacher: {points(paired(taught, "supervised", "teacher"))}.

Earlier: [tours, circles and bins](study/closed_loop/README.md), and [while they are tuned](study/learned/README.md).

## 5. Where nobody teaches

Jobs on one machine: three phases on the model's own answers, then a search of 256 evaluations.

![Improvement of every search by arm](study/preferences/improvement.png)

*A dot is a training with its search, {len(untaught)} an arm ([study](study/preferences/README.md)).*

{tuned_table("preferences", UNTAUGHT, untaught)}

Preferences less the chosen answers alone: {points(paired(untaught, "dpo", "supervised"))} points. A gated reference less a fixed one: {points(paired(untaught, "gated", "dpo"))}; the gate moved it in {moved("preferences")}. Chosen answers less the model untuned: {points(paired(untaught, "supervised", "base"))}; less random expressions {points(paired(untaught, "supervised", "expressions"))}.

## 6. What drives it

How near one phase brings five known good lines, against how far the policy went.

![Log-probability of known good lines against the divergence of the policy](figures/nats.png)

*A dot is a phase ([study](study/phases/README.md)).*

The untuned model gives them {nats["base model"]} nats, a taught phase of 256 pairs and 0.4 nats per token {nats["normal"]}, one of 0.8 {nats["to 0.8 nats"]}. Without the supervised term it is {nats["without the supervised term"]}. Trained on its own answers the model moves away: {nats["the agent's answers"]}.

## 7. Size and validity

Of {failures["count"].sum()} edits of one main job {failed["count"].sum()} failed, most often for {first[0]} and {first[1]} ([data](figures/failures.csv)). A smoke run of five calls finds nearly all.

A [model of eleven times the size](study/larger_closed_loop/README.md), trained on code, writes {100 * larger.valid_share["base"]:.0f} % valid programs untaught and {100 * larger.valid_share["gated"]:.0f} % taught. Its improvement is {100 * larger.improvement["base"]:.0f} % untaught, {100 * larger.improvement["gated"]:.0f} % taught: one training, one search.

## 8. What was not shown

- That a model finds what nobody taught: most improving programs repeat an edit of the training with other numbers.
- That ATLAS beats every search without a model.
- That a reference that moves adds anything: at about equal room it is not told from one that stays.
- That preferences do: chosen answers alone did better in section 4, with more room.
- That tuning adds to a run of four writers.
"""


# The pictures.


def save(figure: Figure, name: str) -> None:
    figure.savefig(FIGURES / name, metadata={"Software": None})


def dots(axes: Axes, values: pd.Series, row: int, color: str) -> None:
    own = values.dropna().to_numpy()
    axes.plot(own, np.full(len(own), row), ".", color=color, alpha=0.5)
    if len(own) > 1:
        axes.errorbar(own.mean(), row, xerr=half_width(own), fmt="|", color=color, capsize=3)


def draw_main_job() -> None:
    figure = Figure(figsize=(TEXT_WIDTH, 1.2 + 0.12 * main_job.seed.nunique()))
    groups = list(main_job.groupby("control", sort=False))
    for axes, (control, own) in zip(figure.subplots(1, len(groups), sharey=True), groups, strict=True):
        at = np.arange(len(own))
        axes.errorbar(own.ahead, at, xerr=own.half_width, fmt="s", markersize=3, capsize=2, color=COLORS[0])
        pooled = mean_interval(own.ahead)
        look = {"fmt": "D", "markersize": 5, "capsize": 3, "color": COLORS[1]}
        axes.errorbar(pooled.mean, len(own), xerr=pooled.half_width, **look)
        axes.axvline(0, color="#000000", linewidth=0.8)
        names = [*(f"seed {seed}" for seed in own.seed), "pooled"]
        axes.locator_params(axis="x", nbins=5)
        title = "tuned less untuned, unseen" if control == "unseen" else f"the run less {control}"
        axes.set(title=title, yticks=range(len(names)), yticklabels=names, ylim=(len(names) - 0.4, -0.6))
    figure.supxlabel("difference in held-out score; right of 0 the run is ahead", size="medium")
    save(figure, "main_job.png")


def draw_methods() -> None:
    figure = Figure(figsize=(TEXT_WIDTH, 2.2))
    panels = figure.subplots(1, len(methods), sharey=True)
    for axes, (task, of) in zip(panels, methods.items(), strict=True):
        axes.axhspan(
            len(METHODS) - len(CONTROLS) - 0.5, len(METHODS) - 0.5, color=MUTED, alpha=0.15, linewidth=0
        )
        for row, arm in enumerate(METHODS):
            dots(axes, of[arm], row, COLORS[row])
        axes.set_title(f"{TASKS.get(task, task)}\nbetter: {CONTROLS[better[task]]}", size=7.5)
        axes.set_ylim(len(METHODS) - 0.5, -0.5)
    panels[0].set_yticks(range(len(METHODS)), METHODS.values())
    figure.supxlabel("held-out improvement, %", size="medium")
    save(figure, "methods.png")


def draw_nats() -> None:
    figure = Figure(figsize=(TEXT_WIDTH, 3.0))
    axes = figure.subplots()
    for number, (arm, label) in enumerate(PHASES.items()):
        own = phases[phases.arm == arm]
        axes.plot(
            own.kl, own.nats, "osDv^P"[number], color=COLORS[number], markersize=4, alpha=0.8, label=label
        )
    base = phases[phases.arm == "base model"].nats.mean()
    axes.axhline(base, color=MUTED, linestyle="--", label="base model")
    axes.set(xlabel="how far the policy went: K̂L, nats per token", ylabel="known good lines, nats")
    axes.legend(loc="lower left", bbox_to_anchor=(1.0, 0.1))
    save(figure, "nats.png")


def with_table(page: str, table: str) -> str:
    """The page with this table in the place of the one that has the same first line."""
    head = table.splitlines()[0]
    found, count = re.subn(rf"{re.escape(head)}\n(\|.*\n)+", lambda _: table + "\n", page)
    if count != 1:
        raise ValueError(f"the page needs one table that begins with {head}")
    return found


if __name__ == "__main__":
    (DOCS / "results.md").write_text(page(), encoding="utf-8")
    readme = DOCS.parent / "README.md"
    readme.write_text(with_table(readme.read_text(encoding="utf-8"), methods_table()), encoding="utf-8")
    with plot_style():
        for draw in (draw_main_job, draw_methods, draw_nats):
            draw()
