"""Small drawing helpers for `render`; matplotlib is imported only when an image is asked for."""

from collections.abc import Callable

import numpy as np
from gymnasium.error import DependencyNotInstalled

from atlas_gym.evaluation.result import Evaluation
from atlas_gym.optional import any_backend
from atlas_gym.text import clean

_BLOCKS = " ▁▂▃▄▅▆▇█"


def as_text(title: str, evaluation: Evaluation | None, floor: float) -> str:
    """An evaluation as text, its instances as blocks between `floor` and perfect; None before the first."""
    if evaluation is None:
        return f"{title}: no program evaluated yet\n"
    if not evaluation.ok:
        return f"{title}: {evaluation.status}\n{evaluation.detail}\n"
    shares = 1.0 - evaluation.traces["scores"] / floor
    levels = np.clip(np.ceil(shares * (len(_BLOCKS) - 1)), 0, len(_BLOCKS) - 1)
    row = "".join(_BLOCKS[int(level)] for level in levels)
    return f"{title}: ok, score {evaluation.score:.4f}\ninstances |{row}| of perfect\n"


def as_image(title: str, evaluation: Evaluation | None, draw: Callable[..., None]) -> np.ndarray:
    """An evaluation as an image, uint8 (480, 640, 3), as `ProgramTask.draw` draws it; None before the first.

    Raises DependencyNotInstalled if matplotlib is missing.
    """
    any_backend()
    try:  # apart from matplotlib's global state
        from matplotlib import style
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure
    except ModuleNotFoundError as error:
        raise DependencyNotInstalled(
            'render_mode="rgb_array" draws with matplotlib: pip install "atlas-gym[render]". '
            'render_mode="ansi" needs nothing.'
        ) from error
    with style.context("default"):
        drawing = Figure(figsize=(6.4, 4.8), dpi=100, layout="constrained")
        drawing.suptitle(clean(title, 200), parse_math=False)
        axes = drawing.subplots()
        canvas = FigureCanvasAgg(drawing)
        if evaluation is not None and evaluation.ok:
            axes.set_title(f"score {evaluation.score:.4f}", fontsize=9)
            draw(axes, evaluation.traces)
        elif evaluation is not None:
            axes.set_title(f"status: {evaluation.status}", fontsize=9)
        canvas.draw()
    return np.asarray(canvas.buffer_rgba())[..., :3].copy()
