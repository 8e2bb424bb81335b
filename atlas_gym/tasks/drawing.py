"""Small drawing helpers for `render`; matplotlib is imported only when an image is asked for."""

from typing import Any

import numpy as np
from gymnasium.error import DependencyNotInstalled

from atlas_gym.evaluation.result import Evaluation

_BLOCKS = " ▁▂▃▄▅▆▇█"


def blocks(shares: np.ndarray) -> str:
    """A row of block characters, one per value in [0, 1]; values outside are clipped."""
    levels = np.clip(np.ceil(shares * (len(_BLOCKS) - 1)), 0, len(_BLOCKS) - 1)
    return "".join(_BLOCKS[int(level)] for level in levels)


def as_text(title: str, evaluation: Evaluation | None, floor: float) -> str:
    """An evaluation as text, its instances as blocks between `floor` and perfect; None before the first."""
    if evaluation is None:
        return f"{title}: no program evaluated yet\n"
    if not evaluation.ok:
        return f"{title}: {evaluation.status}\n{evaluation.detail}\n"
    shares = 1.0 - evaluation.traces["scores"] / floor
    return f"{title}: ok, score {evaluation.score:.4f}\ninstances |{blocks(shares)}| of perfect\n"


def figure(title: str, rows: int, columns: int) -> tuple[Any, list[Any]]:
    """A canvas of 640 × 480 pixels with rows · columns axes, apart from matplotlib's global state.

    Raises:
        DependencyNotInstalled: If matplotlib is missing.
    """
    try:
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure
    except ModuleNotFoundError as error:
        raise DependencyNotInstalled(
            'render_mode="rgb_array" draws with matplotlib: pip install "atlas-gym[render]". '
            'render_mode="ansi" needs nothing.'
        ) from error
    drawing = Figure(figsize=(6.4, 4.8), dpi=100, layout="constrained")
    drawing.suptitle(title)
    axes = drawing.subplots(rows, columns, squeeze=False)
    return FigureCanvasAgg(drawing), list(axes.flat)


def to_image(canvas: Any) -> np.ndarray:
    """The pixels of a canvas, uint8 (height, width, 3)."""
    canvas.draw()
    return np.asarray(canvas.buffer_rgba())[..., :3].copy()
