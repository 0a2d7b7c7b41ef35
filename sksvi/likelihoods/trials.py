"""Likelihoods of successes in trials: binomial, and beta-binomial, whose probability varies from row to row."""

from __future__ import annotations

import numpy as np
from scipy.special import bdtr, betaln, digamma, gammaln, polygamma, xlogy

from sksvi.likelihoods.base import Likelihood
from sksvi.likelihoods.classes import two_point_cdf
from sksvi.likelihoods.fractions import FIRST_PRECISION
from sksvi.likelihoods.logistic import expected_outcomes
from sksvi.likelihoods.one_scale import OneScale
from sksvi.likelihoods.traits import Array, LikelihoodTraits, Support, as_float, one_where, sigmoid


class Trials(Likelihood):
    """Base of y with a trailing axis (successes, failures), or (successes, trials), of probability sigmoid(f).

    Moments, `sample`, `cdf` and `ppf` are those of one further trial, so `mean` is the proportion.
    """

    traits = LikelihoodTraits(discrete=True, paired=True, symmetric=True)
    ratio: str | None = "odds"
    target: str

    @property
    def support(self) -> Support:  # type: ignore[override]
        return Support(0.0, np.inf, False, f"successes and {self.target} >= 0")

    @property
    def levels(self) -> np.ndarray:
        return np.array([0.0, 1.0])

    def outcomes(self, y: Array) -> tuple[Array, Array]:
        """Successes and failures."""
        if self.target not in ("failures", "trials"):
            raise ValueError(f'{type(self).__name__} needs target="failures" or "trials"; found {self.target!r}.')
        return y[..., 0], y[..., 1] - y[..., 0] if self.target == "trials" else y[..., 1]

    def check_target(self, y: Array) -> None:
        name = type(self).__name__
        if np.ndim(y) != 2 or np.shape(y)[1] != 2:
            raise ValueError(f"{name} needs y of shape (n, 2), successes and {self.target}; found shape {np.shape(y)}.")
        super().check_target(y)
        short = self.outcomes(np.asarray(y, dtype=float))[1] < 0
        if np.any(short):
            row = int(np.argmax(short))
            found = f"found {np.asarray(y)[row]} in row {row}"
            raise ValueError(f'{name}(target="trials") needs no more successes than trials; {found}.')

    def mean(self, f: Array) -> Array:
        return sigmoid(as_float(f))

    def conditional_variance(self, f: Array) -> Array:
        f = as_float(f)
        return sigmoid(f) * sigmoid(-f)

    def cdf(self, y: Array, f: Array) -> Array:
        return two_point_cdf(y, sigmoid(-as_float(f)))

    def ppf(self, p: Array | float, f: Array) -> Array:
        return np.where(np.asarray(p) > sigmoid(-as_float(f)), 1.0, 0.0)

    def sample(self, f: Array, rng: np.random.Generator) -> Array:
        return (rng.random(np.shape(f)) < self.mean(f)).astype(float)

    def sample_trials(self, f: Array, n_trials: int, rng: np.random.Generator) -> Array:
        """Successes and failures, or trials, of `n_trials` trials for each f, shape (..., 2)."""
        return self._beside(rng.binomial(n_trials, self.mean(f)), n_trials)

    def at_most(self, successes: Array, trials: Array, f: Array) -> Array:
        """P(at most so many successes in so many trials), all of the shape of f."""
        found: Array = bdtr(successes, trials.astype(int), self.mean(f))
        return found

    def _beside(self, successes: Array, n_trials: int) -> Array:
        """Successes with what stands beside them."""
        beside = np.full_like(successes, n_trials) if self.target == "trials" else n_trials - successes
        return np.stack([successes, beside], axis=-1)

    def centre(self, y: Array) -> Array:
        return np.zeros(np.shape(y)[:-1])

    def unit_deviance(self, y: Array, mu: Array) -> Array:
        (successes, failures), mu = self.outcomes(as_float(y)), as_float(mu)
        trials = np.where(successes + failures > 0, successes + failures, 1.0)
        best = xlogy(successes, successes / trials) + xlogy(failures, failures / trials)
        return 2.0 * (best - xlogy(successes, mu) - xlogy(failures, np.maximum(1.0 - mu, 0.0)))


class Binomial(Trials):
    """Binomial likelihood with logit link; y has a trailing axis (successes, failures), or (successes, trials).

    Moments, `sample`, `cdf` and `ppf` are those of one further trial, so `mean` is the proportion.

    Parameters
    ----------
    target : {"failures", "trials"}, default="failures"
        What stands beside the successes in y.

    Examples
    --------
    >>> import numpy as np
    >>> from sksvi.likelihoods import Binomial
    >>> print(np.round(Binomial().log_prob(np.array([[1.0, 1.0]]), np.array([0.0])), 4))
    [-0.6931]
    >>> print(np.round(Binomial(target="trials").log_prob(np.array([[1.0, 2.0]]), np.array([0.0])), 4))
    [-0.6931]
    """

    def __init__(self, *, target: str = "failures") -> None:
        self.target = target

    def overdispersible(self, y: Array) -> bool:
        successes, failures = self.outcomes(y)
        return bool(np.any(successes + failures > 1.0))

    def excess(self, y: Array, mean: Array) -> tuple[Array, Array, Array, Array]:
        # With z the trials less their mean it is the sum of z_i z_j over pairs i ≠ j: nothing of a single trial.
        successes, failures = self.outcomes(np.asarray(y, dtype=float))
        trials = successes + failures
        one = mean * (1.0 - mean)
        off, pairs = successes - trials * mean, np.where(trials > 1.0, trials * (trials - 1.0), 0.0)
        value = off * off - (1.0 - 2.0 * mean) * off - trials * one
        skew = np.square(1.0 - 2.0 * mean)
        cube = pairs * one * one * (8.0 * (trials - 2.0) * one + 4.0 * skew)
        return np.where(trials > 1.0, value, 0.0), 2.0 * pairs * one * one, cube, trials * one

    def derivatives(self, y: Array, f: Array) -> tuple[Array, Array, Array]:
        f = as_float(f)
        successes, failures = self.outcomes(np.asarray(y, dtype=f.dtype))
        trials = successes + failures
        small = np.exp(-np.abs(f))
        larger = 1.0 / (1.0 + small)
        ways = _ways(successes, failures)
        # s * min(f, 0) - failures * max(f, 0) is s f - n max(f, 0) without its cancellation
        value = successes * np.minimum(f, 0.0) - failures * np.maximum(f, 0.0) - trials * np.log1p(small) + ways
        up, down = one_where(f <= 0, small) * larger, one_where(f > 0, small) * larger
        small *= larger
        return value, successes * up - failures * down, -trials * (small * larger)

    def expected(self, y: Array, m: Array, v: Array) -> tuple[Array, Array, Array]:
        successes, failures = self.outcomes(np.asarray(y, dtype=np.result_type(m)))
        value, dm, dv = expected_outcomes(successes, failures, m, v)
        return value + _ways(successes, failures), dm, dv


class BetaBinomial(OneScale, Trials):
    """Beta-binomial likelihood: each row's probability of success is beta with mean sigmoid(f).

    y has a trailing axis (successes, failures), or (successes, trials). Moments, `sample`, `cdf` and `ppf` are those of
    one further trial.

    Parameters
    ----------
    precision : float or "auto", default="auto"
        Sum of the beta's two shapes; the correlation of two trials of a row is 1 / (1 + precision). "auto" learns it; 1
        over its root has an exponential prior of mean 1.
    target : {"failures", "trials"}, default="failures"
        What stands beside the successes in y.

    Examples
    --------
    >>> import numpy as np
    >>> from sksvi.likelihoods import BetaBinomial
    >>> print(np.round(BetaBinomial(precision=2.0).log_prob(np.array([[1.0, 1.0]]), np.array([0.0])), 4))
    [-1.0986]
    """

    traits = LikelihoodTraits(discrete=True, paired=True, symmetric=True, log_concave=False)
    scale_name = "precision"
    spread_power = -0.5

    def __init__(self, *, precision: float | str = "auto", target: str = "failures") -> None:
        self.precision = precision
        self.target = target

    def _shapes(self, f: Array) -> tuple[Array, Array, float]:
        """Both shapes of the beta distribution, and their sum."""
        precision = self._number("precision")
        return precision * sigmoid(f), precision * sigmoid(-f), precision

    def derivatives(self, y: Array, f: Array) -> tuple[Array, Array, Array]:
        f = as_float(f)
        a, b, precision = self._shapes(f)
        successes, failures = self.outcomes(np.asarray(y, dtype=f.dtype))
        trials, total = successes + failures, np.asarray(precision, f.dtype)
        value = _rising(successes, a) + _rising(failures, b) - _rising(trials, total) + _ways(successes, failures)
        up, down = a / precision, b / precision
        slope = down * _rising_slope(successes, a) - up * _rising_slope(failures, b)
        bend = down * down * _rising_bend(successes, a) + up * up * _rising_bend(failures, b)
        return value, slope, (down - up) * slope + bend

    def sample_trials(self, f: Array, n_trials: int, rng: np.random.Generator) -> Array:
        a, b, _ = self._shapes(as_float(f))
        return self._beside(rng.binomial(n_trials, rng.beta(a, b)), n_trials)

    def at_most(self, successes: Array, trials: Array, f: Array) -> Array:
        from sksvi.likelihoods.trials_loops import sums_of_terms

        a, b, _ = self._shapes(np.asarray(f, dtype=float))
        parts = (_rising(trials, b) - _rising(trials, a + b), successes, trials, a, b)
        found = np.empty(np.size(a))
        sums_of_terms(*(np.array(part, dtype=float).ravel() for part in parts), found)
        return found.reshape(np.shape(f))

    def row_width(self, y: Array) -> Array:
        successes, failures = self.outcomes(as_float(y))
        return 2.0 / np.sqrt(2.0 + successes + failures)

    def _started(self, y: Array, weight: Array | None) -> tuple[float, float]:
        successes, failures = self.outcomes(as_float(y))
        trials, weight = successes + failures, np.ones(len(y)) if weight is None else weight
        share = weight @ successes / max(weight @ trials, 1.0)
        pairs = weight @ (trials * (trials - 1.0)) * share * (1.0 - share)
        more = weight @ (np.square(successes - trials * share) - trials * share * (1.0 - share))
        # half of the excess is left to the features
        correlation = 0.5 * more / pairs if pairs > 0 else 0.5
        return float(np.clip(1.0 / max(correlation, 1e-3) - 1.0, *FIRST_PRECISION)), 0.0

    def _in_log_size(self, y: Array, f: Array) -> tuple[Array, Array]:
        a, b, precision = self._shapes(as_float(f))
        successes, failures = self.outcomes(as_float(y))
        trials, total = successes + failures, np.asarray(precision)
        first = _rising_slope(successes, a) + _rising_slope(failures, b) - _rising_slope(trials, total)
        second = _rising_bend(successes, a) + _rising_bend(failures, b) - _rising_bend(trials, total)
        return first, first + second


def _rising(count: Array, a: Array) -> Array:
    """log(Γ(a + count) / Γ(a))."""
    a = np.maximum(a, np.finfo(a.dtype).tiny)  # 0 where f has no finite probability
    found: Array = gammaln(a + count) - gammaln(a)
    return found


def _rising_slope(count: Array, a: Array) -> Array:
    """Derivative of `_rising` in log a, also where a is 0."""
    counted = count > 0
    found: Array = a * (digamma(a + count + 1.0) - digamma(a + 1.0)) + count / np.where(counted, a + count, 1.0)
    return found


def _rising_bend(count: Array, a: Array) -> Array:
    """Second derivative of `_rising` in a, times a²."""
    ends = polygamma(1, a + count + 1.0) - polygamma(1, a + 1.0)
    share = np.where(count > 0, a / np.where(count > 0, a + count, 1.0), 1.0)
    found: Array = (a * a * ends + share * share - 1.0).astype(a.dtype, copy=False)
    return found


def _ways(successes: Array, failures: Array) -> Array:
    """log of the number of orders in which outcomes come."""
    found: Array = -betaln(successes + 1.0, failures + 1.0) - np.log1p(successes + failures)
    return found
