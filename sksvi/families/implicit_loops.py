"""Compiled series of the derivative of a gamma draw in its shape."""

from __future__ import annotations

import numba
import numpy as np

from sksvi._compiled import entry

Array = np.ndarray

#: Relative size of the terms that end the series.
LAST = 1e-12


@numba.njit(cache=True, nogil=True)
def digamma(x: float) -> float:
    """ψ(x), x > 0: recurrence to 6, then the asymptotic series."""
    value = 0.0
    while x < 6.0:
        value -= 1.0 / x
        x += 1.0
    y = 1.0 / (x * x)
    tail = y * (1.0 / 12 - y * (1.0 / 120 - y * (1.0 / 252 - y * (1.0 / 240 - y * (1.0 / 132 - y * 691.0 / 32760)))))
    return value + np.log(x) - 0.5 / x - tail


@entry(
    "shape (n) f",
    "log_draw (n) f",
)
@numba.njit(cache=True, nogil=True)
def series(shape: Array, log_draw: Array) -> Array:
    """Σ t_n (ψ(a + n + 1) - log g), t_0 = 1/a, t_n = t_{n-1} g / (a + n)."""
    out = np.empty(len(shape))
    for i in range(len(shape)):
        a, log_g = shape[i], log_draw[i]
        g, psi, term = np.exp(log_g), digamma(shape[i] + 1.0), 1.0 / shape[i]
        total, n = term * (psi - log_g), 0
        while True:
            n += 1
            psi += 1.0 / (a + n)
            term *= g / (a + n)
            added = term * (psi - log_g)
            total += added
            if a + n > g and abs(added) < LAST * abs(total):
                break
        out[i] = total
    return out
