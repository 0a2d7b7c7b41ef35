"""Learned scales of a likelihood: their place on the real line, prior and limits; statistics that they start from."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Generic, Protocol, TypeVar

import numpy as np

from sksvi.likelihoods.traits import Array

#: Standard deviation of y, per standard deviation (or size) of all y, below which a learned noise does not go.
LEAST_NOISE = 1e-4


class Scaled(Protocol):
    """A likelihood with parameters that are learned, as its `Scales` see it."""

    learned: tuple[str, ...]
    least: float

    @property
    def noise_variance(self) -> float | None:
        """Variance of Gaussian noise, or None."""
        ...

    @property
    def unconstrained(self) -> np.ndarray:
        """Learned parameters on the real line, shape (P,)."""
        ...

    def d_parameters(self, y: Array, f: Array) -> tuple[Array, Array]:
        """First and second derivative of log p(y | f) in `unconstrained`."""
        ...

    def _replaced(self, values: dict[str, Any], learned: tuple[str, ...]) -> Any: ...


L = TypeVar("L", bound=Scaled, covariant=True)


@dataclass(frozen=True)
class Scales(Generic[L]):
    """What a fit does with the learned parameters of a likelihood, beside finding first values and moving them.

    A likelihood of one's own needs none: the defaults follow from its `unconstrained` and `d_parameters`.

    Parameters
    ----------
    likelihood : Likelihood
    """

    #: Learned parameters move together with the mean of f, as cut points do with an intercept.
    collinear: ClassVar[bool] = False
    #: A learned parameter takes what a model's latents are to explain: a variance beyond the mean's.
    takes_excess: ClassVar[bool] = False

    likelihood: L

    @property
    def size(self) -> int:
        """Number of unconstrained parameters."""
        return self.likelihood.unconstrained.size

    @property
    def noise(self) -> float | None:
        """The scale that users call noise: variance, dispersion or scale; None where there is none."""
        return self.likelihood.noise_variance

    @property
    def given(self) -> float | None:
        """Scale of noise around f that is given and stays; None where it is learned, or where there is none."""
        return None

    def at_given(self, scale: float) -> L:
        """The likelihood with another `given` scale, where there is one."""
        raise TypeError(f"{type(self.likelihood).__name__} has no given scale")

    def among(self, n_levels: int) -> L:
        """The likelihood whose `start` has so many levels, also those that no row has."""
        return self.likelihood

    def with_less_dispersion(self, share: float) -> L:
        """A started likelihood with a `share` of its learned excess variance, where a model explains the rest."""
        return self.likelihood

    def with_less_noise(self, share: float) -> L:
        """A started likelihood whose learned noise, as a standard deviation, ends at a `share` of where it would."""
        return self.likelihood

    def moved_off_limits(self) -> L:
        """The likelihood where other data can move its scales: near an end of its range one has next to no slope."""
        return self.likelihood

    def shifted(self, by: float) -> L | None:
        """The likelihood with other learned parameters, under which f + by is what f is here; None: there is none."""
        return None

    def informed(self, y: Array) -> bool:
        """Whether y says anything about the learned parameters; where not, they stay as `start` found them."""
        return True

    def warnings(self) -> list[str]:
        """What learned parameters say that a user should know: what was found, and what to do."""
        return []

    def prior(self) -> tuple[float, Array, Array] | None:
        """Log density of the unconstrained parameters, its gradient (P,) and Hessian (P, P); None: it is flat."""
        return None

    @property
    def log_jacobian(self) -> float:
        """Log derivative, in `unconstrained`, of the parameters that have a prior, as it is stated."""
        return 0.0

    @property
    def flat(self) -> tuple[str, ...]:
        """Learned parameters that have no proper prior."""
        return tuple(self.likelihood.learned)

    @property
    def example(self) -> str:
        """The likelihood with numbers in the place of what has no prior, as a user writes it."""
        return f"{type(self.likelihood).__name__}({', '.join(f'{one}=...' for one in self.flat)})"

    def drawn(self, unit: float, rng: Any) -> Array:
        """Unconstrained parameters (P,) from their prior, of noise in a unit.

        Raises
        ------
        ValueError
            Where one has none.
        """
        raise ValueError(f"{type(self.likelihood).__name__} learns {', '.join(self.flat)} without a prior.")

    def moments(self, y: Array, f: Array) -> Sequence[Array]:
        """Functions of f, in whose expectations `combined` is linear; default: `d_parameters` itself."""
        return self.likelihood.d_parameters(y, f)

    def combined(self, y: Array, moments: Sequence[Array]) -> tuple[Array, Array]:
        """Derivatives in the parameters, (P, ...) and (P, P, ...), from `moments` or their expectations."""
        first, second = moments
        return first, second

    def sums(self, y: Array, moments: Sequence[Array], weight: Array | None) -> tuple[Array, Array]:
        """Sums over the data of `combined`, times their weights: (P,) and (P, P)."""
        first, second = self.combined(y, moments)
        weight = np.ones(len(y)) if weight is None else weight
        return first @ weight, second @ weight

    def expected(self, y: Array, m: Array, v: Array) -> tuple[Array, Array] | None:
        """Closed form of the expectations of `d_parameters`, shapes (P, n) and (P, P, n); None where there is none."""
        return None


def weighted_moments(y: Array, weight: Array | None) -> tuple[float, float]:
    """Weighted mean and variance of y, shape (n,)."""
    y = np.asarray(y, dtype=float)
    weight = np.ones(len(y)) if weight is None else np.asarray(weight, dtype=float)
    total = weight.sum()
    if not total > 0:
        raise ValueError("weights must sum to a positive number to start a likelihood's parameters.")
    mean = float(weight @ y / total)
    return mean, float(weight @ (y - mean) ** 2 / total)


def own_unit(y: Array, weight: Array | None) -> float:
    """Standard deviation of y, shape (n,): the unit of a measured target; its size where it is constant."""
    return unit_of(*weighted_moments(y, weight))


def unit_of(mean: float, variance: float) -> float:
    """Unit of a target with these moments: its standard deviation; |mean| where it is constant, 1 where that is 0."""
    return math.sqrt(variance) or abs(mean) or 1.0


def weighted_median(y: Array, weight: Array | None) -> float:
    """Median of y, shape (n,), in which a weight of k counts as k values."""
    return float(weighted_quantiles(y, weight, (0.5,))[0])


def weighted_quantiles(y: Array, weight: Array | None, shares: tuple[float, ...]) -> list[Array]:
    """Quantiles of y, shape (n, ...), along the rows, of which one with weight k counts as k."""
    y = np.asarray(y, dtype=float)
    if weight is None:
        values, total = np.sort(y, axis=0), np.arange(1.0, len(y) + 1.0).reshape(-1, *[1] * (y.ndim - 1))
    else:
        order = np.argsort(y, axis=0)
        values, total = np.take_along_axis(y, order, axis=0), np.cumsum(np.asarray(weight, float)[order], axis=0)

    def end(compare: np.ufunc, share: float) -> Array:
        return np.take_along_axis(values, compare(total, share * total[-1]).sum(axis=0)[None], axis=0)[0]

    return [0.5 * (end(np.less, share) + end(np.less_equal, share)) for share in shares]
