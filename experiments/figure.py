"""The figure of a run: best score per round, with its phases."""

from pathlib import Path

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt

from trainers.store import RunStore


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
    figure, axes = plt.subplots(figsize=(7, 4), dpi=150)
    records = list(store.candidates("WHERE c.score IS NOT NULL AND c.round > 0 AND c.duplicate_of IS NULL"))
    floor = 2 * scores[0] - scores[-1] if len(scores) > 1 else None
    axes.scatter(
        [r.round for r in records],
        [r.score for r in records],
        s=5,
        alpha=0.35,
        color="tab:gray",
        label="candidates",
    )
    axes.step(rounds, scores, where="post", color="tab:blue", linewidth=2, label="best so far")
    for phase in store.phases():
        if phase.get("skipped"):
            continue
        promoted = phase["promoted"]
        axes.axvline(
            phase["round"] + 0.5,
            color="tab:green" if promoted else "tab:red",
            linestyle="-" if promoted else ":",
        )
        axes.annotate(
            f"phase {phase['phase']}\n{'promoted' if promoted else 'kept'}", (phase["round"] + 0.6, 0.02),
            xycoords=("data", "axes fraction"), fontsize=7,
        )  # fmt: skip
    if floor is not None and floor < scores[0]:
        axes.set_ylim(floor, scores[-1] + 0.1 * (scores[-1] - scores[0]))
    axes.set(xlabel="round", ylabel="score on the training seeds (higher is better)", title=title)
    axes.legend(loc="lower right", fontsize=8)
    figure.tight_layout()
    figure.savefig(path)
    plt.close(figure)
