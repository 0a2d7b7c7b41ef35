"""Likelihoods with a second latent g, of a scale, dispersion or probability of zeros: y | f, g with (f, g) Gaussian.

A number that other likelihoods learn is exp(power g) here, or the probability of a zero sigmoid(g). Expectations are
nested: nodes of g, and at each of them nodes of f given g, whose mean is m_f + c (g - m_g) / v_g with c = cov(f, g), so
that both rules know what bends the integrand. By Stein's identity E (g - m_g) l' = v_g E dl'/dg + c E l'', l' the slope
in f: it gives the mixed derivative, and all others are the likelihood's own.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from operator import attrgetter
from typing import Any

import numpy as np

from sksvi.integrals import quadrature
from sksvi.likelihoods.base import Likelihood
from sksvi.likelihoods.scales import Scales
from sksvi.likelihoods.traits import Array, LikelihoodTraits, as_float

#: Scale in g over which log p(y | f, g) bends: of log(1 + z² exp(-2g)) a third of π / 2.
WIDTH = 0.5
#: Least deviation of g that nodes have: beside the width its square is no error, and differences keep their digits.
LEAST_DEVIATION = 1e-5


class Distributional(Likelihood):
    """A likelihood whose scale, dispersion or probability of zeros has a predictor g of its own.

    Latents are pairs (f, g) on a last axis. What else the likelihood learns it goes on to learn.

    Parameters
    ----------
    likelihood : Likelihood
        After `start` with a number where g begins.
    kind : {"scale", "zero"}
        What g predicts: see `Likelihood.predictable`.

    Examples
    --------
    >>> import numpy as np
    >>> from sksvi.likelihoods import Gaussian
    >>> from sksvi.likelihoods.distributional import Distributional
    >>> print(Distributional(Gaussian(), "scale").log_prob(0.0, np.array([0.0, 1.0])).round(4))
    -1.9189
    """

    support = property(attrgetter("likelihood.support"))
    link_unit = property(attrgetter("likelihood.link_unit"))
    ratio = property(attrgetter("likelihood.ratio"))

    def __init__(self, likelihood: Likelihood, kind: str) -> None:
        self.likelihood = likelihood
        self.kind = kind

    @property
    def traits(self) -> LikelihoodTraits:  # type: ignore[override]
        return replace(self.likelihood.traits, log_concave=False, exponential=False)

    @property
    def parameter(self) -> tuple[str, float]:
        """Name of the parameter that g predicts, and its power."""
        return self.likelihood.predictable[self.kind]

    def at(self, g: Array, learned: tuple[str, ...] = ()) -> Likelihood:
        """The likelihood of y given f, at each of the values of g."""
        return self.likelihood.given_predictor(self.kind, g, learned)

    # ---- y given both latents
    def derivatives(self, y: Array, f: Array) -> tuple[Array, Array, Array]:
        """log p(y | f, g), and its first and second derivatives in f and in g on a last axis."""
        f = as_float(f)
        name, power = self.parameter
        value, slope, curve, first, second = _terms(self.at(f[..., 1], (name,)), y, f[..., 0])
        return value, np.stack([slope, power * first], -1), np.stack([curve, power**2 * second], -1)

    def log_prob(self, y: Array, f: Array) -> Array:
        return self.at(as_float(f)[..., 1]).log_prob(y, as_float(f)[..., 0])

    def mean(self, f: Array) -> Array:
        return self.at(f[..., 1]).mean(f[..., 0])

    def conditional_variance(self, f: Array) -> Array:
        return self.at(f[..., 1]).conditional_variance(f[..., 0])

    def cdf(self, y: Array, f: Array) -> Array:
        return self.at(f[..., 1]).cdf(y, f[..., 0])

    def ppf(self, p: Array | float, f: Array) -> Array:
        return self.at(f[..., 1]).ppf(p, f[..., 0])

    def sample(self, f: Array, rng: np.random.Generator) -> Array:
        return self.at(f[..., 1]).sample(f[..., 0], rng)

    def unit_deviance(self, y: Array, mu: Array) -> Array | None:
        return None

    # ---- expectations
    def expected(self, y: Array, m: Array, v: Array) -> tuple[Array, Array, Array]:
        m, v, y = as_float(m), as_float(v), np.asarray(y)
        closed = self.likelihood.expected_of_predictors(y, m, v)
        if closed is not None:
            return closed
        name, power = self.parameter
        value, slope, curve, first, second, away = self.integrated(y, m, v, (name,), _terms, moment=1)
        mixed = (away - v[:, 0, 1] * curve) / np.maximum(v[:, 1, 1], LEAST_DEVIATION**2)
        bend = np.stack([np.stack([curve, mixed], -1), np.stack([mixed, power**2 * second], -1)], -2)
        return value, np.stack([slope, power * first], -1), 0.5 * bend

    def integrated(
        self,
        y: Array,
        m: Array,
        v: Array,
        learned: tuple[str, ...],
        terms: Callable[[Likelihood, Array, Array], Sequence[Array]],
        moment: int | None = None,
    ) -> list[Array]:
        """E of each of the terms of the likelihood given g, (..., n); and of (g - m_g) times that one of them.

        Parameters
        ----------
        y : ndarray of shape (n,)
        m, v : ndarray of shapes (n, 2) and (n, 2, 2)
        learned : tuple of str
            Parameters of the likelihood given g that have derivatives.
        terms : callable
            Of the likelihood given g, y and f.
        moment : int or None
        """
        variance = np.maximum(v[:, 1, 1], LEAST_DEVIATION**2)
        pull = v[:, 0, 1] / variance
        rest = np.maximum(v[:, 0, 0] - pull * v[:, 0, 1], 0.0)

        def given(g: Array, rows: Any) -> list[Array]:
            own, of = np.broadcast_to(y[rows], g.shape).ravel(), g.ravel()
            mean = (m[rows, 0] + pull[rows] * (g - m[rows, 1])).ravel()
            found = quadrature.expect(
                lambda f, some: terms(self.at(of[some], learned), own[some], f),
                mean,
                np.broadcast_to(rest[rows], g.shape).ravel(),
                self.at(of).width,
                lambda: self.at(of).centre(own),
            )
            found = [part.reshape(*part.shape[:-1], *g.shape) for part in found]
            return found if moment is None else [*found, (g - m[rows, 1]) * found[moment]]

        return quadrature.expect(given, np.ascontiguousarray(m[:, 1]), variance, WIDTH)

    # ---- learned parameters
    def start(self, y: Array, weight: Array | None = None) -> Likelihood:
        started = self.likelihood.start(y, weight)
        name, _ = self.parameter
        if name not in started.learned:
            raise ValueError(
                f"{self.kind}_features predict {name} of {type(started).__name__}, which has a number: "
                f'{getattr(started, name)!r}. Set {name}="auto", or {self.kind}_features=None.'
            )
        return self._with(started._replaced({}, tuple(one for one in started.learned if one != name)))

    def _with(self, likelihood: Any) -> Distributional:
        found = Distributional(likelihood, self.kind)
        found.learned, found.least = likelihood.learned, likelihood.least
        return found

    @property
    def scales(self) -> Scales[Likelihood]:
        return OtherScales(self)

    @property
    def reported(self) -> dict[str, float]:
        return self.likelihood.reported if self.learned else {}

    @property
    def unconstrained(self) -> np.ndarray:
        return self.likelihood.unconstrained if self.learned else np.zeros(0)

    def replace(self, unconstrained: Array) -> Distributional:
        return self._with(self.likelihood.replace(unconstrained)) if self.learned else self

    def d_parameters(self, y: Array, f: Array) -> tuple[Array, Array]:
        return self.at(f[..., 1], self.learned).d_parameters(y, f[..., 0])


@dataclass(frozen=True)
class OtherScales(Scales[Distributional]):
    """The learned parameters that have no predictor."""

    @property
    def _own(self) -> Scales[Any]:
        return self.likelihood.likelihood.scales

    @property
    def noise(self) -> float | None:
        return None

    @property
    def flat(self) -> tuple[str, ...]:
        return tuple(name for name in self._own.flat if name in self.likelihood.learned)

    @property
    def log_jacobian(self) -> float:
        return self._own.log_jacobian

    def drawn(self, unit: float, rng: Any) -> Array:
        return self._own.drawn(unit, rng) if self.likelihood.learned else np.zeros(0)

    def warnings(self) -> list[str]:
        return self._own.warnings()

    def prior(self) -> tuple[float, Array, Array] | None:
        return self._own.prior() if self.likelihood.learned else None

    def expected(self, y: Array, m: Array, v: Array) -> tuple[Array, Array] | None:
        own = self.likelihood
        first, second = own.integrated(y, m, v, own.learned, lambda given, y, f: given.d_parameters(y, f))
        return first, second


def _terms(given: Likelihood, y: Array, f: Array) -> list[Array]:
    """log p(y | f), two derivatives in f, and two in the one learned parameter."""
    first, second = given.d_parameters(y, f)
    return [*given.derivatives(y, f), first[0], second[0, 0]]
