"""Pareto smoothing of importance ratios, whose tail's shape k-hat says how good a proposal is.

The largest ratios are taken as a generalised Pareto distribution: Vehtari, Simpson, Gelman, Yao and Gabry 2024
(JMLR 25:72), with the estimate of Zhang and Stephens 2009.
"""

from __future__ import annotations

import numpy as np

Array = np.ndarray

#: Draws below which the tail has too few of them (`LEAST_TAIL`) for its shape to be estimated.
LEAST_DRAWS, LEAST_TAIL = 25, 5
#: Log ratios that differ by less, nats, are those of a q that is the posterior: the rest is rounding.
SAME = 1e-6
#: Zhang and Stephens' choices, and what k is shrunk to: 1/2, with the weight of ten draws.
PRIOR_SHAPES, PRIOR_DRAWS, PRIOR_K = 3.0, 10.0, 0.5


def smoothed(log_ratios: Array) -> tuple[Array, float]:
    """Log ratios with the largest ones as the fitted distribution has them, (S,), and k-hat.

    No ratio becomes larger than the largest one. k-hat is -inf where all ratios are the same, and inf where so few
    draws have all the weight that no tail is left.

    Parameters
    ----------
    log_ratios : ndarray of shape (S,)
    """
    top = float(log_ratios.max())
    if top - float(log_ratios.min()) < SAME:
        return log_ratios, -np.inf
    x, n = log_ratios - top, len(log_ratios)
    order = np.argsort(x, kind="stable")
    cut = max(x[order[-int(np.ceil(min(n / 5.0, 3.0 * n**0.5))) - 1]], float(np.log(np.finfo(float).tiny)))
    tail = order[x[order] > cut]
    if len(tail) < LEAST_TAIL:
        return log_ratios, np.inf
    k, scale = pareto_fit(np.exp(x[tail]) - np.exp(cut))
    at = (np.arange(len(tail)) + 0.5) / len(tail)
    x[tail] = np.minimum(np.log(np.exp(cut) + pareto_quantiles(at, k, scale)), 0.0)
    return x + top, k


def pareto_fit(excess: Array) -> tuple[float, float]:
    """Shape k and scale of a generalised Pareto distribution: posterior means, k shrunk towards 1/2.

    Parameters
    ----------
    excess : ndarray of shape (n,)
        Positive, in increasing order.
    """
    n = len(excess)
    m = 30 + int(n**0.5)
    theta = 1.0 / excess[-1] + (1.0 - np.sqrt(m / (np.arange(m) + 0.5))) / (PRIOR_SHAPES * excess[int(n / 4 + 0.5) - 1])
    shape = np.log1p(-theta[:, None] * excess).mean(axis=1)
    profile = n * (np.log(-theta / shape) - shape - 1.0)
    weight = np.exp(profile - profile.max())
    weight /= weight.sum()
    weight[weight < 10.0 * np.finfo(float).eps] = 0.0
    best = float(theta @ weight / weight.sum())
    k = float(np.log1p(-best * excess).mean())
    return (n * k + PRIOR_DRAWS * PRIOR_K) / (n + PRIOR_DRAWS), -k / best


def pareto_quantiles(p: Array, k: float, scale: float) -> Array:
    """Quantiles of a generalised Pareto distribution."""
    down = -np.log1p(-p)
    return scale * (down if abs(k) < np.finfo(float).eps else np.expm1(k * down) / k)
