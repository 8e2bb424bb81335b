"""The quotient of norms, its maximum softened, raised by L-BFGS on 50 to 800 steps from random starts."""

import numpy as np
from scipy.optimize import minimize


def heights():
    rng = np.random.default_rng(1)
    best, most = None, 0.0
    for _ in range(3):
        h = rng.random(50) ** 3
        for steps in (50, 100, 200, 400, 800):
            h = np.repeat(h, steps // len(h)) * (1 + 0.1 * rng.random(steps))
            for sharpness in (100, 1000, 10000):
                h = improved(h, sharpness)
        if quotient(h) > most:
            best, most = h, quotient(h)
    return np.round(best / best.max() * 2**40)


def quotient(h):
    y = np.concatenate([[0], np.convolve(h, h), [0]])
    return (y[:-1] ** 2 + y[:-1] * y[1:] + y[1:] ** 2).sum() / (3 * y.sum() * y.max())


def improved(h, sharpness):
    n, size = len(h), 4 * len(h)

    def loss(root):
        f = root**2
        f = f / f.sum()
        spectrum = np.fft.rfft(f, size)
        g = np.fft.irfft(spectrum**2, size)[: 2 * n - 1]  # sums to 1
        y = np.concatenate([[0], g, [0]])
        squares = (y[:-1] ** 2 + y[:-1] * y[1:] + y[1:] ** 2).sum() / 3
        scaled = g / g.max()
        weights = np.exp(sharpness * (scaled - 1))
        peak = g.max() * (1 + np.log(weights.sum()) / sharpness)
        by_g = (4 * g + y[:-2] + y[2:]) / 3 / squares - weights / weights.sum() / peak
        back = np.fft.irfft(np.conj(spectrum) * np.fft.rfft(by_g, size), size)[:n] * 2
        slope = (back - (back * f).sum()) / (root**2).sum() * 2 * root
        return np.log(peak) - np.log(squares), -slope

    root = np.sqrt(h / h.mean()) + 1e-3
    return minimize(loss, root, jac=True, method="L-BFGS-B", options={"maxiter": 400}).x ** 2
