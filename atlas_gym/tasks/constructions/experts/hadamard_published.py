"""Solomon's of July 2002 (Orrick, Solomon, Dowdeswell and Smith 2003); a bit that is set stands for −1."""

import numpy as np

ROWS = [
    0x00000000,
    0x007E07FA,
    0x0187E066,
    0x054D39AC,
    0x05E1D31A,
    0x06199856,
    0x0632EB2C,
    0x07EA6CD0,
    0x08D35D4C,
    0x0A4DE61C,
    0x0AAB3386,
    0x0B24BD4A,
    0x0BD69AB0,
    0x0C98F4AA,
    0x0D354E86,
    0x10ACDACC,
    0x1133B49C,
    0x11D8AF06,
    0x1295699A,
    0x130B5E2A,
    0x1646D586,
    0x16F53660,
    0x18607836,
    0x1B79C1E0,
    0x1C43AACA,
    0x1CAF8D30,
    0x1D1E7350,
    0x1F8007FC,
    0x1FFE000E,
]


def matrix(n):
    return np.array([[1 - 2 * (row >> column & 1) for column in range(n)] for row in ROWS])
