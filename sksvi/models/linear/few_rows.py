"""A linear model of one latent at its mode, in the space of its rows where these are few: exact leave-one-out.

Newton's method on the latents (Rasmussen and Williams 2006, algorithm 3.1), to where nothing is left of its step: what
a row pulls is multiplied by the variance of its latent without it, which may be many times the one with it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from scipy.linalg import blas

from sksvi.algorithms.line_search import backtrack
from sksvi.models.linear.row_matrices import LEAST_CURVATURE, inverse_of, variances

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


class RowTrial(NamedTuple):
    """A trial of Newton's method: pulls and latents (n,), and the log posterior density, nats."""

    pull: Array
    latents: Array
    density: float


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

    def look(pull: Array, f: Array) -> RowTrial:
        return RowTrial(pull, f, float(weight @ terms(f)[0] - 0.5 * pull @ (f - mean)))

    now, at, settled = look(np.zeros(len(mean)), mean), start, False
    for _ in range(STEPS):
        _, slope, curve = terms(at)
        curvature = weight * np.maximum(-curve, LEAST_CURVATURE)
        root = np.sqrt(curvature)
        inverse = inverse_of(prior, root)
        target = root * blas.dsymv(1.0, inverse, root * (at - mean) + weight * slope / root, lower=1)
        step = target - now.pull
        along = prior @ step

        def attempt(share: float, now: RowTrial = now, step: Array = step, along: Array = along) -> RowTrial:
            return look(now.pull + share * step, now.latents + share * along)

        found = backtrack(attempt, lambda there, best=now.density: there.density > best, HALVINGS)  # type: ignore[misc]
        now = now if found is None else found.trial
        left = np.square(weight * terms(now.latents)[1] - now.pull) / curvature
        settled = bool(0.5 * left @ (1.0 - np.diagonal(inverse)) < tol)
        if settled or (found is None and at is not start):
            break
        at = now.latents
    gamma = weight * np.maximum(-terms(now.latents)[2], LEAST_CURVATURE)
    return RowMode(now.pull, now.latents, variances(prior, gamma, np.ones(len(mean))), settled)
