"""Compiled conditional draws of loadings and noise variances, factors and means integrated out.

A change δ of one loading changes C = Ψ + ΛΛᵀ by a matrix of rank two, that of a noise variance by one of rank one. So
along either number ξ = -½ (ν log D - N/D) + const with D = 1 + d₁δ + d₂δ² and N = n₁δ + n₂δ², by the matrix determinant
lemma and Woodbury's identity. Slices are drawn of the number's logarithm (Neal 2003).
"""

from __future__ import annotations

import numpy as np

from sksvi._runtime.compiled import entry, njit
from sksvi.models.numbers import mixed, uniform

Array = np.ndarray

#: Least loading, and most trial points of a slice, each of which shrinks it by about half.
LEAST, MAX_SHRINKS = 1e-300, 200
#: Prior of a noise variance: flat in the standard deviation (Gelman 2006).
NOISE_POWER = 0.5
#: Width of a slice's first bracket of a logarithm, in standard deviations or so.
WIDTH = 3.0
_RIGHT = 0.5 * np.pi

compiled = njit()


@compiled
def _density(log_x: float, x0: float, slopes: Array, freedom: float, power: float, rate: float) -> float:
    """Log density of log x, up to a constant; slopes: d₁, d₂, n₁, n₂."""
    x = np.exp(log_x)
    change = x - x0
    divisor = 1.0 + change * (slopes[0] + change * slopes[1])
    if not divisor > 0.0:
        return -np.inf
    ratio = change * (slopes[2] + change * slopes[3]) / divisor
    return power * log_x - rate * x - 0.5 * (freedom * np.log(divisor) - ratio)


@compiled
def _sliced(
    x0: float, least: float, width: float, slopes: Array, freedom: float, power: float, rate: float, state: Array
) -> float:
    """A draw of x >= `least` from a slice of the density of log x; `width`: of its first bracket."""
    here, end = np.log(x0), np.log(least)
    level = _density(here, x0, slopes, freedom, power, rate) + np.log(uniform(state))
    low = here - width * uniform(state)
    high = low + width
    while low > end and _density(low, x0, slopes, freedom, power, rate) > level:
        low -= width
    while _density(high, x0, slopes, freedom, power, rate) > level:
        high += width
    low = max(low, end)
    for _ in range(MAX_SHRINKS):
        new = low + (high - low) * uniform(state)
        if _density(new, x0, slopes, freedom, power, rate) >= level:
            return max(np.exp(new), least)
        low, high = (new, high) if new < here else (low, new)
    return x0


@compiled
def _along(k: int, d: int, at: tuple[Array, ...], u: Array, v: Array, slopes: Array) -> tuple[float, float]:
    """Put the polynomials of loading (k, d) into `slopes`, B⁻¹e_k into `u` and B⁻¹λ_d into `v`.

    Returned are (C⁻¹)_dd and (C⁻¹SC⁻¹)_dd, which are those of the noise variance of column d.
    """
    loadings, noise, scatter, inverse, cross, square = at
    w, size = 1.0 / noise[d], len(u)
    own, vh, uh, vfv, ufv, ufu = 0.0, 0.0, 0.0, 0.0, 0.0, 0.0
    for i in range(size):
        u[i], v[i] = inverse[k, i], 0.0
        for j in range(size):
            v[i] += inverse[i, j] * loadings[j, d]
    for i in range(size):
        fv, fu = 0.0, 0.0
        for j in range(size):
            fv += square[i, j] * v[j]
            fu += square[i, j] * u[j]
        own, vh, uh = own + v[i] * loadings[i, d], vh + v[i] * cross[i, d], uh + u[i] * cross[i, d]
        vfv, ufv, ufu = vfv + v[i] * fv, ufv + u[i] * fv, ufu + u[i] * fu
    both, p, t, tl = w * v[k], w - w * w * own, w * w * (scatter[d, d] - 2.0 * vh + vfv), w * (uh - ufv)
    slopes[0], slopes[1] = 2.0 * both, p * u[k] + both * both
    slopes[2], slopes[3] = 2.0 * tl, u[k] * t + 2.0 * both * tl - p * ufu
    return p, t


@compiled
def _move(k: int, d: int, change: float, at: tuple[Array, ...], u: Array, v: Array, slopes: Array) -> None:
    """Change loading (k, d), and what depends on it."""
    loadings, noise, scatter, inverse, cross, square = at
    w = 1.0 / noise[d]
    step, both = w * change, w * v[k]
    p = (slopes[1] - both * both) / u[k]
    divisor = 1.0 + change * (slopes[0] + change * slopes[1])
    m11, m12, m22 = change * change * p / divisor, step * (1.0 + both * change) / divisor, -step * step * u[k] / divisor
    for i in range(len(u)):
        for j in range(len(u)):
            inverse[i, j] -= m11 * u[i] * u[j] + m12 * (u[i] * v[j] + v[i] * u[j]) + m22 * v[i] * v[j]
    for i in range(len(u)):
        square[k, i] += step * cross[i, d]
        square[i, k] += step * cross[i, d]
    square[k, k] += step * step * scatter[d, d]
    for e in range(len(noise)):
        cross[k, e] += step * scatter[d, e]
    loadings[k, d] += change


@compiled
def _move_noise(d: int, new: float, at: tuple[Array, ...], v: Array) -> None:
    """Change the noise variance of column d, and what depends on it; v: B⁻¹λ_d."""
    loadings, noise, scatter, inverse, cross, square = at
    step, own = 1.0 / new - 1.0 / noise[d], 0.0
    for i in range(len(v)):
        own += v[i] * loadings[i, d]
    for i in range(len(v)):
        for j in range(len(v)):
            inverse[i, j] -= step * v[i] * v[j] / (1.0 + step * own)
            square[i, j] += step * (loadings[i, d] * cross[j, d] + cross[i, d] * loadings[j, d])
            square[i, j] += step * step * scatter[d, d] * loadings[i, d] * loadings[j, d]
    for i in range(len(v)):
        for e in range(len(noise)):
            cross[i, e] += step * loadings[i, d] * scatter[d, e]
    noise[d] = new


@entry(
    "loadings (K, D) f",
    "noise (D) f",
    "floor (P) f",
    "scatter (D, D) f",
    "widths (K, D) f",
    "prior (2) f",
    "inverse (K, K) f",
    "cross (K, D) f",
    "square (K, K) f",
)
@compiled
def entries(
    loadings: Array,
    noise: Array,
    floor: Array,
    scatter: Array,
    freedom: float,
    widths: Array,
    prior: Array,
    inverse: Array,
    cross: Array,
    square: Array,
    seed: int,
) -> None:
    """Draw every loading given all else, in place, and the noise variance of its column.

    Parameters
    ----------
    floor : ndarray of shape (D,) or (0,)
        Least noise variances; empty: they are not drawn.
    widths : ndarray of shape (K, D)
        Of the first brackets of log loadings.
    prior : ndarray of shape (2,)
        Shape and rate of the loadings.
    inverse, cross, square : ndarray
        B⁻¹ = (I + LΨ⁻¹Lᵀ)⁻¹, LΨ⁻¹S and LΨ⁻¹SΨ⁻¹Lᵀ, which follow every change.
    """
    K, D = loadings.shape
    u, v, slopes, state = np.empty(K), np.empty(K), np.zeros(4), np.empty(1, np.uint64)
    at = (loadings, noise, scatter, inverse, cross, square)
    state[0] = mixed(np.uint64(seed))
    for d in range(D):
        for k in range(K):
            _along(k, d, at, u, v, slopes)
            old = loadings[k, d]
            new = _sliced(old, LEAST, widths[k, d], slopes, freedom, prior[0], prior[1], state)
            _move(k, d, new - old, at, u, v, slopes)
            loadings[k, d] = new
        if len(floor):
            p, t = _along(0, d, at, u, v, slopes)
            slopes[0], slopes[1], slopes[2], slopes[3] = p, 0.0, t, 0.0
            width = WIDTH / np.sqrt(freedom)
            _move_noise(d, _sliced(noise[d], floor[d], width, slopes, freedom, NOISE_POWER, 0.0, state), at, v)


@compiled
def _turn_density(turn: float, radius: Array, angle: Array, power: float, rate: float) -> float:
    """Log density of two factors after a turn."""
    total = 0.0
    for d in range(len(angle)):
        x, y = radius[d] * np.cos(angle[d] + turn), radius[d] * np.sin(angle[d] + turn)
        x, y = max(x, LEAST), max(y, LEAST)
        total += power * (np.log(x) + np.log(y)) - rate * (x + y)
    return total


@compiled
def _turn(radius: Array, angle: Array, low: float, high: float, power: float, rate: float, state: Array) -> float:
    """A draw of an angle from the slice of a turn between its ends; 0 is where it begins."""
    level = _turn_density(0.0, radius, angle, power, rate) + np.log(uniform(state))
    for _ in range(MAX_SHRINKS):
        tried = low + (high - low) * uniform(state)
        if _turn_density(tried, radius, angle, power, rate) >= level:
            return tried
        low, high = (tried, high) if tried < 0.0 else (low, tried)
    return 0.0


@entry("loadings (K, D) f", "prior (2) f")
@compiled
def turns(loadings: Array, prior: Array, seed: int) -> None:
    """Turn each factor with another one, in place, among the angles at which no loading is negative."""
    K, D = loadings.shape
    radius, angle, state = np.empty(D), np.empty(D), np.empty(1, np.uint64)
    state[0] = mixed(np.uint64(seed))
    for j in range(K if K > 1 else 0):
        k = (j + 1 + int((K - 1) * uniform(state))) % K
        low, high = -_RIGHT, _RIGHT
        for d in range(D):
            radius[d] = np.hypot(loadings[j, d], loadings[k, d])
            angle[d] = np.arctan2(loadings[k, d], loadings[j, d])
            low, high = max(low, -angle[d]), min(high, _RIGHT - angle[d])
        turn = _turn(radius, angle, low, high, prior[0] - 1.0, prior[1], state)
        for d in range(D):
            loadings[j, d] = max(radius[d] * np.cos(angle[d] + turn), LEAST)
            loadings[k, d] = max(radius[d] * np.sin(angle[d] + turn), LEAST)
