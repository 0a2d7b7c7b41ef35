"""What every likelihood offers: p(y | f), its derivatives in f, moments, predictive integrals and learned scales."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from functools import lru_cache
from numbers import Real
from typing import Any, ClassVar, Self

import numpy as np
from sklearn.base import BaseEstimator

from sksvi.likelihoods.scales import Scales
from sksvi.likelihoods.tails import Tails
from sksvi.likelihoods.traits import (
    LARGEST_COUNT,
    LARGEST_TARGET,
    SMALLEST_COUNT,
    Array,
    LikelihoodTraits,
    ScaleMixture,
    Support,
    as_float,
    safe_exp,
)


@lru_cache(maxsize=64)
def _names(cls: type[Likelihood]) -> tuple[str, ...]:
    """Names of a likelihood's parameters."""
    return tuple(cls._get_param_names())


class Likelihood(BaseEstimator):
    """Base of all likelihoods p(y | f), for arrays y and f that broadcast; log densities in nats.

    A subclass gives `derivatives`, `mean`, `conditional_variance`, `cdf`, `ppf` and `sample`; all else has a default.
    Scale-like parameters are ``"auto"`` (learned; `start` finds a first value) or a number (fixed).
    What more is known of a distribution is declared, never asked by class: a declaration adds a closed form or spares
    nodes; without it the same numbers come by quadrature. `check_likelihood` tests each.

    Attributes
    ----------
    n_latents : int
        Latent values per datum; with several `mean` is that of the indicator of each level, on the last axis.
    support : Support
        Values y may take.
    width : float
        A third of the distance of the nearest complex singularity of log p(y | f) in f; sets the quadrature's step.
    traits : LikelihoodTraits
        Whether y is counted or has levels, whether p(y | f) is log-concave, and the like.
    levels : ndarray of shape (L,) or None
        The values of y where they are finitely many.
    noise_variance : float or None
        Variance of the noise of an additive y where it is Gaussian.
    scale_mixture : ScaleMixture or None
        How the variance of that noise is distributed where it is Gaussian given its variance.
    variance_function : tuple of float or None
        (a, b) where E[y | f] = exp(f) = mu and Var[y | f] = a mu + b mu^2.
    ratio : {"odds", "rate"} or None
        What a step of log r in f multiplies by r: the odds of y (of more than a level, of one class against another)
        or its mean.
    link_unit : float
        Unit of f behind a link, 2 of a logit: 1 over the root of the most curvature that log p of a row has, or 1.
    learned : tuple of str
        Names of the parameters that `start` replaced by numbers and that a fit goes on to learn.
    """

    n_latents: int = 1
    #: Parameters that columns may predict, by the kind of their predictor g: name and power, a number exp(power g).
    predictable: ClassVar[Mapping[str, tuple[str, float]]] = {}
    support: Support = Support(-np.inf, np.inf, False, "finite y")
    traits: LikelihoodTraits = LikelihoodTraits()
    learned: tuple[str, ...] = ()
    #: Least value of a learned scale, as `start` finds it: data that are fitted exactly would take it to zero.
    least: float = 0.0

    @property
    def width(self) -> float:
        return 1.0

    @property
    def link_unit(self) -> float:
        return 2.0 if self.ratio == "odds" else 1.0

    @property
    def levels(self) -> np.ndarray | None:
        """Values of y in increasing order, shape (L,), where they are finitely many; default: those of `support`."""
        support = self.support
        finite = support.integer and np.isfinite(support.low) and np.isfinite(support.high)
        return np.arange(support.low, support.high + 1.0) if finite else None

    @property
    def noise_variance(self) -> float | None:
        """Variance s where y | f ~ N(f, s); a learned one has the one unconstrained value log(s - least)."""
        return None

    @property
    def scale_mixture(self) -> ScaleMixture | None:
        """The distribution of s where y | f ~ N(f, s); it replaces log-concavity in the bounds with noise."""
        return None

    @property
    def variance_function(self) -> tuple[float, float] | None:
        """(a, b) where E[y | f] = exp(f) = mu and Var[y | f] = a mu + b mu^2: closed moments of y; else None."""
        return None

    @property
    def tails(self) -> Tails | None:
        """Probabilities beyond y, of a y that may be censored; None: it may not."""
        return None

    @property
    def uncensored(self) -> Likelihood:
        """The likelihood of y that is seen to its end."""
        return self

    def points(self, y: Array) -> Array:
        """Numbers that stand for y where its size is asked for, shape (n,): y itself, of what is censored a bound."""
        return y

    @property
    def ratio(self) -> str | None:
        """What exp of a change of f multiplies: "odds", "rate" (the mean), or None where it multiplies neither."""
        return None if self.variance_function is None else "rate"

    def overdispersible(self, y: Array) -> bool:
        """Whether data y can show more variance than p(y | f): counts and rates without a dispersion of their own."""
        return False

    def excess(self, y: Array, mean: Array) -> tuple[Array, Array, Array, Array] | None:
        """Squares of y - mean beyond their expectation, their second and third moment, and the variance of y.

        What they regress on y - mean is taken off, so that a mean that is estimated hardly moves them. None: of a
        likelihood that is not asked whether y varies more than it lets it.

        Parameters
        ----------
        y : ndarray of shape (n,), or (n, 2) successes and failures
        mean : ndarray of shape (n,)
            E[y], of successes and failures the proportion.
        """
        return None

    def check_target(self, y: Array) -> None:
        """Raise ValueError naming the first value of y, shape (n,), outside the support, and its row."""
        row = self.support.first_outside(y)
        if row is not None:
            value = np.asarray(y)[row]
            shown = value if np.ndim(value) else f"{value:g}"
            raise ValueError(f"{type(self).__name__} needs {self.support.text}; found {shown} in row {row}.")
        size = np.abs(np.asarray(y, dtype=float))
        most, least = (LARGEST_COUNT, SMALLEST_COUNT) if self.traits.discrete else (LARGEST_TARGET, 0.0)
        top = float(size.max(initial=0.0))
        if not self.traits.discrete and 0 < top < 1.0 / LARGEST_TARGET:
            raise ValueError(f"y is at most {top:g}, whose square is no number: give y in another unit.")
        if top <= most and not (least and np.any((size > 0) & (size < least))):
            return
        beyond = (size > most) | ((size > 0) & (size < least))
        if np.any(beyond):
            row, value = int(np.argmax(beyond)) // max(1, size[0].size), np.asarray(y)[beyond].flat[0]
            limits = f"0 or from {least:g} to {most:g}" if least else f"within ±{most:g}"
            raise ValueError(
                f"{type(self).__name__} needs y {limits}, where sums and squares are numbers; found {value:g} in row "
                f"{row}: give y in another unit, or leave the row out."
            )

    def derivatives(self, y: Array, f: Array) -> tuple[Array, Array, Array]:
        """log p(y | f) and its first and second derivative in f, each of the broadcast shape."""
        raise TypeError(f"{type(self).__name__} needs a method derivatives")

    def curvature_root(self, f: Array, curve: Array) -> tuple[Array, Callable[[Array], Array]]:
        """Root of the curvature Γ = diag(s) Π diag(s) of -log p(y | f) in the latents of a row: s, and Π.

        Parameters
        ----------
        f, curve : ndarray of shape (n, K)
            Latents, and the second derivatives of `derivatives` there.

        Returns
        -------
        scale : ndarray of shape (n, K)
        project : callable
            The projection Π of directions (n, K); of one latent the identity.
        """
        return np.sqrt(np.maximum(-curve, 0.0)), lambda direction: direction

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

    def ppf(self, p: Array | float, f: Array) -> Array:
        """Smallest y with P(Y <= y | f) >= p."""
        raise TypeError(f"{type(self).__name__} needs a method ppf")

    def sample(self, f: Array, rng: np.random.Generator) -> Array:
        """One draw of y for each f."""
        raise TypeError(f"{type(self).__name__} needs a method sample")

    def probabilities(self, f: Array) -> Array:
        """P(y = level | f) of each of the `levels`, on a new first axis."""
        if self.levels is None:
            raise ValueError(f"{type(self).__name__} has no classes, so no probabilities of them.")
        f = as_float(f)
        if self.traits.symmetric:
            return np.stack([self.mean(-f), self.mean(f)])
        axes = np.ndim(f) - (self.n_latents > 1)
        return np.exp(self.log_prob(self.levels.reshape(-1, *[1] * axes), f))

    def expected(self, y: Array, m: Array, v: Array) -> tuple[Array, Array, Array] | None:
        """Closed form of E log p(y | f) under f ~ N(m, v) and its derivatives in m and v; None where there is none."""
        return None

    def expected_given_rate(self, y: Array, mean: Array, log_rate: Array) -> tuple[Array, Array, Array] | None:
        """E log p(y | f) for any distribution of f where it needs E f and log E exp(f) alone, else None.

        With its derivative in a shift of f, and in a variance of f of which `log_rate` grows by half.
        """
        return None

    def expected_mean(self, m: Array, v: Array) -> Array | None:
        """Closed form of E[y] under f ~ N(m, v), or None."""
        if self.traits.additive:
            return self.mean(m)
        return None if self.variance_function is None else safe_exp(m + 0.5 * as_float(v))

    def log_predictive(self, y: Array, m: Array, v: Array) -> Array | None:
        """Closed form of log E p(y | f) under f ~ N(m, v), or None."""
        return None

    def log_predictive_derivatives(self, y: Array, m: Array, v: Array) -> tuple[Array, Array, Array] | None:
        """Closed form of log E p(y | f) and of its first and second derivative in m, or None."""
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

    def row_width(self, y: Array) -> Array:
        """Scale in f of p(y | f) where it is not log-concave in f, a number per row."""
        return self.cdf_width(y)

    def unit_deviance(self, y: Array, mu: Array) -> Array | None:
        """Twice the log-likelihood lost by predicting mean mu for y, per datum; None where R^2 is the score."""
        return None

    def start(self, y: Array, weight: Array | None = None) -> Likelihood:
        """Copy with every "auto" parameter replaced by a first value found from y, shape (n,), and its weights."""
        return self._replaced({}, self._automatic())

    @property
    def scales(self) -> Scales[Likelihood]:
        """What a fit does with the learned parameters."""
        return Scales(self)

    @property
    def reported(self) -> dict[str, float]:
        """Learned parameters as tables show them: names and numbers."""
        values = {name: np.asarray(getattr(self, name), dtype=float) for name in self.learned}
        return {
            name if not value.ndim else f"{name}[{k}]": float(number)
            for name, value in values.items()
            for k, number in enumerate(value.ravel())
        }

    @property
    def unconstrained(self) -> np.ndarray:
        """Learned parameters on the real line, shape (P,)."""
        return np.zeros(0)

    def replace(self, unconstrained: Array) -> Self:
        """Copy with the learned parameters set from their unconstrained values, shape (P,)."""
        found = np.asarray(unconstrained, dtype=float)
        if found.shape != ((size := self.scales.size),):
            name = type(self).__name__
            raise ValueError(f"{name} learns {size} parameters; found an array of shape {found.shape}.")
        return self._replaced(self._constrain(found), self.learned)

    def d_parameters(self, y: Array, f: Array) -> tuple[Array, Array]:
        """First and second derivative of log p(y | f) in `unconstrained`, shapes (P, ...) and (P, P, ...)."""
        shape = np.broadcast_shapes(np.shape(y), np.shape(f))
        return np.zeros((0, *shape)), np.zeros((0, 0, *shape))

    def predictor(self, kind: str) -> float:
        """Value of the predictor of this kind at which its parameter is what it is here."""
        name, power = self.predictable[kind]
        return float(np.log(self._number(name))) / power

    def expected_of_predictors(self, y: Array, m: Array, v: Array) -> tuple[Array, Array, Array] | None:
        """Closed form of E log p(y | f, g), g the predictor of a scale, and its derivatives in m and v, or None.

        Parameters
        ----------
        y : ndarray of shape (n,)
        m, v : ndarray of shapes (n, 2) and (n, 2, 2)
            Mean and covariance of (f, g).
        """
        return None

    def given_predictor(self, kind: str, g: Array, learned: tuple[str, ...]) -> Self:
        """Copy whose parameter of this kind is a number for each value, by its predictor g; others are learned or not.

        Parameters
        ----------
        kind : str
            One of `predictable`.
        g : ndarray
            Broadcasts with y and f.
        learned : tuple of str
            Which parameters `d_parameters` differentiates by; of the one that is predicted by power times g.
        """
        name, power = self.predictable[kind]
        found = self._replaced({name: safe_exp(power * as_float(g))}, learned)
        found.least = 0.0 if name in learned else self.least
        return found

    def _constrain(self, unconstrained: np.ndarray) -> dict[str, Any]:
        return {}

    def _automatic(self) -> tuple[str, ...]:
        """Names of the parameters still "auto"."""
        values = {name: getattr(self, name) for name in _names(type(self))}  # type: ignore[arg-type]  # classes are hashable
        return tuple(name for name, value in values.items() if isinstance(value, str) and value == "auto")

    def _replaced(self, values: dict[str, Any], learned: tuple[str, ...]) -> Self:
        fitted = object.__new__(type(self))  # scikit-learn's clone, whose look at signatures takes its time
        for name in _names(type(self)):  # type: ignore[arg-type]  # classes are hashable
            setattr(fitted, name, values[name] if name in values else copy.deepcopy(getattr(self, name)))
        fitted.learned = tuple(learned)
        fitted.least = self.least
        return fitted

    def _number(self, name: str) -> float:
        """A scale parameter as a positive number."""
        value = getattr(self, name)
        if type(value) is float and 0.0 < value < np.inf:  # a search asks for it at every look
            return value
        if isinstance(value, np.ndarray):  # of a predictor, one for each value
            return value  # type: ignore[return-value]
        if isinstance(value, str) and value == "auto":
            raise ValueError(
                f'{type(self).__name__}({name}="auto") has no value yet: call start(y), or give {name} a number.'
            )
        if not isinstance(value, Real) or not 0 < float(value) < np.inf:
            raise ValueError(f'{type(self).__name__} needs {name}="auto" or a positive number; found {value!r}.')
        return float(value)
