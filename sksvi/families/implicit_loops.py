"""Compiled series of the derivative of a gamma draw in its shape, and V of a Dirichlet draw."""

from __future__ import annotations

import numpy as np

from sksvi._runtime.compiled import entry, njit

Array = np.ndarray

#: Relative size of the terms that end the series.
LAST = 1e-12
#: Steps of the recurrence, and terms of the series: more come of no positive number.
RECURRENCE, TERMS = 6, 100_000
#: Where x - 1/ψ'(x) is its limit and a term, to 1e-12; the difference would lose as much.
NEARLY_HALF = 1e4


@njit()
def digamma(x: float) -> float:
    """ψ(x), x > 0: recurrence to 6, then the asymptotic series; NaN below."""
    if x < 0.0:
        return np.nan
    value = 0.0
    for _ in range(RECURRENCE):
        if not x < 6.0:
            break
        value -= 1.0 / x
        x += 1.0
    y = 1.0 / (x * x)
    tail = y * (1.0 / 12 - y * (1.0 / 120 - y * (1.0 / 252 - y * (1.0 / 240 - y * (1.0 / 132 - y * 691.0 / 32760)))))
    return value + np.log(x) - 0.5 / x - tail


@njit()
def trigamma(x: float) -> float:
    """ψ'(x), x > 0: recurrence to 6, then the asymptotic series; NaN below."""
    if x < 0.0:
        return np.nan
    value = 0.0
    for _ in range(RECURRENCE):
        if not x < 6.0:
            break
        value += 1.0 / (x * x)
        x += 1.0
    y = 1.0 / (x * x)
    tail = y * (1.0 / 6 - y * (1.0 / 30 - y * (1.0 / 42 - y * (1.0 / 30 - y * (5.0 / 66 - y * 691.0 / 2730)))))
    return value + (1.0 + 0.5 / x + tail) / x


@njit()
def tetragamma(x: float) -> float:
    """ψ″(x), x > 0: recurrence to 6, then the asymptotic series; NaN below."""
    if x < 0.0:
        return np.nan
    value = 0.0
    for _ in range(RECURRENCE):
        if not x < 6.0:
            break
        value -= 2.0 / (x * x * x)
        x += 1.0
    y = 1.0 / (x * x)
    tail = y * (0.5 - y * (1.0 / 6 - y * (1.0 / 6 - y * (3.0 / 10 - y * (5.0 / 6)))))
    return value - y * (1.0 + 1.0 / x + tail)


@njit()
def slope(a: float, log_g: float, large: float) -> float:
    """∂ log g / ∂a, see `log_slope`: the series, and beyond `large` by Wilson and Hilferty.

    NaN where the series has no end.
    """
    if a > large:
        root = np.exp((log_g - np.log(a)) / 3.0)
        z = 3.0 * np.sqrt(a) * (root - 1.0 + 1.0 / (9.0 * a))
        return 1.0 / a + 3.0 * (1.0 / (9.0 * a**2) - z / (6.0 * a**1.5)) / root
    g, psi, term = np.exp(log_g), digamma(a + 1.0), 1.0 / a
    total, at = term * (psi - log_g), a
    for _ in range(TERMS):
        at += 1.0
        inverse = 1.0 / at
        psi += inverse
        term *= g * inverse
        added = term * (psi - log_g)
        total += added
        if at > g and abs(added) < LAST * abs(total):
            return total
    return np.nan


@entry("shape (n) f", "log_draw (n) f")
@njit()
def series(shape: Array, log_draw: Array, large: float) -> Array:
    """Σ t_n (ψ(a + n + 1) - log g), t_0 = 1/a, t_n = t_{n-1} g / (a + n)."""
    out = np.empty(len(shape))
    for i in range(len(shape)):
        out[i] = slope(shape[i], log_draw[i], large)
    return out


@entry("shape (n) f", "log_draw (S, n) f", "scaled (S, n) f", "weight (S, n) f")
@njit()
def moments_with_slope(shape: Array, log_draw: Array, scaled: Array, weight: Array, large: float) -> Array:
    """Per column of draws g, numbers s and weights of sum 1: E s, E g, Cov(s, p), Cov(g, p), (n, 4)."""
    S, n = log_draw.shape
    out, p, g = np.zeros((n, 4)), np.empty(S), np.empty(S)
    for i in range(n):
        mean_s, mean_g, mean_p = 0.0, 0.0, 0.0
        for j in range(S):
            p[j], g[j] = slope(shape[i], log_draw[j, i], large), np.exp(log_draw[j, i])
            mean_s += weight[j, i] * scaled[j, i]
            mean_g += weight[j, i] * g[j]
            mean_p += weight[j, i] * p[j]
        out[i, 0], out[i, 1] = mean_s, mean_g
        for j in range(S):
            off = weight[j, i] * (p[j] - mean_p)
            out[i, 2] += off * (scaled[j, i] - mean_s)
            out[i, 3] += off * (g[j] - mean_g)
    return out


@njit()
def beyond_inverse(x: float) -> float:
    """x - 1/ψ'(x), which tends to 1/2."""
    return 0.5 - 1.0 / (12.0 * x) if x > NEARLY_HALF else x - 1.0 / trigamma(x)


@entry("concentration (P, V) f", "log_gamma (P, V) f", "counts (P, V) f")
@njit()
def corrected(concentration: Array, log_gamma: Array, counts: Array, large: float) -> Array:
    """V n of Hoffman and Blei 2015, plate by plate."""
    P, V = concentration.shape
    out, inverse = np.empty((P, V)), np.empty(V)
    for p in range(P):
        own, logs, n = concentration[p], log_gamma[p], counts[p]
        largest, total, size = logs.max(), 0.0, 0.0
        for v in range(V):
            out[p, v] = np.exp(logs[v] - largest)
            total += out[p, v]
            size += own[v]
        count, summed, short = n.sum() / total, 0.0, -beyond_inverse(size)
        for v in range(V):
            inverse[v] = 1.0 / trigamma(own[v])
            out[p, v] = slope(own[v], logs[v], large) * (n[v] - out[p, v] * count) * inverse[v]
            summed += out[p, v]
            short += beyond_inverse(own[v])
        share = summed / short  # c Σ / (1 - c Σ 1/ψ'(λ_v)), c = ψ'(Σλ), of which the 1 would take all digits
        for v in range(V):
            out[p, v] += inverse[v] * share
    return out
