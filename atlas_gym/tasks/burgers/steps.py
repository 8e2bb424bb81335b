"""The training step on the compiled kernel, and the choice of who does the arithmetic."""

import ctypes
import logging
from functools import cache

import numpy as np

from atlas_gym.tasks.burgers.build import BuildError, find_or_build
from atlas_gym.tasks.burgers.network import Points
from atlas_gym.tasks.burgers.params import BurgersParams

_log = logging.getLogger(__name__)

_INT, _POINTER = ctypes.c_int, ctypes.c_void_p
_SIGNATURES = {
    "burgers_tanh": [_INT, *[_POINTER] * 2],
    "burgers_residual_forward": [_POINTER, _INT, _INT, *[_POINTER] * 7],
    "burgers_residual_backward": [_POINTER, _INT, _INT, *[_POINTER] * 8],
    "burgers_value_forward": [_POINTER, _INT, _INT, *[_POINTER] * 4],
    "burgers_value_backward": [_POINTER, _INT, _INT, *[_POINTER] * 5],
}


@cache
def load_kernel(width: int) -> ctypes.CDLL:
    """Load the kernel for a width, building it first if need be; BuildError if that is impossible."""
    if width % 8 != 0:
        raise BuildError(f"the compiled kernel takes widths that are multiples of 8, not {width}")
    try:
        library = ctypes.CDLL(str(find_or_build(width)))
    except OSError as error:
        raise BuildError(f"the built kernel cannot be loaded: {error}") from error
    for name, arguments in _SIGNATURES.items():
        getattr(library, name).argtypes = arguments
        getattr(library, name).restype = None
    library.burgers_tape.argtypes = [_INT, _INT, _INT]
    library.burgers_tape.restype = ctypes.c_size_t
    return library


def _at(array: np.ndarray) -> int:
    return array.ctypes.data


class CompiledStep:
    """Forward and backward pass of one network at fixed points; BuildError if the kernel cannot be had for it.

    The arrays it hands to the kernel are its own, or kept alive by it: addresses are taken once.
    """

    def __init__(self, params: BurgersParams, points: Points):
        width, layers = params.hidden_width, params.hidden_layers
        self._kernel = load_kernel(width)
        if layers > self._kernel.burgers_max_layers():
            raise BuildError(
                f"the compiled kernel takes at most {self._kernel.burgers_max_layers()} hidden layers"
            )
        self._points = points
        n, n_edge = points.n_residual, points.n_edge
        self._tape = np.empty(self._kernel.burgers_tape(layers, 3, n))
        self._edge_tape = np.empty(self._kernel.burgers_tape(layers, 1, n_edge))
        self.vectors = np.empty(3 * n + n_edge)
        self._edge = self.vectors[n : n + n_edge]
        self._theta = np.empty(width * (3 + (width + 1) * (layers - 1) + 1) + 1)
        self._gradient = np.empty_like(self._theta)
        residual, edge = _at(self.vectors), _at(self._edge)
        u, u_x = edge + 8 * n_edge, edge + 8 * (n_edge + n)
        theta, tape, edge_tape = _at(self._theta), _at(self._tape), _at(self._edge_tape)
        inputs = (theta, layers, n, _at(points.x), _at(points.t), _at(points.nu), tape)
        edge_inputs = (theta, layers, n_edge, _at(points.edge_x), _at(points.edge_t), edge_tape)
        self._forward = (*inputs, u, u_x, residual)
        self._backward = (*inputs, u, u_x)
        self._edge_forward = (*edge_inputs, edge)
        self._edge_backward = edge_inputs

    def put(self, array: np.ndarray) -> np.ndarray:
        """The array itself: parameters are kept where numpy has them."""
        return array

    def forward(self, thetas: np.ndarray) -> np.ndarray:
        """The residuals, the errors at initial and boundary points, then u and u_x at the collocation points.

        One contiguous row of 3 n_residual + n_edge for the network's row of parameters, valid until the next call.
        """
        self._theta[:] = thetas
        self._kernel.burgers_residual_forward(*self._forward)
        self._kernel.burgers_value_forward(*self._edge_forward)
        self._edge -= self._points.edge_u
        return self.vectors[None]

    def backward(self, adjoints: np.ndarray) -> np.ndarray:
        """The gradient with respect to theta of adjoints . (residuals, errors), where forward was last called.

        `adjoints` is a contiguous float64 row of n_residual + n_edge; the result, a row, is valid until the next call.
        """
        n, gradient = self._points.n_residual, _at(self._gradient)
        self._gradient[:] = 0.0
        self._kernel.burgers_residual_backward(*self._backward, _at(adjoints), gradient)
        self._kernel.burgers_value_backward(*self._edge_backward, _at(adjoints) + 8 * n, gradient)
        return self._gradient[None]


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
