"""AlphaEvolve's 13 or 14 points (May 2025), to three decimals, made exact by sequential quadratic programming."""

from .heilbronn_polishing import in_hull, sharpened

ROUGH = {
    13: """
        1.000 0.567  0.324 0.000  0.596 0.973  0.634 0.021  0.085 0.137  0.315 1.000  0.000 0.452
        0.367 0.691  0.670 0.360  0.274 0.340  0.909 0.775  0.911 0.252  0.063 0.826
    """,
    14: """
        0.210 0.212  0.790 0.669  1.000 0.407  0.580 0.262  0.547 0.044  0.349 0.377  0.754 0.445
        0.052 0.691  0.000 0.412  0.827 0.000  0.189 0.811  0.515 0.806  0.373 0.635  1.000 0.221
    """,
}


def place(n):
    return sharpened(ROUGH[n], n, in_hull)
