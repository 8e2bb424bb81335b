"""Chooses who does the arithmetic of a training step."""

import logging
from functools import cache
from typing import Protocol

import numpy as np

from atlas_gym.tasks.burgers.build import BuildError
from atlas_gym.tasks.burgers.compiled import CompiledStep, load_kernel
from atlas_gym.tasks.burgers.params import BurgersParams
from atlas_gym.tasks.burgers.points import Points

_log = logging.getLogger(__name__)


class Step(Protocol):
    """Forward and backward pass of one network at fixed points."""

    def forward(self, theta: np.ndarray) -> np.ndarray:
        """The residuals, the errors at the initial and at the boundary points, then u and u_x at the
        collocation points: one contiguous vector of 3 n_residual + n_edge, valid until the next call."""

    def backward(self, adjoint: np.ndarray) -> np.ndarray:
        """The gradient with respect to theta of adjoint . (residuals, errors), where forward was last called.

        `adjoint` is a contiguous float64 vector of n_residual + n_edge; the result is valid until the next
        call.
        """


def make_step(params: BurgersParams, points: Points) -> Step:
    """Build the step of the backend that `params` asks for.

    Raises:
        BuildError: If the backend is `compiled` and the kernel cannot be built.
        ImportError: If torch is needed and missing.
    """
    width, layers = params.hidden_width, params.hidden_layers
    if not stacks(params):
        return CompiledStep(points, width, layers)
    from atlas_gym.tasks.burgers.torch_step import TorchStep

    return TorchStep(points, width, layers)


def stacks(params: BurgersParams) -> bool:
    """Whether torch does the arithmetic, which then takes all networks at once."""
    if params.backend == "auto" and params.device == "cpu":
        return not kernel_available(params.hidden_width, params.hidden_layers)
    return params.backend != "compiled"


@cache
def kernel_available(width: int = 32, layers: int = 4) -> bool:
    """Whether the compiled kernel can be had; the first time it cannot, the reason is logged."""
    try:
        kernel = load_kernel(width)
    except BuildError as error:
        _log.warning("Burgers trains in plain torch, several times slower: %s", error)
        return False
    return layers <= kernel.burgers_max_layers()
