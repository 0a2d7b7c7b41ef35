"""Traits of a likelihood: the values that y may take, stable link functions, scale mixtures of Gaussians.

Likelihoods that are not log-concave in f are mixtures over the scale, y | f ~ N(f, s) with s random.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.special import digamma, erfcx, gammaln, log_ndtr, ndtr, polygamma

# ---- numerically stable link functions
Array = np.ndarray  # or NumPy's scalars, of float32 or float64

LOG_SQRT_2PI = 0.9189385332046727
_SQRT_HALF = 0.7071067811865476
_SQRT_2_OVER_PI = 0.7978845608028654


def as_float(values: Array) -> Array:
    """Array of floats; float32 and float64 keep their type."""
    values = np.asarray(values)
    return values if values.dtype in (np.float32, np.float64) else values.astype(np.float64)


def safe_exp(f: Array) -> Array:
    """Exponential that saturates at about 1e304 (float32: 1e37) where the true value has no finite float nearby."""
    f = as_float(f)
    return np.exp(np.minimum(f, 85.0 if f.dtype == np.float32 else 700.0))


def log_normal_variance(m: Array, v: Array) -> Array:
    """Var exp(f) under f ~ N(m, v), saturating like `safe_exp`."""
    relative = np.where(v < 40.0, np.expm1(np.minimum(v, 40.0)), 1.0)
    return safe_exp(np.minimum(2.0 * m + np.where(v < 40.0, v, 2.0 * v), 600.0)) * relative


def tiny(f: Array) -> float:
    """Smallest number that is safe to divide by in the type of f."""
    return 1e-37 if np.asarray(f).dtype == np.float32 else 1e-300


def one_where(condition: Array, small: Array) -> Array:
    """1 where the condition holds, elsewhere `small`, numbers in [0, 1].

    `np.where` branches value by value, which costs several times the arithmetic where the condition looks random.
    """
    return np.maximum(small, np.asarray(condition).astype(small.dtype))


def sigmoid(t: Array) -> Array:
    """Logistic function 1 / (1 + exp(-t)), relatively accurate in both tails."""
    small = np.exp(-np.abs(t))
    return one_where(t > 0, small) / (1.0 + small)


def softplus(t: Array) -> Array:
    """log(1 + exp(t))."""
    return np.maximum(t, 0.0) + np.log1p(np.exp(-np.abs(t)))


def log_sigmoid(t: Array) -> Array:
    """log sigmoid(t), to the bit that of `log_sigmoid_terms`."""
    return np.minimum(t, 0.0) - np.log1p(np.exp(-np.abs(t)))


def log_sigmoid_terms(t: Array) -> tuple[Array, Array, Array]:
    """log sigmoid(t) with its first and second derivative."""
    small = np.exp(-np.abs(t))
    return np.minimum(t, 0.0) - np.log1p(small), *log_sigmoid_slopes(t, small)


def log_sigmoid_slopes(t: Array, small: Array) -> tuple[Array, Array]:
    """First and second derivative of log sigmoid(t), given exp(-|t|), which is overwritten."""
    larger = 1.0 / (1.0 + small)
    slope = one_where(t <= 0, small) * larger
    small *= larger
    larger *= small
    return slope, -larger


def log_normal_cdf_terms(t: Array) -> tuple[Array, Array, Array]:
    """log Phi(t) with its first and second derivative, Phi the standard normal distribution function."""
    t = np.atleast_1d(t)
    tail = ndtr(-np.abs(t))
    in_tail = t < -6.0
    any_in_tail = in_tail.any()
    if any_in_tail:
        tail = np.where(in_tail, 0.5, tail)  # replaced below: the plain ratio loses digits, then underflows
    positive = t > 0
    value = np.where(positive, np.log1p(-tail), np.log(np.maximum(tail, tiny(t))))
    slope = np.exp(-0.5 * np.minimum(t * t, 170.0 if t.dtype == np.float32 else 1400.0) - LOG_SQRT_2PI)
    slope = slope.astype(t.dtype, copy=False) / np.where(positive, 1.0 - tail, tail)
    curve = -slope * (t + slope)
    if any_in_tail:
        value[in_tail] = log_ndtr(t[in_tail])
        slope[in_tail] = ratio = _SQRT_2_OVER_PI / erfcx(-_SQRT_HALF * t[in_tail])
        curve[in_tail] = -ratio * _ratio_minus_argument(-t[in_tail], ratio)
    return value, slope, curve


def _ratio_minus_argument(x: Array, ratio: Array) -> Array:
    """phi(x)/Phi(-x) - x for large x: by its asymptotic series where the difference loses digits."""
    inverse = 1.0 / (x * x)
    series = (1.0 - inverse * (2.0 - inverse * (10.0 - inverse * (74.0 - 706.0 * inverse)))) / x
    return np.where(x > (10.0 if x.dtype == np.float32 else 50.0), series, ratio - x)


def log_softplus(f: Array, small: Array) -> tuple[Array, Array]:
    """The rate r = log(1 + exp(f)) and log r, given exp(-|f|)."""
    rate = np.maximum(f, 0.0) + np.log1p(small)
    low = f < (-80.0 if np.asarray(f).dtype == np.float32 else -600.0)
    return rate, np.where(low, f, np.log(np.maximum(rate, tiny(f))))


def log_softplus_terms(f: Array) -> tuple[Array, Array, Array, Array, Array, Array]:
    """For the rate r = log(1 + exp(f)): r, log r, and the derivatives r', r'/r, r'' and (log r)''."""
    small = np.exp(-np.abs(f))
    rate, log_rate = log_softplus(f, small)
    larger = 1.0 / (1.0 + small)
    slope = one_where(f > 0, small) * larger
    # Far below zero log r is f itself.
    ratio = np.where(log_rate == f, 1.0, slope / np.maximum(rate, tiny(f)))
    # (log r)'' = ratio * (1 - r' - ratio); the difference by its series where it cancels
    near_zero = small * (f < 0)
    series = near_zero * (-0.5 + near_zero * (7.0 / 12.0 - 0.625 * near_zero))
    difference = np.where(f < -9.0, series, 1.0 - slope - ratio)
    return rate, log_rate, slope, ratio, small * larger * larger, ratio * difference


# ---- what a likelihood declares of itself
#: The largest magnitude of a number: the square of a thousandfold is still one.
LARGEST = 1e100
#: Of a measured target, which a fit divides by its own unit: the square is still a number.
LARGEST_TARGET = 1e153
#: Counts beyond have no whole number beside them; positive ones below the other have no logarithm worth having.
LARGEST_COUNT, SMALLEST_COUNT = 2.0**53, 1e-100


@dataclass(frozen=True)
class Support:
    """The values y may take, as data, so that one generic line validates every target.

    Parameters
    ----------
    low, high : float
        Bounds, both allowed.
    integer : bool
        Whether y must be a whole number.
    text : str
        The condition in words, for the error message.
    """

    low: float
    high: float
    integer: bool
    text: str

    def first_outside(self, y: Array) -> int | None:
        """Row of the first value outside the support, or None."""
        values = np.asarray(y, dtype=float)
        # Where all are well, as nearly always, two ends say so; what is no number is within none.
        least, most = (values.min(), values.max()) if values.size else (0.0, 0.0)
        within = self.low <= least and most <= self.high and -np.inf < least and most < np.inf
        if not values.size or (within and not (self.integer and np.any(values % 1))):
            return None
        finite = np.isfinite(values)
        good = finite & (values >= self.low) & (values <= self.high)
        if self.integer:
            good = good & (np.where(finite, values, 0.5) % 1 == 0)
        bad = np.logical_not(good)
        bad = bad.any(axis=tuple(range(1, bad.ndim))) if bad.ndim > 1 else bad
        return int(np.argmax(bad)) if bad.any() else None


@dataclass(frozen=True)
class LikelihoodTraits:
    """Traits of a likelihood, each of which adds a closed form, spares nodes or says what kind of number y is.

    Parameters
    ----------
    discrete : bool, default=False
        Whether y is counted rather than measured.
    classifies : bool, default=False
        y is a label, 0 or 1, or a class code: classifiers take it.
    ordered : bool, default=False
        y has one of several ordered levels.
    paired : bool, default=False
        y is a pair, (successes, failures); `outcomes` gives them.
    censored : bool, default=False
        y has columns of bounds; `points` gives numbers.
    symmetric : bool, default=False
        There are two levels, and P(y = 1 | f) = P(y = 0 | -f).
    additive : bool, default=False
        y is f plus noise whose distribution does not depend on f.
    log_concave : bool, default=True
        p(y | f) is log-concave in f.
    by_moments : bool, default=False
        Mean and variance of y are all that `start` and the best constant f depend on.
    poles_only : bool, default=False
        p(y | f) is smooth up to the poles that `width` is measured to, so that a coarser grid serves. False is safe:
        for exp(-exp(f)), and for high powers of a logistic function.
    exponential : bool, default=False
        log p = y f - exp(f) - log y!, which falls beyond any fixed range of nodes: by closed form alone, and in
        compiled loops.
    quantile : bool, default=False
        f is a quantile of y, at which the density of y has a kink: integrals in closed form alone, and `predict` is f.
    positive : bool, default=True
        Learned parameters are positive numbers, so that tables have intervals of their logarithms.

    Examples
    --------
    >>> from sksvi.likelihoods import Poisson
    >>> Poisson().traits.discrete
    True
    """

    discrete: bool = False
    classifies: bool = False
    ordered: bool = False
    paired: bool = False
    censored: bool = False
    symmetric: bool = False
    additive: bool = False
    log_concave: bool = True
    by_moments: bool = False
    poles_only: bool = False
    exponential: bool = False
    quantile: bool = False
    positive: bool = True

    @property
    def measured(self) -> bool:
        """Whether y is a number with a unit, neither counted nor one of several levels."""
        return not (self.discrete or self.ordered)


# ---- scale mixtures of Gaussians
class ScaleMixture:
    """Base: the distribution of the variance s = `unit` exp(x) of y given f, through the density of x.

    Attributes
    ----------
    unit : float
        In squared units of y.
    step : float
        Step in x at which the trapezoidal rule integrates the density of x.
    log_constant : float
        Logarithm, in nats, of what `log_density` leaves out of the denominator.
    """

    unit: float
    step: float
    log_constant: float

    def reach(self, squared_distance: Array) -> tuple[Array, Array]:
        """Least and largest x that matter where (y - f)² is at most `squared_distance`, shape (n,)."""
        raise TypeError(f"{type(self).__name__} needs a method reach")

    def log_density(self, x: Array) -> Array:
        """Log density of x, nats, up to `log_constant`."""
        raise TypeError(f"{type(self).__name__} needs a method log_density")

    def d_parameters(self, x: Array) -> tuple[Array, Array]:
        """Derivatives of log p(s) in the likelihood's `unconstrained`, at the s of x: (P, ...) and (P, P, ...)."""
        raise TypeError(f"{type(self).__name__} needs a method d_parameters")


@dataclass(frozen=True)
class InverseGammaVariance(ScaleMixture):
    """Inverse gamma variance of shape df / 2, which makes y Student-t.

    Parameters
    ----------
    scale, df : float
        Of the Student-t distribution.
    least : float
        Least scale: a learned one is `least` + exp(unconstrained).
    learned : tuple of str
        Which of "scale" and "df" are learned.
    """

    scale: float
    df: float
    least: float
    learned: tuple[str, ...]

    @property
    def _shape(self) -> float:
        return 0.5 * self.df

    @property
    def unit(self) -> float:  # type: ignore[override]
        return 0.5 * self.df * self.scale**2

    @property
    def step(self) -> float:  # type: ignore[override]
        return min(0.45, 0.9 / np.sqrt(self._shape + 0.5))

    @property
    def log_constant(self) -> float:  # type: ignore[override]
        return float(gammaln(self._shape))

    def reach(self, squared_distance: Array) -> tuple[Array, Array]:
        a = self._shape
        mode = np.log(squared_distance) - np.log(self.unit) - np.log(2 * a + 1)
        return -np.log(a) - _fall(a, -1.0), np.maximum(-np.log(a), mode) + _fall(a, 1.0)

    def log_density(self, x: Array) -> Array:
        return -self._shape * x - np.exp(-x)

    def d_parameters(self, x: Array) -> tuple[Array, Array]:
        a = self._shape
        part = 1.0 - self.least / self.scale
        in_log_b, in_a = a - np.exp(-x), -x - digamma(a)
        first = {"scale": 2.0 * part * in_log_b, "df": a * in_a + in_log_b}
        second = {
            ("scale", "scale"): 2.0 * part * (1.0 - part) * in_log_b - 4.0 * part**2 * np.exp(-x),
            ("df", "df"): a * in_a + 2.0 * a - np.exp(-x) - a**2 * polygamma(1, a),
            ("scale", "df"): 2.0 * part * in_log_b,
            ("df", "scale"): 2.0 * part * in_log_b,
        }
        names = self.learned
        return np.stack([first[i] for i in names]), np.stack([np.stack([second[i, j] for j in names]) for i in names])


def _fall(a: float, sign: float) -> float:
    """How far from its mode the log density of a log inverse gamma variable falls by 24 nats, above or below."""
    x = 24.0 / a if sign > 0 else np.log1p(24.0 / a)
    x += np.sqrt(48.0 / a)
    for _ in range(60):
        x -= (a * (np.expm1(-sign * x) + sign * x) - 24.0) / (a * sign * (1.0 - np.exp(-sign * x)))
    return float(x)
