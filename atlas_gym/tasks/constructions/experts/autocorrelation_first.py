"""A soft maximum of the autoconvolution lowered by L-BFGS, ever harder, on 50, 100, 200 and 400 steps."""

import numpy as np
from scipy.optimize import minimize


def heights():
    rng = np.random.default_rng(0)
    best, least = None, np.inf
    for _ in range(3):
        h = rng.random(50) + 0.2
        for steps in (50, 100, 200, 400):
            h = np.repeat(h, steps // len(h))
            for sharpness in (100, 300, 1000, 3000, 10000):
                h = improved(h, sharpness)
        if peak(h) < least:
            best, least = h, peak(h)
    return np.round(best / best.max() * 2**40)


def peak(h):
    return 2 * len(h) * np.convolve(h, h).max() / h.sum() ** 2


def improved(h, sharpness):
    size = 4 * len(h)

    def loss(root):
        f = root**2
        f = f / f.sum()
        spectrum = np.fft.rfft(f, size)
        g = 2 * len(h) * np.fft.irfft(spectrum**2, size)[: 2 * len(h) - 1]
        weights = np.exp(sharpness * (g - g.max()))
        total = weights.sum()
        weights /= total
        back = np.fft.irfft(np.conj(spectrum) * np.fft.rfft(weights, size), size)[: len(h)]
        slope = 4 * len(h) * back
        slope = (slope - (slope * f).sum()) / (root**2).sum() * 2 * root
        return g.max() + np.log(total) / sharpness, slope

    root = np.sqrt(h / h.mean()) + 1e-3
    return minimize(loss, root, jac=True, method="L-BFGS-B", options={"maxiter": 300}).x ** 2
