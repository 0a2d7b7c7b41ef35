"""A linear model of one latent at its mode, in the space of its rows where these are few: exact leave-one-out.

Newton's method on the latents (Rasmussen and Williams 2006, algorithm 3.1), to where nothing is left of its step: what
a row pulls is multiplied by the variance of its latent without it, which may be many times the one with it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from scipy.linalg import blas

from sksvi.models.linear.cavity import LEAST_CURVATURE, inverse_of, variances

Array = np.ndarray
#: Log density of each row and its two derivatives in its latent, at latents (n,).
Terms = Callable[[Array], tuple[Array, Array, Array]]

#: Newton steps at most, and halvings of one.
STEPS, HALVINGS = 100, 30


class RowMode(NamedTuple):
    """The mode: pull (n,) of each row on its latent, so that the weights are Xᵀ pull / δ; latents (n,).

    variance (n,): of a latent without its row, however often that counts. settled: whether nothing is left to gain.
    """

    pull: Array
    latents: Array
    variance: Array
    settled: bool


def row_mode(terms: Terms, prior: Array, mean: Array, weight: Array, start: Array, tol: float) -> RowMode:
    """The mode of f ~ N(mean, prior) given rows of these terms, to `tol` nats.

    Parameters
    ----------
    terms : callable
        Log-concave.
    prior : ndarray of shape (n, n)
    mean, weight, start : ndarray of shape (n,)
        Of the prior, how often rows count, and latents to begin at.
    tol : float
    """
    pull, f, at, settled = np.zeros(len(mean)), mean, start, False
    best = float(weight @ terms(mean)[0])
    for _ in range(STEPS):
        _, slope, curve = terms(at)
        curvature = weight * np.maximum(-curve, LEAST_CURVATURE)
        root = np.sqrt(curvature)
        inverse = inverse_of(prior, root)
        target = root * blas.dsymv(1.0, inverse, root * (at - mean) + weight * slope / root, lower=1)
        pull, f, best, moved = _ascended(terms, prior, mean, weight, pull, f, best, target)
        left = np.square(weight * terms(f)[1] - pull) / curvature
        settled = bool(0.5 * left @ (1.0 - np.diagonal(inverse)) < tol)
        if settled or not (moved or at is start):
            break
        at = f
    gamma = weight * np.maximum(-terms(f)[2], LEAST_CURVATURE)
    return RowMode(pull, f, variances(prior, gamma, np.ones(len(f))), settled)


def _ascended(
    terms: Terms, prior: Array, mean: Array, weight: Array, pull: Array, f: Array, best: float, target: Array
) -> tuple[Array, Array, float, bool]:
    """The farthest of halved steps towards a target that raises the log posterior density, and whether there is one."""
    step = target - pull
    along = prior @ step
    for halving in range(HALVINGS):
        share = 0.5**halving
        there, latents = pull + share * step, f + share * along
        value = float(weight @ terms(latents)[0] - 0.5 * there @ (latents - mean))
        if value > best:
            return there, latents, value, True
    return pull, f, best, False
