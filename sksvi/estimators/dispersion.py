"""Counts that vary more than a likelihood without a dispersion lets them: how much more, and whether by chance.

The squares of Pearson residuals have a variance of 2 plus what counts are skewed by, 1/mean of a Poisson, which
drowns all else where counts are small. What is left of a square when its regression on the residual is taken off,
(y - mean)² - y of a Poisson, has the variance 2 mean² at any mean, and an estimated mean moves it by its leverage
alone (Dean 1992, Journal of the American Statistical Association 87).
"""

from __future__ import annotations

from dataclasses import astuple, dataclass
from functools import reduce
from typing import Any

import numpy as np
from scipy.special import gammaincc, ndtr

from sksvi._runtime import parallel
from sksvi.predictive import Predictive

Array = np.ndarray

#: Probability by which chance may bring the excess of a warning, and factor by which intervals are then too narrow.
CHANCE, NARROWER = 1e-3, 1.0 / 0.9
#: The likelihood of counts that vary more than those of a Poisson.
OF_COUNTS = 'likelihood="negative-binomial"'


def may_vary_more(likelihood: Any, y: Array) -> bool:
    """Whether y can vary more than a likelihood with no dispersion of its own lets it.

    Parameters
    ----------
    likelihood : Likelihood
    y : ndarray of shape (n,), or (n, 2) successes and failures
    """
    return bool(likelihood.traits.discrete and not likelihood.learned and likelihood.overdispersible(y))


def has_excess(likelihood: Any, y: Array) -> bool:
    """Whether the likelihood implements `excess`, the moments of squared residuals."""
    return likelihood.excess(y[:1], likelihood.mean(np.zeros(1))) is not None


@dataclass(frozen=True)
class Dispersion:
    """Sums over rows from which the dispersion follows, each row in proportion to what it says of the latents.

    excess, square, cube: squares of residuals beyond what the likelihood lets them be, with the second and third moment
    that chance gives it. information: variance of y less the part that the fit has followed.
    """

    excess: float = 0.0
    square: float = 0.0
    cube: float = 0.0
    information: float = 0.0

    def merged(self, other: Dispersion) -> Dispersion:
        """Sums over the rows of both."""
        return Dispersion(*(a + b for a, b in zip(astuple(self), astuple(other), strict=True)))

    @classmethod
    def of(
        cls, likelihood: Any, y: Array, f: tuple[Array, Array], leverage: Array, weight: Array | None, rates: bool
    ) -> Dispersion:
        """Dispersion sums of some rows.

        Parameters
        ----------
        likelihood : Likelihood
            With `excess`.
        y : ndarray of shape (n,), or (n, 2) successes and failures
        f : tuple of two ndarrays of shape (n,)
            Mean and variance of the latents.
        leverage : ndarray of shape (n,)
            Coefficients that each row determines, with its weight.
        weight : ndarray of shape (n,), or None
            Of a row that stands for k rows; where `rates`, what each count was divided by.
        rates : bool
            Whether y are counts divided by their weights.
        """
        mean = np.asarray(Predictive(likelihood, *f).mean(), float)
        weight = np.ones(len(mean)) if weight is None else np.asarray(weight, float)
        if rates:
            y, mean, weight = y * weight, mean * weight, np.ones(len(mean))
        excess, square, cube, variance = likelihood.excess(np.asarray(y, float), mean)
        safe = np.where(variance > 0, variance, 1.0)
        # A fitted mean takes its leverage from the square of a residual, of one trial nothing.
        followed = leverage * square / (2.0 * safe)
        # A weight of k is k rows that are alike; one that is no whole number is a factor of a single row.
        single = weight % 1 > 0
        second, third = (np.where(single, weight**power, weight) for power in (2, 3))
        return cls(
            float(weight @ excess + followed.sum()),
            float(second @ square),
            float(third @ cube),
            float(weight @ variance - leverage @ variance),
        )

    @property
    def factor(self) -> float:
        """Ratio of the variance of y to that under the likelihood, on average; 1 where the rows have no information."""
        return 1.0 + self.excess / self.information if self.information > 0 else 1.0

    @property
    def chance(self) -> float:
        """Probability of so much excess, or more, under the likelihood.

        By the gamma distribution of these moments, or the normal one where that has more above: the gamma's mass of
        rare counts that did not come lies at its lower end, where theirs is spread.
        """
        if not self.square > 0:
            return 1.0
        deviation = np.sqrt(self.square)
        z, skewness = self.excess / deviation, self.cube / deviation**3
        normal = float(ndtr(-z))
        if not skewness > 0:
            return normal
        shape = 4.0 / skewness**2
        return max(normal, float(gammaincc(shape, max(shape + np.sqrt(shape) * z, 0.0))))

    @property
    def matters(self) -> bool:
        """Whether the excess is significant, and large enough to make intervals noticeably too narrow."""
        return self.factor >= NARROWER**2 and self.chance < CHANCE


def dispersion(model: Any, q: Any, expect: Any, threads: int, rates: bool, data: Any) -> Dispersion:
    """Dispersion of the rows of a linear model at q, in one pass over them, under a likelihood that has `excess`.

    Parameters
    ----------
    model : LinearModel
        Without learned parameters of its likelihood, and without noise per row.
    q : dict
        With a block "weights".
    expect : Expectation
        Without draws.
    threads : int
    rates : bool
        Whether y are counts divided by their weights.
    data : Table
    """

    def one(rows: Any) -> Dispersion:
        batch = model.batch(data, rows)
        terms, part = model.terms_at(q, batch, expect, None, None), batch.data
        latents = part.on(terms.linear), terms.variance
        return Dispersion.of(model.likelihood, part.y, latents, -2.0 * terms.gamma * terms.variance, part.weight, rates)

    chunks = model.chunks(slice(0, len(data)), data)
    return reduce(Dispersion.merged, parallel.in_order(one, chunks, threads), Dispersion())


def varies_more(likelihood: Any, name: Any, found: Dispersion) -> str:
    """Warning about y that varies more than its likelihood allows; `name`: what the user calls the likelihood."""
    wider = float(np.sqrt(found.factor))
    remedy = (
        "give each row an effect of its own, GMERegressor(noise=True), or the rows that share one a column in its "
        "groups"
        if likelihood.traits.paired
        else f"say {OF_COUNTS}, or give each row an effect of its own, GMERegressor(noise=True)"
    )
    return (
        f"y varies {found.factor:.3g} times as much as likelihood={name!r} lets it: 90 % intervals of coefficients "
        f"have {1.0 / wider:.0%} of the width that they should have ({wider:.3g} times as wide is right). If no column "
        f"is missing that explains it, {remedy}."
    )
