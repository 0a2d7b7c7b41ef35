"""What every likelihood offers: p(y | f), its derivatives in f, moments, predictive integrals and learned scales."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import dataclass
from numbers import Real
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, clone

from sksvi.likelihoods.links import Array


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
        finite = np.isfinite(values)
        good = finite & (values >= self.low) & (values <= self.high)
        if self.integer:
            good = good & (np.where(finite, values, 0.5) % 1 == 0)
        bad = np.logical_not(good)
        if bad.ndim > 1:
            bad = bad.any(axis=tuple(range(1, bad.ndim)))
        return int(np.argmax(bad)) if bad.any() else None


class Likelihood(BaseEstimator):
    """Base of all likelihoods p(y | f), for arrays y and f that broadcast; log densities in nats.

    A subclass gives `derivatives`, `mean`, `conditional_variance`, `cdf`, `ppf` and `sample`; all else has a default.
    Scale-like parameters are ``"auto"`` (learned; `start` finds a first value) or a number (fixed).

    Attributes
    ----------
    n_latents : int
        Latent values per datum.
    support : Support
        Values y may take.
    width : float
        A third of the distance of the nearest complex singularity of log p(y | f) in f; sets the quadrature's step.
    discrete : bool
        Whether y is counted rather than measured.
    learned : tuple of str
        Names of the parameters that `start` replaced by numbers and that a fit goes on to learn.
    """

    n_latents: int = 1
    support: Support = Support(-np.inf, np.inf, False, "finite y")
    discrete: bool = False
    log_concave: bool = True
    closed_posterior: bool = False  # a Gaussian q(f) is exact
    closed_form_only: bool = False  # log p falls exponentially in f, beyond any fixed range of nodes
    #: y is a label (0/1, or a class code); y has one of several ordered levels; y is (successes, failures).
    classifies: bool = False
    ordered: bool = False
    paired: bool = False
    learned: tuple[str, ...] = ()
    #: Least value of a learned scale, as `start` finds it: data that are fitted exactly would take it to zero.
    least: float = 0.0

    @property
    def width(self) -> float:
        return 1.0

    def check_target(self, y: Array) -> None:
        """Raise ValueError naming the first value of y, shape (n,), outside the support, and its row."""
        row = self.support.first_outside(y)
        if row is not None:
            value = np.asarray(y)[row]
            shown = value if np.ndim(value) else f"{value:g}"
            raise ValueError(f"{type(self).__name__} needs {self.support.text}; found {shown} in row {row}.")

    def derivatives(self, y: Array, f: Array) -> tuple[Array, Array, Array]:
        """log p(y | f) and its first and second derivative in f, each of the broadcast shape."""
        raise TypeError(f"{type(self).__name__} needs a method derivatives")

    def log_prob(self, y: Array, f: Array) -> Array:
        """log p(y | f) in nats."""
        return self.derivatives(y, f)[0]

    def d1(self, y: Array, f: Array) -> Array:
        """First derivative of log p(y | f) in f."""
        return self.derivatives(y, f)[1]

    def d2(self, y: Array, f: Array) -> Array:
        """Second derivative of log p(y | f) in f."""
        return self.derivatives(y, f)[2]

    def mean(self, f: Array) -> Array:
        """E[y | f]."""
        raise TypeError(f"{type(self).__name__} needs a method mean")

    def conditional_variance(self, f: Array) -> Array:
        """Var[y | f]."""
        raise TypeError(f"{type(self).__name__} needs a method conditional_variance")

    def cdf(self, y: Array, f: Array) -> Array:
        """P(Y <= y | f)."""
        raise TypeError(f"{type(self).__name__} needs a method cdf")

    def ppf(self, p: Array, f: Array) -> Array:
        """Smallest y with P(Y <= y | f) >= p."""
        raise TypeError(f"{type(self).__name__} needs a method ppf")

    def sample(self, f: Array, rng: np.random.Generator) -> Array:
        """One draw of y for each f."""
        raise TypeError(f"{type(self).__name__} needs a method sample")

    def expected(self, y: Array, m: Array, v: Array) -> tuple[Array, Array, Array] | None:
        """Closed form of E log p(y | f) under f ~ N(m, v) and its derivatives in m and v; None where there is none."""
        return None

    def expected_parameters(self, y: Array, m: Array, v: Array) -> tuple[Array, Array] | None:
        """Closed form of the expectations of `d_parameters`, shapes (P, n) and (P, P, n); None where there is none."""
        return None

    def expected_mean(self, m: Array, v: Array) -> Array | None:
        """Closed form of E[y] under f ~ N(m, v), or None."""
        return None

    def expected_variance(self, m: Array, v: Array) -> Array | None:
        """Closed form of Var[y] under f ~ N(m, v), or None."""
        return None

    def log_predictive(self, y: Array, m: Array, v: Array) -> Array | None:
        """Closed form of log E p(y | f) under f ~ N(m, v), or None."""
        return None

    def centre(self, y: Array) -> Array:
        """Where in f the likelihood of y bends most, shape of y; nodes gather there when q(f) is much wider."""
        return np.zeros(np.shape(y))

    @property
    def bends(self) -> np.ndarray:
        """Where in f the moments of y bend most, shape (c,)."""
        return np.zeros(1)

    def cdf_centre(self, y: Array) -> Array:
        """Where in f P(Y <= y | f) passes a half, about, shape of y."""
        return self.centre(y)

    def cdf_width(self, y: Array) -> Array:
        """Scale in f over which P(Y <= y | f) changes, shape of y; sets the quadrature's step for quantiles."""
        return np.full(np.shape(y), self.width)

    @property
    def noise(self) -> float | None:
        """The scale that users call noise: variance, dispersion or scale; None where there is none."""
        return None

    def null_mean(self, y: Array, weight: Array | None) -> Array:
        """The mean that ignores every feature, for each datum."""
        return np.full(len(y), np.average(y, weights=weight))

    def unit_deviance(self, y: Array, mu: Array) -> Array | None:
        """Twice the log-likelihood lost by predicting mean mu for y, per datum; None where R^2 is the score."""
        return None

    def start(self, y: Array, weight: Array | None = None) -> Likelihood:
        """Copy with every "auto" parameter replaced by a first value found from y, shape (n,), and its weights."""
        return self._replaced({}, self._automatic())

    @property
    def unconstrained(self) -> np.ndarray:
        """Learned parameters on the real line, shape (P,)."""
        return np.zeros(0)

    def replace(self, unconstrained: Array) -> Likelihood:
        """Copy with the learned parameters set from their unconstrained values, shape (P,)."""
        if np.shape(unconstrained) != self.unconstrained.shape:
            raise ValueError(
                f"{type(self).__name__} learns {self.unconstrained.size} parameters; "
                f"found an array of shape {np.shape(unconstrained)}."
            )
        return self._replaced(self._constrain(np.asarray(unconstrained, dtype=float)), self.learned)

    def d_parameters(self, y: Array, f: Array) -> tuple[Array, Array]:
        """First and second derivative of log p(y | f) in `unconstrained`, shapes (P, ...) and (P, P, ...)."""
        shape = np.broadcast_shapes(np.shape(y), np.shape(f))
        return np.zeros((0, *shape)), np.zeros((0, 0, *shape))

    def parameter_moments(self, y: Array, f: Array) -> Sequence[Array]:
        """Functions of f, in whose expectations `combine_parameters` is linear; default: `d_parameters` itself."""
        return self.d_parameters(y, f)

    def combine_parameters(self, y: Array, moments: Sequence[Array]) -> tuple[Array, Array]:
        """Derivatives in the parameters, (P, ...) and (P, P, ...), from `parameter_moments` or their expectations."""
        first, second = moments
        return first, second

    def sum_parameters(self, y: Array, moments: Sequence[Array], weight: Array | None) -> tuple[Array, Array]:
        """Sums over the data of `combine_parameters`, times their weights: (P,) and (P, P)."""
        first, second = self.combine_parameters(y, moments)
        weight = np.ones(len(y)) if weight is None else weight
        return first @ weight, second @ weight

    def _constrain(self, unconstrained: np.ndarray) -> dict[str, Any]:
        return {}

    def _automatic(self) -> tuple[str, ...]:
        """Names of the parameters still "auto"."""
        values = self.get_params(deep=False)
        names = self._get_param_names()
        return tuple(name for name in names if isinstance(values[name], str) and values[name] == "auto")

    def _replaced(self, values: dict[str, Any], learned: tuple[str, ...]) -> Likelihood:
        fitted = copy.copy(clone(self))
        for name, value in values.items():
            setattr(fitted, name, value)
        fitted.learned = tuple(learned)
        fitted.least = self.least
        return fitted

    def _number(self, name: str) -> float:
        """A scale parameter as a positive number."""
        value = getattr(self, name)
        if isinstance(value, str):
            if value != "auto":
                raise ValueError(f'{type(self).__name__} needs {name}="auto" or a positive number; found {value!r}.')
            raise ValueError(
                f'{type(self).__name__}({name}="auto") has no value yet: call start(y), or give {name} a number.'
            )
        if not isinstance(value, Real) or not 0 < float(value) < np.inf:
            raise ValueError(f'{type(self).__name__} needs {name}="auto" or a positive number; found {value!r}.')
        return float(value)


#: Standard deviation of y, per standard deviation (or size) of all y, below which a learned noise does not go.
LEAST_NOISE = 1e-4


def weighted_moments(y: Array, weight: Array | None) -> tuple[float, float]:
    """Weighted mean and variance of y, shape (n,)."""
    y = np.asarray(y, dtype=float)
    weight = np.ones(len(y)) if weight is None else np.asarray(weight, dtype=float)
    total = weight.sum()
    if not total > 0:
        raise ValueError("weights must sum to a positive number to start a likelihood's parameters.")
    mean = float(weight @ y / total)
    return mean, float(weight @ (y - mean) ** 2 / total)


def weighted_median(y: Array, weight: Array | None) -> float:
    """Median of y, shape (n,), in which a weight of k counts as k values."""
    if weight is None:
        return float(np.median(y))
    order = np.argsort(y, kind="stable")
    values, reached = np.asarray(y, dtype=float)[order], np.cumsum(np.asarray(weight, dtype=float)[order])
    half = 0.5 * reached[-1]
    low, high = np.searchsorted(reached, half, side="left"), np.searchsorted(reached, half, side="right")
    return float(0.5 * (values[low] + values[min(high, len(values) - 1)]))
