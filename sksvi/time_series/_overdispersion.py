"""Noise that a likelihood does not have, and that a level which moves took in."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from sksvi.estimators.dispersion import OF_COUNTS, may_vary_more
from sksvi.families.gaussian.chain import ChainGaussian
from sksvi.models.base import Table

Array = np.ndarray

#: Standard errors by which residuals alternate, and by which more noise would raise the bound, before a user is told.
ALTERNATES, RAISES = 3.5, 2.5


def noise_taken_in(likelihood: Any, name: Any, learned: bool, block: ChainGaussian, data: Table) -> Iterator[str]:
    """Counts that vary more than a Poisson lets them, under a learned variance that grew until they did not.

    Steps that follow such noise go back at once: residuals of one step alternate, and noise of its own beside f, one
    draw for each point, would raise the bound.

    Parameters
    ----------
    likelihood : Likelihood
    name : str or Likelihood
        What the user calls it.
    learned : bool
        Whether a variance, or a damping, was learned.
    block : ChainGaussian
    data : Table
    """
    if likelihood.traits.paired or not learned or not may_vary_more(likelihood, data.y):
        return
    along = alternating(block)
    if along is None or along[1] < ALTERNATES or worth_of_noise(block) < RAISES:
        return
    yield (
        f"y varies more from one point to the next than likelihood={name!r} lets it, and the learned variances took it "
        f"in: what is off at one point is off the other way at the next (autocorrelation {-along[0]:.2f} of the "
        f'residuals), and forecasts fan out. Of counts say {OF_COUNTS}, of measured values "gaussian" or "student-t"; '
        "or give the season that they have."
    )


def alternating(block: ChainGaussian) -> tuple[float, float] | None:
    """Minus the autocorrelation of one-step residuals at lag 1, and in standard errors; None: too few of them.

    Residuals of the messages as they are, which a sweep predicts; the first ones, of the wide prior, are left out.
    """
    mean, variance = block.ahead()
    weights, first = np.maximum(block.weights, 0.0), len(block.chain.noise)
    spread = np.sqrt(weights * (1.0 + weights * variance))
    informative = spread > 0.0
    informative[:first] = False
    off = np.where(informative, (block.linear - weights * mean) / np.where(informative, spread, 1.0), 0.0)
    pairs, square = int(np.sum(informative[1:] & informative[:-1])), float(off @ off)
    if not pairs or not square > 0.0:
        return None
    share = -float(off[1:] @ off[:-1]) / square
    return share, share * float(np.sqrt(pairs))


def worth_of_noise(block: ChainGaussian) -> float:
    """Slope of the evidence of the messages in the variance of independent noise beside f, in standard errors."""
    weights, dual = block.weights, block.dual
    information = weights * (1.0 - weights * block.variance)
    spread = float(np.sqrt(0.5 * (information @ information)))
    return 0.5 * float(dual @ dual - information.sum()) / spread if spread > 0.0 else 0.0
