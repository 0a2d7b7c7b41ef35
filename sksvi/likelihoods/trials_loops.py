"""The compiled loop of `trials`."""

from __future__ import annotations

import math

import numpy as np

from sksvi._runtime.compiled import entry, njit

Array = np.ndarray

#: A sum beyond is scaled down.
LARGE = 1e200


@entry("log_none (n) f", "successes (n) f", "trials (n) f", "a (n) f", "b (n) f", "out (n) f")
@njit()
def sums_of_terms(log_none: Array, successes: Array, trials: Array, a: Array, b: Array, out: Array) -> None:
    """P(at most so many successes) of beta-binomials by the ratio of each term to the last, all flat, into out.

    Parameters
    ----------
    log_none : ndarray
        Log probability of no success.
    successes, trials, a, b, out : ndarray
        Of the same shape; a and b are the shapes of the beta distribution.
    """
    for i in range(len(out)):
        term = total = 1.0
        scale = log_none[i]
        for k in range(int(successes[i])):
            left = trials[i] - k
            term *= left * (a[i] + k) / ((k + 1.0) * (b[i] + left - 1.0))
            total += term
            if total > LARGE:
                total /= LARGE
                term /= LARGE
                scale += math.log(LARGE)
        out[i] = math.exp(min(scale + math.log(total), 0.0))
