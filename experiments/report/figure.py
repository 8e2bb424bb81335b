"""The figure of a run: best score per round, with its phases."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from experiments.report.style import COLORS, KEPT, MUTED, PROMOTED, TEXT_WIDTH, plot_style
from trainers.store.store import RunStore


def best_so_far(store: RunStore) -> tuple[list[int], list[float]]:
    """Rounds 0, 1, ... and the best score found up to each."""
    best: dict[int, float] = {}
    for record in store.candidates("WHERE c.score IS NOT NULL"):
        best[record.round] = max(record.score, best.get(record.round, record.score))
    rounds, scores, top = sorted(best), [], float("-inf")
    for round_ in rounds:
        top = max(top, best[round_])
        scores.append(top)
    return rounds, scores


def draw_run(store: RunStore, path: Path, title: str) -> None:
    """Write best score per round as a PNG, phases as lines (solid: promoted, dotted: kept)."""
    rounds, scores = best_so_far(store)
    records = list(store.candidates("WHERE c.score IS NOT NULL AND c.round > 0 AND c.duplicate_of IS NULL"))
    with plot_style():
        figure = Figure(figsize=(TEXT_WIDTH, 3.8))
        axes = figure.subplots()
        axes.plot([r.round for r in records], [r.score for r in records], ".", markersize=3, alpha=0.4, color=MUTED,
                  label="candidates")  # fmt: skip
        axes.step(rounds, scores, where="post", color=COLORS[0], linewidth=2, label="best so far")
        for phase in store.phases():
            if not phase.get("skipped"):
                _mark_phase(axes, phase)
        gain = scores[-1] - scores[0]
        if gain > 0:
            axes.set_ylim(scores[0] - gain, scores[-1] + 0.1 * gain)
        axes.set(xlabel="round", ylabel="score on the training seeds (higher is better)", title=title)
        axes.legend(loc="lower right")
        figure.savefig(path)


def _mark_phase(axes: Axes, phase: Mapping[str, Any]) -> None:
    promoted = phase["promoted"]
    axes.axvline(
        phase["round"] + 0.5, color=PROMOTED if promoted else KEPT, linestyle="-" if promoted else ":"
    )
    text = f"phase {phase['phase']}\n{'promoted' if promoted else 'kept'}"
    axes.annotate(text, (phase["round"] + 0.6, 0.02), xycoords=("data", "axes fraction"), fontsize=6)
