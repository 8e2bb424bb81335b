"""AlphaEvolve's eleven points (May 2025), rounded to three decimals, made exact by sequential quadratic programming."""

from .heilbronn_polishing import in_triangle, sharpened

ROUGH = """
    0.856 0.000  0.296 0.000  0.082 0.853  0.244 0.378  0.507 0.337  0.000 0.277
    0.082 0.065  0.296 0.704  0.000 0.723  0.507 0.156  0.856 0.144
"""


def place(n):
    return sharpened(ROUGH, n, in_triangle)
