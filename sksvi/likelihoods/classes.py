"""Likelihoods of classes: Bernoulli, binomial, and softmax, one of K unordered classes."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from scipy.special import betaln, ndtr, xlogy

from sksvi.integrals.race import joint_softmax, race
from sksvi.likelihoods.base import Likelihood
from sksvi.likelihoods.logistic import expected_outcomes
from sksvi.likelihoods.traits import (
    Array,
    LikelihoodTraits,
    Support,
    as_float,
    log_normal_cdf_terms,
    log_sigmoid,
    log_sigmoid_terms,
    one_where,
    sigmoid,
)


# ---- one trial and several
class Bernoulli(Likelihood):
    """Binary likelihood, P(y = 1 | f) = link(f), y in {0, 1}.

    Parameters
    ----------
    link : {"logit", "probit"}, default="logit"
        Logistic function or standard normal distribution function.

    Examples
    --------
    >>> from sksvi.likelihoods import Bernoulli
    >>> print(Bernoulli().mean(0.0))
    0.5
    """

    support = Support(0.0, 1.0, True, "y in {0, 1}")
    traits = LikelihoodTraits(discrete=True, classifies=True, symmetric=True, poles_only=True)

    def __init__(self, *, link: str = "logit") -> None:
        self.link = link

    def _is_logit(self) -> bool:
        if self.link not in ("logit", "probit"):
            raise ValueError(f'Bernoulli needs link="logit" or "probit"; found {self.link!r}.')
        return self.link == "logit"

    @property
    def ratio(self) -> str | None:
        return "odds" if self._is_logit() else None

    @property
    def width(self) -> float:
        return 1.0 if self._is_logit() else 0.75

    @property
    def link_unit(self) -> float:
        return 2.0 if self._is_logit() else np.sqrt(0.5 * np.pi)

    def derivatives(self, y: Array, f: Array) -> tuple[Array, Array, Array]:
        f = as_float(f)
        sign = (2.0 * as_float(y) - 1.0).astype(f.dtype, copy=False)
        terms = log_sigmoid_terms if self._is_logit() else log_normal_cdf_terms
        value, slope, curve = terms(sign * f)
        return value, sign * slope, curve

    def log_prob(self, y: Array, f: Array) -> Array:
        if not self._is_logit():
            return super().log_prob(y, f)
        f = as_float(f)
        return log_sigmoid((2.0 * as_float(y) - 1.0).astype(f.dtype, copy=False) * f)

    def expected(self, y: Array, m: Array, v: Array) -> tuple[Array, Array, Array] | None:
        y = as_float(y)
        return expected_outcomes(y, 1.0 - y, m, v) if self._is_logit() else None

    def mean(self, f: Array) -> Array:
        f = as_float(f)
        return sigmoid(f) if self._is_logit() else ndtr(f)

    def conditional_variance(self, f: Array) -> Array:
        return self.mean(f) * self.mean(-as_float(f))

    def cdf(self, y: Array, f: Array) -> Array:
        return _two_point_cdf(y, self.mean(-as_float(f)))

    def ppf(self, p: Array | float, f: Array) -> Array:
        return np.where(np.asarray(p) > self.mean(-as_float(f)), 1.0, 0.0)

    def sample(self, f: Array, rng: np.random.Generator) -> Array:
        return (rng.random(np.shape(f)) < self.mean(f)).astype(float)

    def expected_mean(self, m: Array, v: Array) -> Array | None:
        return None if self._is_logit() else ndtr(m / np.sqrt(1.0 + as_float(v)))

    def log_predictive(self, y: Array, m: Array, v: Array) -> Array | None:
        if self._is_logit():
            return None
        return log_normal_cdf_terms((2.0 * as_float(y) - 1.0) * m / np.sqrt(1.0 + as_float(v)))[0]

    def log_predictive_derivatives(self, y: Array, m: Array, v: Array) -> tuple[Array, Array, Array] | None:
        if self._is_logit():
            return None
        scale = 1.0 / np.sqrt(1.0 + v)
        value, slope, curve = self.derivatives(y, scale * m)
        return value, scale * slope, scale**2 * curve

    def unit_deviance(self, y: Array, mu: Array) -> Array:
        y, mu = as_float(y), as_float(mu)
        # Weights of nodes add up to 1, and a rounding: so may probabilities.
        return -2.0 * (xlogy(y, mu) + xlogy(1.0 - y, np.maximum(1.0 - mu, 0.0)))


class Binomial(Likelihood):
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

    traits = LikelihoodTraits(discrete=True, paired=True, symmetric=True)
    ratio = "odds"

    def __init__(self, *, target: str = "failures") -> None:
        self.target = target

    @property
    def support(self) -> Support:  # type: ignore[override]
        return Support(0.0, np.inf, False, f"successes and {self.target} >= 0")

    @property
    def levels(self) -> np.ndarray:
        return np.array([0.0, 1.0])

    def outcomes(self, y: Array) -> tuple[Array, Array]:
        """Successes and failures."""
        if self.target not in ("failures", "trials"):
            raise ValueError(f'Binomial needs target="failures" or "trials"; found {self.target!r}.')
        return y[..., 0], y[..., 1] - y[..., 0] if self.target == "trials" else y[..., 1]

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

    def check_target(self, y: Array) -> None:
        if np.ndim(y) != 2 or np.shape(y)[1] != 2:
            raise ValueError(
                f"Binomial needs y of shape (n, 2), successes and {self.target}; found shape {np.shape(y)}."
            )
        super().check_target(y)
        short = self.outcomes(np.asarray(y, dtype=float))[1] < 0
        if np.any(short):
            row = int(np.argmax(short))
            raise ValueError(
                f'Binomial(target="trials") needs no more successes than trials; found {np.asarray(y)[row]} in row '
                f"{row}."
            )

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

    def mean(self, f: Array) -> Array:
        return sigmoid(as_float(f))

    def conditional_variance(self, f: Array) -> Array:
        f = as_float(f)
        return sigmoid(f) * sigmoid(-f)

    def cdf(self, y: Array, f: Array) -> Array:
        return _two_point_cdf(y, sigmoid(-as_float(f)))

    def ppf(self, p: Array | float, f: Array) -> Array:
        return np.where(np.asarray(p) > sigmoid(-as_float(f)), 1.0, 0.0)

    def sample(self, f: Array, rng: np.random.Generator) -> Array:
        return (rng.random(np.shape(f)) < self.mean(f)).astype(float)

    def sample_trials(self, f: Array, n_trials: int, rng: np.random.Generator) -> Array:
        """Successes and failures, or trials, of `n_trials` trials for each f, shape (..., 2)."""
        successes = rng.binomial(n_trials, self.mean(f))
        beside = np.full_like(successes, n_trials) if self.target == "trials" else n_trials - successes
        return np.stack([successes, beside], axis=-1)

    def centre(self, y: Array) -> Array:
        return np.zeros(np.shape(y)[:-1])

    def unit_deviance(self, y: Array, mu: Array) -> Array:
        (successes, failures), mu = self.outcomes(as_float(y)), as_float(mu)
        trials = np.where(successes + failures > 0, successes + failures, 1.0)
        best = xlogy(successes, successes / trials) + xlogy(failures, failures / trials)
        return 2.0 * (best - xlogy(successes, mu) - xlogy(failures, np.maximum(1.0 - mu, 0.0)))


def _ways(successes: Array, failures: Array) -> Array:
    """log of the number of orders in which outcomes come."""
    found: Array = -betaln(successes + 1.0, failures + 1.0) - np.log1p(successes + failures)
    return found


def _two_point_cdf(y: Array, probability_of_zero: Array) -> Array:
    y = np.asarray(y, dtype=float)
    return np.where(y < 0, 0.0, np.where(y < 1, probability_of_zero, 1.0))


# ---- one of K unordered classes
class Softmax(Likelihood):
    """Categorical likelihood, P(y = c | f) = exp(f_c) / sum_j exp(f_j); y codes 0..K-1, f has a last axis of K.

    `mean` and `conditional_variance` are those of the indicator of each class, with the class axis. The second
    derivative is the diagonal one. `expected` is deterministic, by integrals over the largest of K Gumbel variables.

    Parameters
    ----------
    n_classes : int
        Number of classes, K >= 2.

    Examples
    --------
    >>> import numpy as np
    >>> from sksvi.likelihoods import Softmax
    >>> print(Softmax(n_classes=4).mean(np.zeros(4)))
    [0.25 0.25 0.25 0.25]
    """

    traits = LikelihoodTraits(discrete=True, classifies=True)
    ratio = "odds"

    def __init__(self, n_classes: int) -> None:
        self.n_classes = n_classes

    @property
    def n_latents(self) -> int:  # type: ignore[override]
        if not isinstance(self.n_classes, int | np.integer) or self.n_classes < 2:
            raise ValueError(f"Softmax needs n_classes, an integer >= 2; found {self.n_classes!r}.")
        return int(self.n_classes)

    @property
    def support(self) -> Support:  # type: ignore[override]
        k = self.n_latents
        return Support(0.0, k - 1.0, True, f"integer codes of {k} classes, 0 to {k - 1}")

    def derivatives(self, y: Array, f: Array) -> tuple[Array, Array, Array]:
        f, code = as_float(f), np.asarray(y).astype(np.intp)
        shape = np.broadcast_shapes(code.shape, f.shape[:-1])
        f, code = np.broadcast_to(f, (*shape, f.shape[-1])).reshape(-1, f.shape[-1]), np.broadcast_to(code, shape)
        own = np.arange(len(f)), code.ravel()
        shifted = f - f.max(axis=-1, keepdims=True)
        p = np.exp(shifted)
        total = p.sum(axis=-1, keepdims=True)
        value = shifted[own] - np.log(total[:, 0])
        p /= total
        slope = -p
        curve = slope * (1.0 - p)
        slope[own] += 1.0
        return value.reshape(shape), slope.reshape(*shape, -1), curve.reshape(*shape, -1)

    def curvature_root(self, f: Array, curve: Array) -> tuple[Array, Callable[[Array], Array]]:
        # diag(p) - p pᵀ = diag(s) (1 - s sᵀ) diag(s) with s = √p, of length 1.
        root = np.sqrt(self.mean(f))
        return root, lambda u: u - root * np.einsum("nk,nk->n", root, u)[:, None]

    def mean(self, f: Array) -> Array:
        f = as_float(f)
        p = np.exp(f - f.max(axis=-1, keepdims=True))
        return p / p.sum(axis=-1, keepdims=True)

    def conditional_variance(self, f: Array) -> Array:
        p = self.mean(f)
        return p * (1.0 - p)

    def cdf(self, y: Array, f: Array) -> Array:
        cumulative = np.cumsum(self.mean(f), axis=-1)
        cumulative[..., -1] = 1.0
        y = np.asarray(y, dtype=float)
        code = np.broadcast_to(np.clip(np.floor(y), 0, self.n_latents - 1).astype(np.intp), cumulative.shape[:-1])
        return np.where(y < 0, 0.0, np.take_along_axis(cumulative, code[..., None], axis=-1)[..., 0])

    def ppf(self, p: Array | float, f: Array) -> Array:
        cumulative = np.cumsum(self.mean(f), axis=-1)
        return (cumulative[..., :-1] < np.asarray(p)[..., None]).sum(axis=-1).astype(float)

    def sample(self, f: Array, rng: np.random.Generator) -> Array:
        return self.ppf(rng.random(np.shape(f)[:-1]), f)

    def expected(self, y: Array, m: Array, v: Array) -> tuple[Array, Array, Array]:
        m = as_float(m)
        self._check_latents(m)
        log_sum, p, q = race(m, v) if v.ndim == 2 else joint_softmax(m, v)
        code = np.asarray(y).astype(np.intp)
        rows = np.arange(len(m))
        slope = -p
        slope[rows, code] += 1.0
        value = m[rows, code] - log_sum
        assert q is not None  # of both by default
        return (
            value.astype(m.dtype, copy=False),
            slope.astype(m.dtype, copy=False),
            -0.5 * q.astype(m.dtype, copy=False),
        )

    def expected_mean(self, m: Array, v: Array) -> Array:
        m = as_float(m)
        self._check_latents(m)
        p = race(m, v)[1] if v.ndim == 2 else joint_softmax(m, v, hessian=False)[1]
        return p.astype(m.dtype, copy=False)

    def log_predictive(self, y: Array, m: Array, v: Array) -> Array:
        p = self.expected_mean(m, v)
        chosen = p[np.arange(len(p)), np.asarray(y).astype(np.intp)]
        return np.log(np.maximum(chosen, np.finfo(p.dtype).tiny))

    def _check_latents(self, m: Array) -> None:
        if m.ndim != 2 or m.shape[1] != self.n_latents:
            k = self.n_latents
            raise ValueError(f"Softmax with {k} classes needs f of shape (n, {k}); found {m.shape}.")
