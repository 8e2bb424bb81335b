"""The network's parameters and values: 2 -> width x layers -> 1, tanh between.

Parameters are one flat float64 vector, layer after layer: W0 (width, 2), b0, then W (width, width), b for
each further hidden layer, then w_out (width), b_out; matrices by rows. Every backend reads this layout.
"""

import numpy as np


def layer_sizes(width: int, layers: int) -> list[tuple[int, int]]:
    """(outputs, inputs) of each linear map."""
    return [(width, 2), *[(width, width)] * (layers - 1), (1, width)]


def draw_parameters(width: int, layers: int, rng: np.random.Generator) -> np.ndarray:
    """Glorot-uniform weights and zero biases."""
    parts = []
    for rows, columns in layer_sizes(width, layers):
        bound = np.sqrt(6.0 / (rows + columns))
        parts += [rng.uniform(-bound, bound, rows * columns), np.zeros(rows)]
    return np.concatenate(parts)


def matrices(theta: np.ndarray, width: int, layers: int) -> list[tuple[np.ndarray, np.ndarray]]:
    """The (weight, bias) of each linear map, as views of theta."""
    views, at = [], 0
    for rows, columns in layer_sizes(width, layers):
        end = at + rows * columns
        views.append((theta[at:end].reshape(rows, columns), theta[end : end + rows]))
        at = end + rows
    return views


def values(theta: np.ndarray, width: int, layers: int, x: np.ndarray, t: np.ndarray) -> np.ndarray:
    """u on the grid t x x, shape (len(t), len(x)).

    By einsum: a product by BLAS is rounded differently with another number of threads, and so would be a score.
    """
    times, places = np.meshgrid(t, x, indexing="ij")
    h = np.stack([places.ravel(), times.ravel()], axis=1)
    *hidden, (weight, bias) = matrices(theta, width, layers)
    for hidden_weight, hidden_bias in hidden:
        h = np.tanh(np.einsum("pi,oi->po", h, hidden_weight) + hidden_bias)
    return (np.einsum("pi,oi->po", h, weight) + bias).reshape(times.shape)
