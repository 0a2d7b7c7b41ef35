"""Predictive distribution of y when f ~ N(m, v): moments, quantiles, densities and draws."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from numbers import Real
from typing import Any

import numpy as np
from scipy.special import logit, ndtr, ndtri

from sksvi.expectations import Quadrature
from sksvi.integrals.quadrature import expect, standard_deviation
from sksvi.likelihoods.base import Likelihood
from sksvi.likelihoods.censored import ABOVE, BELOW
from sksvi.likelihoods.continuous_quantiles import quantile_between
from sksvi.likelihoods.traits import as_float, log_normal_variance, safe_exp
from sksvi.predictive import quantiles
from sksvi.predictive.quantiles import smallest_count

# ---- checks of what is predicted from and of what is asked for
Array = np.ndarray

#: Standard deviations from either end of any link, with digits to spare.
LINKED = 1e12


def check_latents(mean: Array, variance: Array, dtype: Any, link: bool) -> None:
    """An error for the first row whose latent lies where nothing can be predicted from it.

    Parameters
    ----------
    mean : ndarray of shape (n, ...)
    variance : ndarray of the same shape, or (n, K, K)
        Of f.
    dtype : dtype
        Of what is predicted.
    link : bool
        Whether f lies behind a link, whose ends are long reached at `LINKED`.

    Raises
    ------
    ValueError
        Naming the row.
    """
    most = 0.1 * float(np.finfo(dtype).max) ** 0.5
    most = min(most, LINKED) if link else most
    good = (np.abs(mean) <= most).reshape(len(mean), -1).all(axis=1)
    good &= (np.abs(variance) <= most**2).reshape(len(mean), -1).all(axis=1)
    if not good.all():
        row = int(np.argmin(good))
        raise ValueError(
            f"the latent f of row {row} has mean {np.ravel(mean[row])[0]:.3g} and variance "
            f"{np.ravel(variance[row])[0]:.3g}, of which nothing can be predicted: X (or offset) of that row lies far "
            "outside the data of the fit."
        )


def check_number_of_samples(n: Any) -> None:
    """Raise an error unless n is a number of samples."""
    if isinstance(n, bool) or not isinstance(n, int | np.integer) or n < 1:
        raise ValueError(f"n_samples, the number of samples, must be an integer >= 1; found {n!r}.")


# ---- coverage of an interval, as users give it
def tail_of(coverage: Any) -> float:
    """Probability below an equal-tailed interval of that coverage.

    Raises
    ------
    ValueError
        If coverage is no number strictly between 0 and 1.
    """
    if not isinstance(coverage, Real) or not 0 < coverage < 1:  # type: ignore[operator]  # Real has no order in typeshed
        raise ValueError(f"coverage must lie strictly between 0 and 1; found {coverage!r}.")
    tail = 0.5 - 0.5 * float(coverage)
    if 1.0 - tail == 1.0:
        raise ValueError(f"coverage must lie strictly between 0 and 1; found {coverage!r}, which leaves nothing.")
    return tail


# ---- the distribution
#: Widths of a likelihood to the deviation of a logit over which few or many successes are told apart.
STEEP = 2.0
#: Widths in f, beside its spread, at which a distribution function is a step: the error in probability.
_STEP = 1e-7


def cdf_of(likelihood: Likelihood, y: Array, m: Array, v: Array) -> Array:
    """P(Y <= y) under f ~ N(m, v), each of shape (n,); y may lie below the support."""
    at = np.maximum(y, likelihood.support.low)
    width, sd = likelihood.cdf_width(at), np.sqrt(v)
    step = width < _STEP * sd
    out = np.empty(len(m))
    for rows, answer in ((step, _of_step), (~step, _of_slope)):
        if rows.any():
            out[rows] = answer(likelihood, y[rows], at[rows], m[rows], v[rows], width[rows])
    return out


def _among(k: Array, trials: Array) -> Array:
    """Numbers of successes of which the probability depends on f."""
    return np.clip(k, 0.0, np.maximum(trials - 1.0, 0.0))


def _of_step(likelihood: Likelihood, y: Array, at: Array, m: Array, v: Array, width: Array) -> Array:
    """Counts so large that their own noise is nothing beside that of their rate."""
    return ndtr((likelihood.cdf_centre(at) - m) / np.sqrt(v))


def _of_slope(likelihood: Likelihood, y: Array, at: Array, m: Array, v: Array, width: Array) -> Array:
    return expect(lambda f, part: (likelihood.cdf(y[part], f),), m, v, width, lambda: likelihood.cdf_centre(at))[0]


def closed_variance(likelihood: Likelihood, m: Array, v: Array) -> Array | None:
    """Closed form of Var[y] under f ~ N(m, v), of several latents that of each level's indicator; None without one."""
    if likelihood.n_latents > 1:
        p = likelihood.expected_mean(m, v)
        return None if p is None else p * (1.0 - p)
    if likelihood.traits.additive:
        return as_float(v) + likelihood.conditional_variance(m)
    if likelihood.variance_function is None:
        return None
    m, v = as_float(m), as_float(v)
    linear, square = likelihood.variance_function
    variance = linear * safe_exp(m + 0.5 * v) + log_normal_variance(m, v)
    return variance + safe_exp(2.0 * (m + v) + float(np.log(square))) if square else variance


class Predictive:
    """Distribution of y with the latent f ~ N(mean, variance) integrated out, independently for each row.

    Parameters
    ----------
    likelihood : Likelihood
        With every parameter a number.
    mean, variance : array of shape (n,), softmax (n, K)
        Of f.

    Raises
    ------
    ValueError
        If the shapes differ or a variance is negative or not finite.

    Examples
    --------
    >>> from sksvi.likelihoods import Gaussian
    >>> from sksvi.predictive import Predictive
    >>> Predictive(Gaussian(variance=3.0), [0.0], [1.0]).std()
    array([2.])
    """

    def __init__(self, likelihood: Likelihood, mean: Array, variance: Array) -> None:
        self.likelihood = likelihood
        self.latent_mean = as_float(mean)
        self.latent_variance = np.asarray(variance, dtype=self.latent_mean.dtype)
        joint = self.latent_variance.ndim == 3 and self.latent_variance.shape[:2] == self.latent_mean.shape
        if not joint and self.latent_mean.shape != self.latent_variance.shape:
            raise ValueError(
                "mean and variance of f need one shape; "
                f"found {self.latent_mean.shape} and {self.latent_variance.shape}."
            )
        # Between classes covariances may be negative.
        own = np.diagonal(self.latent_variance, axis1=1, axis2=2) if joint else self.latent_variance
        standard_deviation(own.ravel())

    def _expect(self, function: Callable[[Array], Array]) -> Array:
        return Quadrature().integrate(
            lambda f, rows: function(f), self.likelihood, self.latent_mean, self.latent_variance
        )

    def mean(self) -> Array:
        """E y, shape (n,); binomial: the proportion; softmax: the probabilities, (n, K)."""
        closed = self.likelihood.expected_mean(self.latent_mean, self.latent_variance)
        return self._expect(self.likelihood.mean) if closed is None else closed

    def variance(self) -> Array:
        """Var y, shape of `mean`: what f leaves open and the uncertainty of f."""
        closed = closed_variance(self.likelihood, self.latent_mean, self.latent_variance)
        if closed is not None:
            return closed
        centre = self.mean()
        likelihood = self.likelihood

        def spread(f: Array, rows: Any) -> Array:
            return likelihood.conditional_variance(f) + (likelihood.mean(f) - centre[rows]) ** 2

        return Quadrature().integrate(spread, likelihood, self.latent_mean, self.latent_variance)

    def std(self) -> Array:
        """Standard deviation of y, noise included, shape of `mean`."""
        return np.sqrt(self.variance())

    def log_prob(self, y: Array) -> Array:
        """log p(y) in nats, shape (n,), integrated over f (not the density at its mean)."""
        return quantiles.log_predictive(self.likelihood, y, self.latent_mean, self.latent_variance)

    def probabilities(self) -> Array:
        """P(y = k), shape (n, L), rows sum to 1, for each of the likelihood's `levels`; binomial: of one trial."""
        likelihood, m, v = self.likelihood, self.latent_mean, self.latent_variance
        if likelihood.n_latents > 1:
            return self.mean()
        if likelihood.traits.symmetric:
            # Each side on its own keeps the relative accuracy of the smaller one; one call has both.
            p = Predictive(likelihood, np.concatenate([-m, m]), np.concatenate([v, v])).mean().reshape(2, -1).T
        else:
            p = self._expect(likelihood.probabilities).T
        return p / p.sum(axis=1, keepdims=True)

    def quantile(self, q: Array | Sequence[float] | float, trials: Array | None = None) -> Array:
        """Quantiles of y, shape (n, len(q)); for discrete y the smallest value whose distribution function reaches q.

        Parameters
        ----------
        q : float or array of shape (k,)
            Probabilities strictly between 0 and 1.
        trials : ndarray of int of shape (n,), optional
            Of how many trials the successes are counted, where y is binomial; None: of one further trial.
        """
        q = np.atleast_1d(np.asarray(q, dtype=float))
        if q.ndim != 1 or not np.all((q > 0) & (q < 1)):
            raise ValueError(f"quantiles need probabilities strictly between 0 and 1; found q={q.tolist()}.")
        likelihood, m = self.likelihood, self.latent_mean
        if likelihood.n_latents > 1:
            raise ValueError(f"classes of {type(likelihood).__name__} have no order, so no quantiles.")
        if trials is not None:
            columns = [self._successes_quantile(level, trials) for level in q]
        elif likelihood.levels is not None:
            below = np.cumsum(self.probabilities(), axis=1)[:, :-1]
            columns = [likelihood.levels[(below < level).sum(axis=1)] for level in q]
        elif likelihood.traits.discrete:
            columns = [self._count_quantile(level) for level in q]
        else:
            columns = [self._continuous_quantile(level) for level in q]
        return np.stack(columns, axis=1).astype(m.dtype, copy=False)

    def interval(self, coverage: float = 0.9) -> Array:
        """Equal-tailed interval of y, shape (n, 2)."""
        tail = tail_of(coverage)
        return self.quantile([tail, 1.0 - tail])

    def sample(self, n: int, rng: np.random.Generator, trials: Array | None = None) -> Array:
        """Draws of y, shape (n_rows, n), or of the successes in so many `trials` (n_rows,)."""
        check_number_of_samples(n)
        m, sd = np.asarray(self.latent_mean, dtype=float), np.sqrt(np.asarray(self.latent_variance, dtype=float))
        f = m[:, None] + sd[:, None] * rng.standard_normal((len(m), n, *m.shape[1:]))
        return self._drawn(f, rng, trials)

    def _drawn(self, f: Array, rng: np.random.Generator, trials: Array | None) -> Array:
        """Draws of y, or of successes, one for each f (n_rows, ...)."""
        if trials is None:
            return self.likelihood.sample(f, rng)
        successes: Array = self.likelihood.outcomes(self.likelihood.sample_trials(f, trials[:, None], rng))[0]
        return successes.astype(float)

    def cdf(self, y: Array) -> Array:
        """P(Y <= y), shape (n,)."""
        return self._cdf(np.asarray(y, dtype=float), np.arange(len(self.latent_mean)))

    def cdf_steps(self, y: Array) -> tuple[Array, Array]:
        """P(Y < y) and P(Y <= y), each of shape (n,): one number twice where y is measured.

        Parameters
        ----------
        y : array of shape (n,), binomial (n, 2)
            Ordinal: positions among the levels. Binomial: of the number of successes.
        """
        likelihood, y = self.likelihood, np.asarray(y, dtype=float)
        if likelihood.n_latents > 1:
            raise ValueError(f"classes of {type(likelihood).__name__} have no order, so no distribution function.")
        if likelihood.traits.paired:
            successes, failures = likelihood.outcomes(y)
            trials = successes + failures
            rows = np.arange(len(trials))
            return self._successes(successes - 1.0, trials, rows), self._successes(successes, trials, rows)
        if likelihood.traits.censored:  # a draw between them is uniform, as of what is counted
            below, above = (self.cdf(ends) for ends in y[:, :2].T)
            kind = y[:, 2]
            return np.where(kind == BELOW, 0.0, below), np.where(kind == ABOVE, 1.0, above)
        at_most = self.cdf(y)
        if not (likelihood.traits.discrete or likelihood.traits.ordered):
            return np.where(y > likelihood.support.low, at_most, 0.0), at_most  # which may have a mass
        lowest = likelihood.support.low if likelihood.levels is None else likelihood.levels[0]
        return np.where(y > lowest, self.cdf(y - 1.0), 0.0), at_most

    def _successes(self, k: Array, trials: Array, rows: Array) -> Array:
        """P(at most k successes in so many trials) for some rows."""
        likelihood = self.likelihood
        inside = _among(k, trials)

        def at(f: Array, some: Any) -> tuple[Array]:
            successes, of = (np.broadcast_to(part[some], f.shape) for part in (inside, trials))
            return (likelihood.at_most(successes, of, f),)

        m, v = (np.asarray(part[rows], dtype=float) for part in (self.latent_mean, self.latent_variance))
        centre, width = self._fall(inside, trials)
        found = expect(at, m, v, width, lambda: centre)[0]
        return np.where(k < 0, 0.0, np.where(k >= trials, 1.0, found))

    def _fall(self, k: Array, trials: Array) -> tuple[Array, Array]:
        """Place in f where `_successes` falls from 1 to 0, and over which width: a narrow one of many trials."""
        share = (k + 0.5) / (trials + 1.0)
        steep = np.sqrt(np.maximum(trials, 1.0) * share * (1.0 - share))
        return logit(share), self.likelihood.width / np.maximum(1.0, STEEP * steep)

    def _cdf(self, y: Array, rows: Array) -> Array:
        """P(Y <= y) for some rows."""
        likelihood = self.likelihood.uncensored
        m = self.latent_mean[rows].astype(np.float64)
        v = self.latent_variance[rows].astype(np.float64)
        noise = likelihood.noise_variance
        return ndtr((y - m) / np.sqrt(v + noise)) if noise is not None else cdf_of(likelihood, y, m, v)

    def _cdf_and_density(self, y: Array, rows: Array) -> list[Array]:
        """P(Y <= y) and p(y) for some rows, y in the support."""
        likelihood = self.likelihood.uncensored
        return expect(
            lambda f, part: (likelihood.cdf(y[part], f), np.exp(likelihood.log_prob(y[part], f))),
            self.latent_mean[rows].astype(np.float64),
            self.latent_variance[rows].astype(np.float64),
            likelihood.cdf_width(y),
            lambda: likelihood.cdf_centre(y),
        )

    def _count_quantile(self, level: float) -> Array:
        """Smallest count whose distribution function reaches `level`, looked for about that of a log-normal."""
        centre, spread = self._log_normal()
        return smallest_count(self._cdf, level, np.floor(np.exp(centre + ndtri(level) * spread)))

    def _successes_quantile(self, level: float, trials: Array) -> Array:
        """Smallest number of successes whose distribution function reaches `level`."""
        trials = np.asarray(trials, dtype=float)
        guess = np.floor(trials * np.asarray(self.mean(), dtype=float))
        return smallest_count(lambda k, rows: self._successes(k, trials[rows], rows), level, guess)

    def _log_normal(self) -> tuple[Array, Array]:
        """Mean and standard deviation of the logarithm of a log-normal variable with the moments of y."""
        mean, spread = np.asarray(self.mean(), dtype=float), np.asarray(self.std(), dtype=float)
        mean = np.maximum(mean, 1e-300)
        variance = np.log1p(np.minimum(spread / mean, 1e50) ** 2)
        return np.log(mean) - 0.5 * variance, np.sqrt(variance)

    def _continuous_quantile(self, level: float) -> Array:
        """Quantile of a continuous y whose distribution moves one way with f."""
        if self.likelihood.uncensored.noise_variance is not None:
            return self.latent_mean + self.std() * ndtri(level)
        return self._between(level)

    def _between(self, level: float) -> Array:
        """Quantile inside its bracket, or the least y where that has the mass."""
        guess, low, high = self._quantile_bracket(level)
        least = self.likelihood.support.low
        rows = np.flatnonzero(low <= least)
        if len(rows):
            there = rows[self._cdf(np.full(len(rows), least), rows) >= level]
            low[there] = high[there] = least
        return quantile_between(self._cdf_and_density, level, guess, low, high)

    def _quantile_bracket(self, level: float) -> tuple[Array, Array, Array]:
        """A guess at a quantile, and ends that hold it by the union bound."""
        likelihood, m = self.likelihood.uncensored, self.latent_mean.astype(np.float64)
        half = 0.5 * level, 0.5 * (1.0 - level)
        # P(f outside) <= half and P(y outside | f inside) <= half bound the quantile from either side
        reach = [self._latent_reach(share) for share in half]
        low = np.minimum(likelihood.ppf(half[0], m - reach[0]), likelihood.ppf(half[0], m + reach[0]))
        high = np.maximum(likelihood.ppf(1.0 - half[1], m - reach[1]), likelihood.ppf(1.0 - half[1], m + reach[1]))
        return likelihood.ppf(level, m), low, high

    def _latent_reach(self, share: float) -> Array:
        """Distance from its mean beyond which f lies with probability `share`, or less."""
        return -ndtri(0.5 * share) * np.sqrt(self.latent_variance.astype(np.float64))
