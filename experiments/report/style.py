"""One look for every figure: small, readable in a paper's column, told apart without colour vision.

Use as `with plot_style():` around both drawing and saving.
"""

from contextlib import AbstractContextManager
from typing import Any

from cycler import cycler
from matplotlib import style

from atlas_gym.text import clean

TEXT_WIDTH = 6.9
"""Inches: the text of a paper."""

COLORS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#56B4E9", "#E69F00", "#000000", "#999999")
"""Okabe and Ito's palette, its darkest colours first."""

PROMOTED, KEPT, MUTED = "#009E73", "#D55E00", "#999999"
DOTS = (MUTED, "#E69F00", "#56B4E9", "#CC79A7")
"""Of the agent, and of the other writers."""

_STYLE: dict[Any, Any] = {
    "font.size": 8, "axes.titlesize": 9, "axes.labelsize": 8, "legend.fontsize": 7, "xtick.labelsize": 7,
    "ytick.labelsize": 7, "axes.spines.top": False, "axes.spines.right": False, "axes.grid": True,
    "grid.linewidth": 0.4, "grid.alpha": 0.5, "lines.linewidth": 1.4, "legend.frameon": False,
    "axes.unicode_minus": False,  # as in the text beside them
    "figure.constrained_layout.use": True, "axes.prop_cycle": cycler(color=COLORS),
    "savefig.dpi": 200, "figure.dpi": 150, "pdf.fonttype": 42,  # TrueType: journals refuse Type 3 fonts
}  # fmt: skip


def plot_style() -> AbstractContextManager[None]:
    """matplotlib's settings for the block's figures, whatever the user's are."""
    return style.context(["default", _STYLE])


def no_formula(text: str) -> str:
    """Somebody's text for a figure: it may hold what is no formula, or no character."""
    return clean(text, 200).replace("$", r"\$")
