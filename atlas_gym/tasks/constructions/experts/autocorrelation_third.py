"""A soft maximum of the autoconvolution lowered by L-BFGS, ever harder, heights of both signs, on 50 to 400 steps."""

import numpy as np
from scipy.optimize import minimize


def heights():
    rng = np.random.default_rng(2)
    best, least = None, np.inf
    for _ in range(4):
        h = 1 + rng.standard_normal(50)
        for steps in (50, 100, 200, 400):
            h = np.repeat(h, steps // len(h))
            for sharpness in (100, 300, 1000, 3000, 10000):
                h = improved(h, sharpness)
        if peak(h) < least:
            best, least = h, peak(h)
    return np.round(best / np.abs(best).max() * 2**40)


def peak(h):
    return 2 * len(h) * np.convolve(h, h).max() / h.sum() ** 2


def improved(h, sharpness):
    size = 4 * len(h)

    def loss(f):
        total = f.sum()
        spectrum = np.fft.rfft(f / total, size)
        g = 2 * len(h) * np.fft.irfft(spectrum**2, size)[: 2 * len(h) - 1]
        weights = np.exp(sharpness * (g - g.max()))
        soft = g.max() + np.log(weights.sum()) / sharpness
        weights /= weights.sum()
        back = 4 * len(h) * np.fft.irfft(np.conj(spectrum) * np.fft.rfft(weights, size), size)[: len(h)]
        return soft, (back - (back * f).sum() / total) / total

    return minimize(loss, h / h.mean(), jac=True, method="L-BFGS-B", options={"maxiter": 400}).x
