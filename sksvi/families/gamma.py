"""Gamma blocks: q of positive numbers, such as the precision of noise."""

from __future__ import annotations

from functools import cached_property
from typing import Any, Self

import numpy as np
from scipy.special import digamma, gammaln, polygamma

from sksvi._typing.arrays import ArrayLike, RandomState
from sksvi.families.base import RULE_NODES, Draw, NotPositiveDefinite, are_positive, in_order
from sksvi.families.dirichlet import LEAST_SHARE, log_gammas
from sksvi.families.flat import Flat
from sksvi.families.implicit import LARGE_SHAPE, gamma_nodes, log_slope, moments_with_slope

Array = np.ndarray

#: Least share of the smaller of old and new parameters that a step beyond the new ones leaves.
LEAST_LEFT = 0.3
#: Fewest draws that a Fisher matrix is estimated from, and log of the least value of a draw: x f'(x) is a number there.
LEAST_DRAWS, LEAST_LOG = 4, -690.0
#: Determinant of a Fisher matrix from draws, as a share of the exact one, below which it is all rounding.
LEAST_DETERMINANT = 1e-6


class Gamma(Flat):
    """Independent q(x_k) = Gamma(shape_k, rate_k), x_k > 0; natural (shape, -rate), moments E log x and E x.

    The density is rate^shape x^(shape - 1) exp(-rate x) / Γ(shape), of mean shape/rate and variance shape/rate².

    Parameters
    ----------
    shape, rate : array-like of shape (K,), or (P, K) for plates
        Positive; the rate in one over the unit of x.

    Raises
    ------
    NotPositiveDefinite
        For a parameter that is not positive and finite.

    Examples
    --------
    >>> import numpy as np
    >>> from sksvi.families import Gamma
    >>> q = Gamma(np.array([4.0]), np.array([2.0]))
    >>> print(q.mean, q.std, round(q.kl(Gamma(np.ones(1), np.ones(1))), 3))
    [2.] [1.] 0.67
    """

    LAYOUT = "shape (…) f >0; rate (…) f >0"

    array_dims = {"shape": 0, "rate": 0}
    slopes_at_nodes = True

    def __init__(self, shape: ArrayLike, rate: ArrayLike) -> None:
        self.shape, self.rate = in_order(shape), in_order(rate)
        for name, values in (("shape", self.shape), ("rate", self.rate)):
            if not are_positive(values):
                worst = int(np.argmin(np.where(np.isfinite(values), values, -np.inf)))
                raise NotPositiveDefinite(f"the {name} of a Gamma distribution is {values.flat[worst]}", worst)

    @property
    def mean(self) -> Array:
        """E x, (K,)."""
        return self.shape / self.rate

    @property
    def variance(self) -> Array:
        """Var x, (K,)."""
        return self.shape / self.rate / self.rate  # whose square may be no number

    @property
    def mean_log(self) -> Array:
        """E log x, (K,)."""
        return self._digamma - np.log(self.rate)

    @cached_property
    def _digamma(self) -> Array:
        """ψ(a), (K,): a step, the bound and what rows see all ask for it."""
        return np.asarray(digamma(self.shape))

    @cached_property
    def _log_gamma(self) -> Array:
        """log Γ(a), (K,)."""
        return np.asarray(gammaln(self.shape))

    def _changed(self) -> None:
        for name in ("_digamma", "_log_gamma"):
            vars(self).pop(name, None)

    # ---- the family
    @property
    def theta(self) -> Array:
        """(shape, -rate), (K, 2)."""
        return np.stack([self.shape, -self.rate], -1)

    def of_theta(self, theta: Array) -> Self:
        """The distribution with these natural parameters."""
        return type(self)(theta[..., 0], -theta[..., 1])

    @property
    def moments(self) -> Array:
        """E log x and E x, (K, 2)."""
        return np.stack([self.mean_log, self.mean], -1)

    @property
    def log_normaliser(self) -> Array:
        """log Γ(a) - a log b, (K,)."""
        return self._log_gamma - self.shape * np.log(self.rate)

    def kl(self, prior: Gamma) -> float:
        """KL(q ‖ prior), nats, summed over coordinates."""
        return float(np.sum(self.divergence(prior)))

    def divergence(self, prior: Gamma) -> Array:
        """KL(q ‖ prior) of each coordinate, nats, free of the cancellation between large log normalisers."""
        gain = (self.shape - prior.shape) * self._digamma - self._log_gamma + prior._log_gamma
        gain += prior.shape * np.log(self.rate / prior.rate) + self.shape * (prior.rate / self.rate - 1.0)
        return gain

    def beyond(self, before: Gamma, share: float) -> Gamma:
        """Shape and rate a share further than from `before`, at least `LEAST_LEFT` of the smaller of old and new."""
        return type(self)(
            *(
                np.maximum(new + share * (new - old), LEAST_LEFT * np.minimum(new, old))
                for new, old in ((self.shape, before.shape), (self.rate, before.rate))
            )
        )

    def fisher(self, v: Array) -> Array:
        """[[ψ'(a), 1/b], [1/b, a/b²]] v."""
        in_shape = polygamma(1, self.shape) * v[..., 0] + v[..., 1] / self.rate
        in_rate = v[..., 0] / self.rate + self.shape / np.square(self.rate) * v[..., 1]
        return np.stack([in_shape, in_rate], -1)

    @property
    def stretch(self) -> Array:
        """∂(a, -b)/∂(log a, log b)."""
        return self.theta

    @property
    def standard_values(self) -> Array:
        """log shape and log rate, (K, 2)."""
        return np.log(np.stack([self.shape, self.rate], -1))

    def at(self, values: Array) -> Self:
        """The distribution at log shape and log rate."""
        both = np.exp(values)
        return type(self)(both[..., 0], both[..., 1])

    @staticmethod
    def statistics(value: Array) -> Array:
        """t(x) = (log x, x), (K, 2)."""
        return np.stack([np.log(value), value], -1)

    # ---- draws
    def sample(self, n: int = 1, random_state: RandomState = None) -> Array:
        """Draw (n, K)."""
        from sklearn.utils import check_random_state

        return check_random_state(random_state).gamma(self.shape, 1.0 / self.rate, (n, *self.shape.shape))

    def drawn(self, rng: np.random.Generator) -> Draw:
        """A draw from log g, g ~ Gamma(shape, 1), which is its source."""
        logs = log_gammas(self.shape, rng)
        return Draw(np.exp(logs) / self.rate, logs)

    def draws(self, n: int, rng: np.random.Generator) -> Draw:
        """Draws (n, ...) from log g; a value that would be 0 is the least number that a slope may be taken at."""
        return self._at_logs(log_gammas(np.broadcast_to(self.shape, (n, *self.shape.shape)), rng))

    def nodes(self, n: int = RULE_NODES) -> Draw:
        """Nodes (n, ...) and weights of `implicit.gamma_nodes`."""
        return self._at_logs(*gamma_nodes(self.shape, n))

    def _at_logs(self, logs: Array, weight: Any = None) -> Draw:
        return Draw(np.exp(np.maximum(logs, LEAST_LOG)) / self.rate, logs, weight)

    def of_draws(self, draws: Draw, slope: Any) -> tuple[Array]:
        """∂/∂η E f(x) of Khan and Lin 2017, from slopes f'(x) at several draws or at nodes.

        With s = x f'(x) and p = ∂ log g / ∂a the gradient in E x is Cov(s, p) / Cov(x, p), that in E log x is
        E s - E x times it: a regression of s on x with p as its instrument, so that what is conjugate, s = n - r x, is
        found without error. Gradient and Fisher matrix come from the same draws: with the exact matrix, Cov(x, p) =
        -κ/b, κ = a ψ'(a) - 1, the gradient of a large shape is hundreds of times noisier. At nodes the two agree.

        Parameters
        ----------
        draws : Draw
            At least 4 from `draws`, or `nodes`.
        slope : ndarray of the shape of their values, or callable
            f'(x).

        Returns
        -------
        gradient : tuple of one ndarray (..., 2)
            In E log x and E x. Where `undetermined`, by the exact Fisher matrix.

        Examples
        --------
        >>> import numpy as np
        >>> from scipy.special import digamma
        >>> from sksvi.families import Gamma
        >>> q = Gamma(np.array([200.0]), np.array([40.0]))
        >>> q.of_draws(q.draws(4, np.random.default_rng(0)), lambda x: 3.0 / x - 2.0)[0].round(6)
        array([[ 3., -2.]])
        >>> q.of_draws(q.nodes(), lambda x: -digamma(x))[0].round(6)
        array([[ 5.516705, -2.61194 ]])
        """
        found, own = self._with_slopes(draws, slope)
        mean_s, mean_g, with_s, with_g = np.moveaxis(found, -1, 0)
        exact = -excess(self.shape, polygamma(1, self.shape))
        in_g = with_s / np.where(own, with_g, exact)
        return (np.stack([mean_s - np.where(own, mean_g, self.shape) * in_g, self.rate * in_g], -1),)

    def undetermined(self, draws: Draw) -> Array:
        """Coordinates (...) whose draws have no Fisher matrix of their own, so that `of_draws` takes the exact one.

        Its determinant is below 1e-6 of the exact one: they coincide, or have all fallen to 0.
        """
        return ~self._with_slopes(draws, np.ones_like(draws.value))[1]

    def _with_slopes(self, draws: Draw, slope: Any) -> tuple[Array, Array]:
        """See `implicit.moments_with_slope`, and where its own covariance of g and p is to be taken."""
        n, many = len(draws.value), draws.weight is None
        if draws.value.shape[1:] != self.shape.shape or (many and n < LEAST_DRAWS):
            raise ValueError(
                f"draws of a Gamma block of shape {self.shape.shape} must have shape (S, *shape) with S >= "
                f"{LEAST_DRAWS}; found {draws.value.shape}: take them from its draws(n, rng) or nodes()."
            )
        slope = slope(draws.value) if callable(slope) else slope
        weight = np.full((1,) * draws.value.ndim, 1.0 / n) if many else draws.weight
        found = moments_with_slope(self.shape, draws.source, draws.value * slope, weight)
        exact = excess(self.shape, polygamma(1, self.shape))
        return found, -found[..., 3] > LEAST_DETERMINANT * exact

    def in_domain(self, prior: Any, gradient: tuple[Array], rate: Any = 1.0) -> tuple[Array]:
        """Where a step would leave the domain, its coordinate's is shortened to stay inside: by a tenth of what is."""
        theta = self.theta
        rate = np.reshape(rate, (*np.shape(rate), *[1] * (theta.ndim - np.ndim(rate))))
        change = rate * (prior.theta + gradient[0] - theta)
        if np.all((theta + change) / theta > 0):
            return gradient
        with np.errstate(divide="ignore", invalid="ignore"):
            share = np.where((theta + change) / theta > 0, 1.0, (LEAST_SHARE - 1.0) * theta / change)
        share = share.min(-1, keepdims=True)
        return (np.where(share == 1.0, gradient[0], theta + share * change / rate - prior.theta),)

    def corrected(self, draw: Draw, gradient: tuple[Array]) -> tuple[Array]:
        """V of Hoffman and Blei 2015 on a gradient in (E log x, E x), (K, 2): F⁻¹ (p s, s/b), s the slope in log x."""
        slope = gradient[0][..., 0] + draw.value * gradient[0][..., 1]
        p, informed = log_slope(self.shape, draw.source), polygamma(1, self.shape)
        share = slope / excess(self.shape, informed)
        return (np.stack([share * (self.shape * p - 1.0), share * self.rate * (informed - p)], -1),)

    def of_parameters(self, in_shape: Array, in_rate: Array) -> tuple[Array]:
        """The gradient in (E log x, E x), (..., 2), from derivatives in shape and rate (Khan and Lin 2017)."""
        informed = polygamma(1, self.shape)
        share = 1.0 / excess(self.shape, informed)
        in_log = share * (self.shape * in_shape + self.rate * in_rate)
        return (np.stack([in_log, -share * self.rate * (in_shape + self.rate * informed * in_rate)], -1),)

    def in_statistics(self, draw: Draw, slope: Array) -> Array:
        """df/dx as slopes in log x and x."""
        return np.stack([draw.value * slope, np.zeros_like(draw.value)], -1)


def excess(shape: Array, informed: Array) -> Array:
    """a ψ'(a) - 1, by its series where the difference has lost its digits."""
    return np.where(shape > LARGE_SHAPE, 0.5 / shape + 1.0 / (6.0 * np.square(shape)), shape * informed - 1.0)
