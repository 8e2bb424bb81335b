"""How the hidden parameter θ moves on the unit sphere.

Eq. 17 is θ_{t+1} = (θ_t + δ_t) / ‖θ_t + δ_t‖. With δ_t tangent to the sphere at θ_t and of length tan φ, the
step is the rotation θ_{t+1} = cos φ · θ_t + sin φ · v_t, v_t = δ_t/‖δ_t‖, and its length (the chord) is 2
sin(φ/2) whatever the direction. So φ = 2 asin(V / 2T) spends exactly V/T of the variation budget in every
step.
"""

import numpy as np

from atlas_gym.tasks.bandit.params import BanditParams


def chord_angle(chord: float) -> float:
    """Angle between two unit vectors whose difference has length `chord`, in [0, 2]."""
    return 2.0 * np.arcsin(chord / 2.0)


def theta_paths(params: BanditParams, rngs: list[np.random.Generator]) -> np.ndarray:
    """Draw θ_0 … θ_{T−1} for each generator.

    Returns:
        Unit vectors, float64, shape (T, len(rngs), d).
    """
    starts = _unit(np.stack([rng.standard_normal(params.dimension) for rng in rngs]))
    steps = params.horizon - 1
    if params.drift == "random_walk":
        return _walk(starts, _directions(rngs, steps, params.dimension), _every_step(params, steps))
    if params.drift == "rotation":
        return _rotation(starts, _directions(rngs, 1, params.dimension)[0], _every_step(params, steps))
    if params.drift == "jumps":
        angles = np.stack([_jump_angles(params, rng, steps) for rng in rngs], axis=1)
        return _walk(starts, _directions(rngs, steps, params.dimension), angles)
    return np.broadcast_to(starts, (params.horizon, *starts.shape))


def _every_step(params: BanditParams, steps: int) -> np.ndarray:
    return np.full((steps, 1), chord_angle(params.variation_budget / params.horizon))


def _jump_angles(params: BanditParams, rng: np.random.Generator, steps: int) -> np.ndarray:
    """Angle of every step (T − 1,): 0 but for the jumps, whose times are drawn without replacement."""
    jumps = min(round(params.variation_budget / params.jump_length), steps)
    angles = np.zeros(steps)
    angles[rng.choice(steps, size=jumps, replace=False)] = chord_angle(params.jump_length)
    return angles


def _directions(rngs: list[np.random.Generator], steps: int, dimension: int) -> np.ndarray:
    """Gaussian vectors (steps, R, d): their part tangent to the sphere has a uniformly random direction."""
    return np.stack([rng.standard_normal((steps, dimension)) for rng in rngs], axis=1)


def _walk(starts: np.ndarray, directions: np.ndarray, angles: np.ndarray) -> np.ndarray:
    """Rotate each θ by angles[t] (R or 1 values) towards the tangent part of directions[t]."""
    path = np.empty((len(directions) + 1, *starts.shape))
    path[0] = theta = starts
    cosines, sines = np.cos(angles)[..., None], np.sin(angles)[..., None]
    for t, direction in enumerate(directions):
        theta = _unit(cosines[t] * theta + sines[t] * _tangent(direction, theta))
        path[t + 1] = theta
    return path


def _rotation(starts: np.ndarray, directions: np.ndarray, angles: np.ndarray) -> np.ndarray:
    """Go round the great circle through each start in its direction."""
    turned = np.concatenate([[[0.0]], np.cumsum(angles, axis=0)])[..., None]
    return np.cos(turned) * starts + np.sin(turned) * _tangent(directions, starts)


def _tangent(vectors: np.ndarray, theta: np.ndarray) -> np.ndarray:
    return _unit(vectors - (vectors * theta).sum(-1, keepdims=True) * theta)


def _unit(vectors: np.ndarray) -> np.ndarray:
    return vectors / np.sqrt((vectors * vectors).sum(-1, keepdims=True))
