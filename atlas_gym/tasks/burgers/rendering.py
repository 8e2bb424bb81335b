"""Pictures of a Burgers evaluation: the network's solution beside the reference, the error, the training loss."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from atlas_gym.evaluation.result import Evaluation
from atlas_gym.tasks.burgers.reference import GRID_T, GRID_X

_SHADES = " .:-=+*#%@"
_ROWS, _COLUMNS = 11, 61


def draw_text(evaluation: Evaluation) -> str:
    """Metrics, and a map of the error |u - reference|: t downwards, x to the right."""
    metrics = evaluation.metrics
    named = ", ".join(f"{name} {metrics[name]:.4g}" for name in ("relative_l2", "residual", "nvl"))
    error = np.abs(evaluation.traces["u"] - evaluation.traces["reference"])
    rows = np.linspace(0, len(GRID_T) - 1, _ROWS).astype(int)
    columns = np.linspace(0, len(GRID_X) - 1, _COLUMNS).astype(int)
    levels = np.clip(error[np.ix_(rows, columns)] * len(_SHADES), 0, len(_SHADES) - 1).astype(int)
    shaded = ("".join(_SHADES[level] for level in line) for line in levels)
    lines = [f"t={GRID_T[row]:.1f} |{line}|" for row, line in zip(rows, shaded, strict=True)]
    legend = f"error of u: '{_SHADES[0]}' below 0.1, '{_SHADES[-1]}' from 0.9; x from -1 to 1"
    return "\n".join([f"ATLAS-Burgers-v0: ok, {named}", legend, *lines]) + "\n"


def draw_panels(axes: Sequence[Any], traces: Mapping[str, np.ndarray]) -> None:
    """The network's u, the reference, their difference over (t, x), and the program's loss over the epochs."""
    u, exact, loss = traces["u"], traces["reference"], traces["loss"]
    panels = ((u, "network", 1.0), (exact, "reference", 1.0), (u - exact, "difference", None))
    for axis, (values, title, bound) in zip(axes, panels, strict=False):
        bound = bound or max(float(np.abs(values).max()), 1e-12)
        picture = axis.pcolormesh(GRID_T, GRID_X, values.T, cmap="RdBu_r", vmin=-bound, vmax=bound)
        axis.figure.colorbar(picture, ax=axis)
        axis.set(title=title, xlabel="t", ylabel="x")
    axes[3].plot(loss)
    axes[3].set(title=f"loss, relative L2 {-traces['replica_scores'].mean():.4f}", xlabel="epoch")
    if (loss > 0).all():
        axes[3].set_yscale("log")
