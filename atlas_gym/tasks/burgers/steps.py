"""The training step on the compiled kernel, and the choice of who does the arithmetic."""

import ctypes
import logging
from collections.abc import Sequence
from functools import cache

import numpy as np

from atlas_gym.tasks.burgers.build import BuildError, find_or_build
from atlas_gym.tasks.burgers.network import Points, layer_sizes
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


class CompiledStep:
    """Forward and backward pass of several networks, each at fixed points of its own, equally many.

    Addresses of arrays are taken once; it keeps the arrays alive. BuildError if there is no kernel for such networks.
    """

    def __init__(self, params: BurgersParams, points: Sequence[Points]):
        width, layers = params.hidden_width, params.hidden_layers
        self._kernel = load_kernel(width)
        if layers > self._kernel.burgers_max_layers():
            raise BuildError(
                f"the compiled kernel takes at most {self._kernel.burgers_max_layers()} hidden layers"
            )
        self._points = points
        count, n, n_edge = len(points), points[0].n_residual, points[0].n_edge
        self._tapes = np.empty((count, self._kernel.burgers_tape(layers, 3, n)))
        self._edge_tapes = np.empty((count, self._kernel.burgers_tape(layers, 1, n_edge)))
        self._vectors = np.empty((count, 3 * n + n_edge))
        self._edges = self._vectors[:, n : n + n_edge]
        self._edge_u = np.stack([own.edge_u for own in points])
        self._thetas = np.empty((count, sum(rows * (columns + 1) for rows, columns in layer_sizes(params))))
        self._gradients = np.empty_like(self._thetas)
        self._forward, self._backward = [], []
        for k, own in enumerate(points):
            ours = (self._thetas, self._vectors, self._edges, self._tapes, self._edge_tapes)
            theta, residual, edge, tape, edge_tape = (array[k].ctypes.data for array in ours)
            theirs = (own.x, own.t, own.nu, own.edge_x, own.edge_t)
            x, t, nu, edge_x, edge_t = (array.ctypes.data for array in theirs)
            u, u_x = edge + 8 * n_edge, edge + 8 * (n_edge + n)
            inputs = (theta, layers, n, x, t, nu, tape)
            edges = (theta, layers, n_edge, edge_x, edge_t, edge_tape)
            self._forward.append(((*inputs, u, u_x, residual), (*edges, edge)))
            self._backward.append(((*inputs, u, u_x), edges))

    def put(self, array: np.ndarray) -> np.ndarray:
        """The array itself: parameters are kept where numpy has them."""
        return array

    def forward(self, thetas: np.ndarray) -> np.ndarray:
        """The residuals, the errors at initial and boundary points, then u and u_x at the collocation points.

        A contiguous row of 3 n_residual + n_edge for each network's row of parameters, valid until the next call.
        """
        self._thetas[:] = thetas
        for inside, edge in self._forward:
            self._kernel.burgers_residual_forward(*inside)
            self._kernel.burgers_value_forward(*edge)
        self._edges -= self._edge_u
        return self._vectors

    def backward(self, adjoints: np.ndarray) -> np.ndarray:
        """The gradients with respect to theta of adjoints . (residuals, errors), where forward was last called.

        `adjoints` are contiguous float64 rows of n_residual + n_edge; the result's rows are valid until the next call.
        """
        n = self._points[0].n_residual
        self._gradients[:] = 0.0
        for (inside, edge), adjoint, gradient in zip(self._backward, adjoints, self._gradients, strict=True):
            at, to = adjoint.ctypes.data, gradient.ctypes.data
            self._kernel.burgers_residual_backward(*inside, at, to)
            self._kernel.burgers_value_backward(*edge, at + 8 * n, to)
        return self._gradients


def stacks(params: BurgersParams) -> bool:
    """Whether torch does the arithmetic."""
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
