"""Likelihoods of classes: Bernoulli, softmax, one of K unordered classes, and multinomial, counts of each class."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from scipy.special import gammaln, ndtr, xlogy

from sksvi.integrals.race import joint_softmax, log_mean_product, race
from sksvi.likelihoods.base import Likelihood
from sksvi.likelihoods.logistic import expected_outcomes
from sksvi.likelihoods.traits import (
    LARGEST_COUNT,
    Array,
    LikelihoodTraits,
    Support,
    as_float,
    log_normal_cdf_terms,
    log_sigmoid,
    log_sigmoid_terms,
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
        return two_point_cdf(y, self.mean(-as_float(f)))

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


def two_point_cdf(y: Array, probability_of_zero: Array) -> Array:
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


# ---- counts of K unordered classes
class Multinomial(Softmax):
    """Multinomial likelihood, log p(y | f) = sum_c y_c log p_c + log N! - sum_c log y_c! of N = sum_c y_c trials.

    p is the softmax of f. y has a last axis of K, the counts of the classes, or is the class of a single trial, a code
    0..K-1. Moments and draws are those of one further trial.

    Parameters
    ----------
    n_classes : int
        Number of classes, K >= 2.

    Examples
    --------
    >>> import numpy as np
    >>> from sksvi.likelihoods import Multinomial
    >>> print(np.round(Multinomial(n_classes=3).log_prob(np.array([[1.0, 1.0, 0.0]]), np.zeros((1, 3))), 4))
    [-1.5041]
    """

    def check_target(self, y: Array) -> None:
        if np.ndim(y) < 2:
            return super().check_target(y)
        k, counts = self.n_latents, np.asarray(y, dtype=float)
        if counts.shape[1:] != (k,):
            raise ValueError(f"Multinomial needs counts of {k} classes, shape (n, {k}); found shape {counts.shape}.")
        good = np.isfinite(counts) & (counts >= 0) & (counts <= LARGEST_COUNT)
        if not np.all(good):
            row = int(np.argmin(good.all(axis=1)))
            raise ValueError(f"Multinomial needs finite counts >= 0; found {counts[row].tolist()} in row {row}.")
        return None

    def derivatives(self, y: Array, f: Array) -> tuple[Array, Array, Array]:
        if np.ndim(y) < np.ndim(f):
            return super().derivatives(y, f)
        f = as_float(f)
        counts = np.asarray(y, dtype=f.dtype)
        trials, p = counts.sum(axis=-1, keepdims=True), self.mean(f)
        shifted = f - f.max(axis=-1, keepdims=True)
        log_p = shifted - np.log(np.exp(shifted).sum(axis=-1, keepdims=True))
        value = (counts * log_p).sum(axis=-1) + log_orders(counts)
        return value, counts - trials * p, -trials * p * (1.0 - p)

    def probabilities(self, f: Array) -> Array:
        return np.moveaxis(self.mean(f), -1, 0)

    def expected(self, y: Array, m: Array, v: Array) -> tuple[Array, Array, Array]:
        if np.ndim(y) == 1:
            return super().expected(y, m, v)
        m = as_float(m)
        counts = np.asarray(y, dtype=m.dtype)
        trials = counts.sum(axis=1)
        # Of a trial of class 0: m_0 - E log sum exp f, (1, 0, ...) - E p, and the curvature that all classes share.
        lead, slope, curve = super().expected(np.zeros(len(m), int), m, v)
        slope[:, 0] -= 1.0
        value = (counts * (m - m[:, :1] + lead[:, None])).sum(axis=1) + log_orders(counts)
        curve = curve * trials.reshape(-1, *[1] * (curve.ndim - 1))
        return value.astype(m.dtype, copy=False), counts + trials[:, None] * slope, curve

    def log_predictive(self, y: Array, m: Array, v: Array) -> Array:
        if np.ndim(y) == 1:
            return super().log_predictive(y, m, v)
        self._check_latents(m)
        counts = np.asarray(y, dtype=float)
        found: Array = log_mean_product(counts, m, v) + log_orders(counts)
        return found


def log_orders(counts: Array) -> Array:
    """log N! - sum_c log y_c!: orders in which trials with these counts can come, nats."""
    orders: Array = gammaln(counts.sum(axis=-1) + 1.0) - gammaln(counts + 1.0).sum(axis=-1)
    return orders
