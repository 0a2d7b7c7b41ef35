"""Likelihoods of counts whose zeros have a probability of their own: zero-inflated and hurdle distributions.

With t the logit of that probability and l(f) = log P(0 | f) of the counts alone, an inflated zero has log p =
log(exp(t) + exp(l)) - log(1 + exp(t)). Behind a hurdle counts are truncated: log p(y) - log(1 - exp(l)).
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from sksvi.integrals import quadrature
from sksvi.likelihoods.base import Likelihood
from sksvi.likelihoods.counts import COUNT, NegativeBinomial, Poisson
from sksvi.likelihoods.scales import Scales
from sksvi.likelihoods.traits import Array, LikelihoodTraits, as_float, log_sigmoid, safe_exp, sigmoid, softplus

Terms = tuple[Array, Array, Array]

#: Shares of zeros that a fit begins with, at least and at most.
FIRST_SHARE = (0.02, 0.98)
#: A latent below has counts of mean 0 beside 1: what is truncated there has the limit of its logarithm.
LOWEST, LOWEST_SINGLE = -500.0, -60.0
#: And above it a zero has no probability.
MOST, MOST_SINGLE = 700.0, 80.0
#: Odd multiples of π, where exp has a negative number.
ODD = np.pi * np.arange(1.0, 40.0, 2.0)


class ExtraZeros(Likelihood):
    """Base of counts with a probability of zero of its own, whose logit t is learned or given.

    A subclass has the parameters `zero_probability` and, of negative binomial counts, `dispersion`.
    """

    support = COUNT
    traits = LikelihoodTraits(discrete=True, log_concave=False)
    predictable = {"zero": ("zero_probability", 1.0)}
    zero_probability: float | str
    #: Logits of a probability that has a predictor.
    _predicted: Array | None = None

    def predictor(self, kind: str) -> float:
        return float(self._logit)

    def given_predictor(self, kind: str, g: Array, learned: tuple[str, ...]) -> Self:
        found = self._replaced({}, learned)
        found._predicted = as_float(g)
        return found

    @property
    def counts(self) -> Poisson | NegativeBinomial:
        """The distribution of counts that are no extra zeros, with what is learned of it."""
        if not hasattr(self, "dispersion"):
            return Poisson()
        own = NegativeBinomial(dispersion=self.dispersion)._replaced({}, ("dispersion",) if self._spread else ())
        own.least = self.least
        return own

    @property
    def _spread(self) -> bool:
        """Whether a dispersion is learned."""
        return "dispersion" in self.learned

    @property
    def _share(self) -> Any:
        """Probability of a zero of its own."""
        if self._predicted is not None:
            return sigmoid(self._predicted)
        share = self._number("zero_probability")
        if not share < 1.0:
            raise ValueError(f"{type(self).__name__} needs zero_probability < 1; found {share!r}.")
        return share

    @property
    def _logs(self) -> tuple[Any, Any]:
        """Log probabilities of a zero of its own, and of a count."""
        if self._predicted is not None:
            return log_sigmoid(self._predicted), log_sigmoid(-self._predicted)
        return float(np.log(self._share)), float(np.log1p(-self._share))

    @property
    def _logit(self) -> Any:
        return self._logs[0] - self._logs[1] if self._predicted is None else self._predicted

    def _log_zero(self, f: Array) -> Terms:
        """Log probability of a zero of the counts with two derivatives, accurate where it is hardly below 0."""
        if not hasattr(self, "dispersion"):
            rate = -safe_exp(f)
            return rate, rate, rate
        dispersion = self._number("dispersion")
        u = f + float(np.log(dispersion))
        slope = sigmoid(u) / -dispersion
        return softplus(u) / -dispersion, slope, slope * sigmoid(-u)

    def _counted(self, y: Array, m: Array, v: Array) -> list[Array]:
        """E log p(y | f) of the counts with its derivatives in m and v, in arrays of their own."""
        found = self.counts.expected(y, m, v)
        assert found is not None
        return [np.array(part) for part in found]

    # ---- learned parameters
    def start(self, y: Array, weight: Array | None = None) -> Likelihood:
        automatic = tuple(name for name in ("zero_probability", "dispersion") if name in self._automatic())
        values: dict[str, Any] = {}
        y = as_float(y)
        if "zero_probability" in automatic:
            values["zero_probability"] = self._first_share(float(np.average(y == 0, weights=weight)))
        counts = NegativeBinomial().start(y[y > 0] if np.any(y > 0) else y, None if weight is None else weight[y > 0])
        if "dispersion" in automatic:
            values["dispersion"] = counts._number("dispersion")
        started = self._replaced(values, automatic)
        started.least = counts.least if "dispersion" in automatic else 0.0
        return started

    @abstractmethod
    def _first_share(self, zeros: float) -> float:
        """First probability of a zero of its own, given the share of zeros."""

    @property
    def scales(self) -> Scales[Likelihood]:
        return ZeroShare(self)

    @property
    def reported(self) -> dict[str, float]:
        share = self._share
        odds = {"odds(zero)": share / (1.0 - share)} if "zero_probability" in self.learned else {}
        return odds | self.counts.reported

    @property
    def unconstrained(self) -> np.ndarray:
        own = [self._logit] if "zero_probability" in self.learned else []
        return np.concatenate([own, self.counts.unconstrained])

    def _constrain(self, unconstrained: np.ndarray) -> dict[str, Any]:
        own = len(unconstrained) - int(self._spread)
        found = {"zero_probability": float(sigmoid(unconstrained[0]))} if own else {}
        return found | self.counts._constrain(unconstrained[own:])

    def d_parameters(self, y: Array, f: Array) -> tuple[Array, Array]:
        y, f = np.broadcast_arrays(as_float(y), as_float(f))
        slope, bend, cross, first, second = self._in_parameters(y, f)
        if "zero_probability" not in self.learned:
            return first, second
        g, h = np.concatenate([slope[None], first]), np.zeros((1 + len(first), 1 + len(first), *f.shape))
        h[0, 0], h[1:, 1:] = bend, second
        h[0, 1:] = h[1:, 0] = cross
        return g, h

    @abstractmethod
    def _in_parameters(self, y: Array, f: Array) -> tuple[Array, Array, Array, Array, Array]:
        """Derivatives of log p in t, twice, in t and the counts' parameters (P, ...), and twice in these."""

    # ---- the distribution of y
    @abstractmethod
    def _positive_share(self, f: Array) -> Array:
        """P(y > 0 | f) over that of the counts alone."""

    def mean(self, f: Array) -> Array:
        return self._positive_share(f) * self.counts.mean(f)

    def conditional_variance(self, f: Array) -> Array:
        share, mean = self._positive_share(f), np.minimum(self.counts.mean(f), 1e150)
        return share * (self.counts.conditional_variance(f) + (1.0 - share) * mean * mean)

    def cdf(self, y: Array, f: Array) -> Array:
        below = 1.0 - self._positive_share(f) * (1.0 - self.counts.cdf(y, f))
        return np.where(np.asarray(y) < 0, 0.0, np.clip(below, 0.0, 1.0))

    def ppf(self, p: Array | float, f: Array) -> Array:
        left = (1.0 - np.asarray(p)) / self._positive_share(f)  # P(counts > y) that is left
        return np.where(left < 1.0, self.counts.ppf(np.clip(1.0 - left, 0.0, 1.0), f), 0.0)

    def sample(self, f: Array, rng: np.random.Generator) -> Array:
        return self.ppf(1.0 - rng.random(np.shape(f)), f)

    def centre(self, y: Array) -> Array:
        return np.where(np.asarray(y) > 0, self.counts.centre(y), self.bends[0])

    @property
    def bends(self) -> np.ndarray:
        return np.zeros(1)

    def cdf_centre(self, y: Array) -> Array:
        return self.counts.cdf_centre(y)

    def cdf_width(self, y: Array) -> Array:
        return self.counts.cdf_width(y)


@dataclass(frozen=True)
class ZeroShare(Scales[ExtraZeros]):
    """The logit of the probability of a zero of its own, which is uniform a priori, and a dispersion."""

    @property
    def size(self) -> int:
        return len(self.likelihood.learned)

    @property
    def noise(self) -> float | None:
        return self.likelihood.counts.scales.noise

    @property
    def flat(self) -> tuple[str, ...]:
        return ()

    def drawn(self, unit: float, rng: Any) -> Array:
        own = rng.logistic(size=self.size - int(self.likelihood._spread))
        return np.concatenate([own, self.likelihood.counts.scales.drawn(unit, rng)]) if self.likelihood._spread else own

    def prior(self) -> tuple[float, np.ndarray, np.ndarray] | None:
        own = self.likelihood
        counts = own.counts.scales.prior()
        if "zero_probability" not in own.learned:
            return counts
        share = own._share
        value, gradient = float(np.log(share) + np.log1p(-share)), np.zeros(self.size)
        hessian = np.zeros(2 * (self.size,))
        gradient[0], hessian[0, 0] = 1.0 - 2.0 * share, -2.0 * share * (1.0 - share)
        if counts is not None:
            value, gradient[1:], hessian[1:, 1:] = value + counts[0], counts[1], counts[2]
        return value, gradient, hessian


# ---- zeros beside those of the counts
class ZeroInflated(ExtraZeros):
    """Base of counts among which zeros are mixed."""

    ratio = "rate"

    def _first_share(self, zeros: float) -> float:
        return float(np.clip(0.5 * zeros, *FIRST_SHARE))

    @property
    def width(self) -> float:
        """A third of the imaginary part at which a zero has no probability: exp(l) = -exp(t)."""
        t = self._logit
        if not hasattr(self, "dispersion"):
            angle = np.abs(np.angle(-np.asarray(t)[..., None] - 1j * ODD)).min(-1)
        else:
            dispersion = self._number("dispersion")
            turns = dispersion * ODD[dispersion * ODD <= np.pi]
            ends = np.exp(-np.asarray(t)[..., None] * dispersion) * np.exp(-1j * turns) - 1.0
            angle = np.abs(np.angle(ends)).min(-1, initial=np.pi)
        return np.minimum(angle, np.pi) / 3.0

    @property
    def bends(self) -> np.ndarray:
        """Where P(0 | f) of the counts is that of a zero of its own."""
        return np.array([np.log(np.maximum(-self._logit, 0.5))])

    def _zero(self, f: Array) -> tuple[Terms, Array]:
        """Log probability of a zero with two derivatives, and the share of the counts in it."""
        value, slope, curve = self._log_zero(as_float(f))
        share = sigmoid(value - self._logit)
        total = softplus(value - self._logit) + self._logs[0]
        return (total, share * slope, share * curve + share * (1.0 - share) * slope * slope), share

    def derivatives(self, y: Array, f: Array) -> Terms:
        f = as_float(f)
        y = np.asarray(y, f.dtype)
        counted, (zero, _) = self.counts.derivatives(y, f), self._zero(f)
        none = y == 0
        found = (counted[0] + self._logs[1], counted[1], counted[2])
        value, slope, curve = (np.where(none, a, b) for a, b in zip(zero, found, strict=True))
        return value, slope, curve

    def expected(self, y: Array, m: Array, v: Array) -> Terms:
        value, dm, dv = self._counted(y, m, v)
        value += self._logs[1]
        rows = np.flatnonzero(np.asarray(y) == 0)
        if len(rows):
            value[rows], dm[rows], bend = quadrature.expect(
                lambda f, at: self._zero(f)[0], m[rows], v[rows], self.width, lambda: self.bends[:, None]
            )
            dv[rows] = 0.5 * bend
        return value, dm, dv

    def expected_mean(self, m: Array, v: Array) -> Array:
        mean = self.counts.expected_mean(m, v)
        assert mean is not None
        return (1.0 - self._share) * mean

    def _positive_share(self, f: Array) -> Array:
        return np.full_like(as_float(f), 1.0 - self._share)

    def _in_parameters(self, y: Array, f: Array) -> tuple[Array, Array, Array, Array, Array]:
        share, own = self._zero(f)[1], self._share
        none = y == 0
        first, second = self.counts.d_parameters(y, f)
        mixed = np.where(none, share * (1.0 - share), 0.0)
        slope = np.where(none, 1.0 - share, 0.0) - own
        own_bend, cross = mixed - own * (1.0 - own), -mixed * first
        weight = np.where(none, share, 1.0)
        return slope, own_bend, cross, weight * first, weight * second + mixed * first[:, None] * first[None]


class ZeroInflatedPoisson(ZeroInflated):
    """Zero-inflated Poisson likelihood: 0 with a probability, else Poisson with mean exp(f).

    Parameters
    ----------
    zero_probability : float or "auto", default="auto"
        Probability of a zero that is none of the counts; "auto" learns it, uniform a priori.

    References
    ----------
    D. Lambert, Zero-inflated Poisson regression, Technometrics 1992.

    Examples
    --------
    >>> from sksvi.likelihoods import ZeroInflatedPoisson
    >>> print(ZeroInflatedPoisson(zero_probability=0.25).mean(0.0))
    0.75
    """

    def __init__(self, *, zero_probability: float | str = "auto") -> None:
        self.zero_probability = zero_probability


class ZeroInflatedNegativeBinomial(ZeroInflated):
    """Zero-inflated negative binomial likelihood: 0 with a probability, else a count with mean exp(f).

    Parameters
    ----------
    zero_probability : float or "auto", default="auto"
        Probability of a zero that is none of the counts; "auto" learns it, uniform a priori.
    dispersion : float or "auto", default="auto"
        Of the counts, as `NegativeBinomial` has it.

    Examples
    --------
    >>> from sksvi.likelihoods import ZeroInflatedNegativeBinomial
    >>> print(ZeroInflatedNegativeBinomial(zero_probability=0.25, dispersion=1.0).mean(0.0))
    0.75
    """

    def __init__(self, *, zero_probability: float | str = "auto", dispersion: float | str = "auto") -> None:
        self.zero_probability = zero_probability
        self.dispersion = dispersion


# ---- zeros in the place of those of the counts
class Hurdle(ExtraZeros):
    """Base of counts of which only positive ones count, beside zeros."""

    def _first_share(self, zeros: float) -> float:
        return float(np.clip(zeros, *FIRST_SHARE))

    @property
    def width(self) -> float:
        return float(np.pi / 6.0)

    def _truncation(self, f: Array) -> tuple[Terms, Array]:
        """-log P(y > 0) of the counts with two derivatives, and the odds of their zero."""
        lowest, most = (LOWEST, MOST) if f.dtype == np.float64 else (LOWEST_SINGLE, MOST_SINGLE)
        low, at = f < lowest, np.maximum(f, lowest)
        value, slope, curve = self._log_zero(at)
        never = value < -most
        odds = 1.0 / np.expm1(np.minimum(-value, most))
        odds, slope, curve = (np.where(never, 0.0, part) for part in (odds, slope, curve))
        total = np.where(low, -f, -np.log(-np.expm1(value)))
        first = odds * slope
        bend = odds * curve + first * (first + slope)
        return (total, np.where(low, -1.0, first), np.where(low, 0.0, bend)), odds

    def derivatives(self, y: Array, f: Array) -> Terms:
        f = as_float(f)
        y = np.asarray(y, f.dtype)
        log_zero, log_more = self._logs
        counted, (truncated, _) = self.counts.derivatives(y, f), self._truncation(f)
        none = y == 0
        value = np.where(none, log_zero, counted[0] + truncated[0] + log_more)
        slope, curve = (np.where(none, 0.0, a + b) for a, b in zip(counted[1:], truncated[1:], strict=True))
        return value, slope.astype(f.dtype, copy=False), curve.astype(f.dtype, copy=False)

    def expected(self, y: Array, m: Array, v: Array) -> Terms:
        value, dm, dv = self._counted(y, m, v)
        none = np.asarray(y) == 0
        value[none], dm[none], dv[none] = self._logs[0], 0.0, 0.0
        rows = np.flatnonzero(~none)
        if len(rows):
            more, slope, bend = quadrature.expect(
                lambda f, at: self._truncation(f)[0], m[rows], v[rows], self.width, lambda: self.bends[:, None]
            )
            value[rows] += more + self._logs[1]
            dm[rows] += slope
            dv[rows] += 0.5 * bend
        return value, dm, dv

    def _positive_share(self, f: Array) -> Array:
        f = as_float(f)
        return (1.0 - self._share) * np.exp(np.minimum(self._truncation(f)[0][0], 300.0))

    def mean(self, f: Array) -> Array:
        # Of truncated counts that are hardly ever positive it is 1.
        f = as_float(f)
        return np.where(f < LOWEST, 1.0 - self._share, super().mean(np.maximum(f, LOWEST)))

    def _in_parameters(self, y: Array, f: Array) -> tuple[Array, Array, Array, Array, Array]:
        none, own = y == 0, self._share
        odds = self._truncation(f)[1]
        first, second = self.counts.d_parameters(y, f)
        zero, bend = self.counts.d_parameters(np.zeros_like(y), np.maximum(f, LOWEST))
        first = np.where(none, 0.0, first + odds * zero)
        more = odds * bend + odds * (1.0 + odds) * zero[:, None] * zero[None]
        second = np.where(none, 0.0, second + more)
        slope = np.where(none, 1.0, 0.0) - own
        return slope, np.full_like(slope, -own * (1.0 - own)), np.zeros_like(first), first, second


class HurdlePoisson(Hurdle):
    """Hurdle likelihood: 0 with a probability, else a positive Poisson count, of exp(f) before its zeros are left out.

    Parameters
    ----------
    zero_probability : float or "auto", default="auto"
        Probability of a zero; "auto" learns it, uniform a priori.

    References
    ----------
    J. Mullahy, Specification and testing of some modified count data models, Journal of Econometrics 1986.

    Examples
    --------
    >>> from sksvi.likelihoods import HurdlePoisson
    >>> print(HurdlePoisson(zero_probability=0.25).cdf(0.0, 0.0).round(4))
    0.25
    """

    def __init__(self, *, zero_probability: float | str = "auto") -> None:
        self.zero_probability = zero_probability


class HurdleNegativeBinomial(Hurdle):
    """Hurdle likelihood: 0 with a probability, else a positive negative binomial count.

    Parameters
    ----------
    zero_probability : float or "auto", default="auto"
        Probability of a zero; "auto" learns it, uniform a priori.
    dispersion : float or "auto", default="auto"
        Of the counts before their zeros are left out, as `NegativeBinomial` has it.

    Examples
    --------
    >>> from sksvi.likelihoods import HurdleNegativeBinomial
    >>> print(HurdleNegativeBinomial(zero_probability=0.25, dispersion=1.0).cdf(0.0, 0.0).round(4))
    0.25
    """

    def __init__(self, *, zero_probability: float | str = "auto", dispersion: float | str = "auto") -> None:
        self.zero_probability = zero_probability
        self.dispersion = dispersion
