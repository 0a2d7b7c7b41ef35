"""The mean and covariance that a population of local Gaussians shares, known as a point (a topic model's μ and Σ)."""

from __future__ import annotations

from typing import Self

import numpy as np

from sksvi.families.base import NotPositiveDefinite, PointMass
from sksvi.families.flat import Flat
from sksvi.families.gaussian.structures import inverse_factor

Array = np.ndarray


class Population(PointMass, Flat):
    """μ and Σ of N(μ, Σ) as the mode that sums of moments have: natural parameter Σ_d E(1, η_d)(1, η_d)ᵀ.

    The natural parameter ((P+1) x (P+1)) is [[n, s], [sᵀ, M]] with n members, s = Σ E η, M = Σ E ηηᵀ; then μ = s/n and
    Σ = M/n - μμᵀ. A prior is a block of pseudo-members: n0 of them, of mean 0 and covariance Σ0 (0 members: none).
    The moment, minus half of [[μᵀΣ⁻¹μ + log|Σ|, -μᵀΣ⁻¹], [-Σ⁻¹μ, Σ⁻¹]], is what E log N(η | μ, Σ) is linear in.

    Parameters
    ----------
    sums : ndarray of shape (P + 1, P + 1)

    Raises
    ------
    NotPositiveDefinite
        When Σ is needed and is not positive definite.

    Examples
    --------
    >>> import numpy as np
    >>> from sksvi.families import Population
    >>> block = Population.of(4.0, np.array([1.0, -1.0]), np.eye(2))
    >>> block.location, block.scale.diagonal()
    (array([ 1., -1.]), array([1., 1.]))
    """

    LAYOUT = "sums (n,n) f where n >= 1 and it[0, 0] > 0; _root? (n-1,n-1) f diag>0"

    full = True
    array_dims = {"sums": 2}

    def __init__(self, sums: Array) -> None:
        self.sums = np.asarray(sums, float)
        self._root: Array | None = None

    @classmethod
    def of(cls, n: float, location: Array, scale: Array) -> Self:
        """n members of this mean and covariance."""
        ahead = np.append(1.0, location)
        sums = n * np.outer(ahead, ahead)
        sums[1:, 1:] += n * np.asarray(scale)
        return cls(sums)

    def prepare(self) -> None:
        """Factor now, before threads ask for it."""
        _ = self.root

    @property
    def size(self) -> float:
        """Members, n."""
        return float(self.sums[0, 0])

    @property
    def location(self) -> Array:
        """μ, (P,)."""
        return self.sums[0, 1:] / self.size

    @property
    def slopes(self) -> Array:
        """What a unit of each covariate adds to the mean of a member, (D, P)."""
        return np.zeros((0, len(self.location)))

    @property
    def scale(self) -> Array:
        """Σ, (P, P)."""
        return self.sums[1:, 1:] / self.size - np.outer(self.location, self.location)

    @property
    def root(self) -> Array:
        """C lower triangular with CᵀC = Σ⁻¹."""
        if self._root is None:
            self._root = inverse_factor(self.scale) if len(self.location) else np.zeros((0, 0))
        return self._root

    @property
    def precision(self) -> Array:
        """Σ⁻¹, (P, P)."""
        return self.root.T @ self.root

    def log_det(self) -> float:
        """log |Σ|, nats."""
        return -2.0 * float(np.log(np.diagonal(self.root)).sum())

    @property
    def mean(self) -> Array:
        """μ, (P,)."""
        return self.location

    # ---- the family
    @property
    def theta(self) -> Array:
        """The sums of moments."""
        return self.sums

    def of_theta(self, theta: Array) -> Self:
        """The block with these sums."""
        new = self._with_sums(0.5 * (theta + theta.T))
        if not new.size > 0:
            raise NotPositiveDefinite(f"a population has {new.size:g} members")
        new.prepare()
        return new

    def _with_sums(self, sums: Array) -> Self:
        return type(self)(sums)

    @property
    def moments(self) -> Array:
        """What E log N(η | μ, Σ) is linear in, (P + 1, P + 1)."""
        precision, location = self.precision, self.location
        pull = precision @ location
        table = np.empty_like(self.sums)
        table[0, 0], table[0, 1:], table[1:, 0] = location @ pull + self.log_det(), -pull, -pull
        table[1:, 1:] = precision
        return -0.5 * table

    def kl(self, prior: Population) -> float:
        """What the log density of the prior loses between its mode and here, nats; 0 for a prior without members."""
        return 0.0 if prior.size == 0.0 else float(np.sum(prior.sums * (prior.moments - self.moments)))

    @property
    def standard_values(self) -> Array:
        """Unconstrained standard coordinates: μ, then the Cholesky factor of Σ by rows, its diagonal as logarithms."""
        factor = np.linalg.cholesky(self.scale)
        diagonal = np.arange(len(factor))
        factor[diagonal, diagonal] = np.log(factor[diagonal, diagonal])
        return np.concatenate([self.location, factor[np.tril_indices(len(factor))]])

    def _factor(self, values: Array) -> Array:
        size = len(self.location)
        factor = np.zeros((size, size))
        factor[np.tril_indices(size)] = values[size:]
        diagonal = np.arange(size)
        factor[diagonal, diagonal] = np.exp(factor[diagonal, diagonal])
        return factor

    def at(self, values: Array) -> Self:
        """The population of as many members at other unconstrained coordinates."""
        factor = self._factor(values)
        return type(self).of(self.size, values[: len(factor)], factor @ factor.T)

    def standard_gradient(self, prior: Population, gradient: tuple[Array]) -> Array:
        """Gradient of the bound in unconstrained coordinates, the prior's log density included."""
        sums = 0.5 * (gradient[0] + gradient[0].T) + prior.sums
        n, location, precision = sums[0, 0], self.location, self.precision
        pull = np.outer(sums[0, 1:], location)
        about = sums[1:, 1:] - pull - pull.T + n * np.outer(location, location)
        in_location = precision @ (sums[0, 1:] - n * location)
        return np.concatenate([in_location, self._in_factor(precision @ about @ precision - n * precision)])

    def _in_factor(self, twice_in_scale: Array) -> Array:
        """Gradient in the unconstrained coordinates of the factor of Σ, from twice that in Σ."""
        factor = np.linalg.cholesky(self.scale)
        in_factor, diagonal = twice_in_scale @ factor, np.arange(len(factor))
        in_factor[diagonal, diagonal] *= factor[diagonal, diagonal]
        return in_factor[np.tril_indices(len(factor))]


class RegressedPopulation(Population):
    """Γ and Σ of members whose means depend on covariates, N(μ + Bᵀz, Σ), as the mode of sums of moments.

    The natural parameter is Σ_d E(1, z_d, η_d)(1, z_d, η_d)ᵀ = [[A, S], [Sᵀ, M]]; then Γ = (μ, B) = A⁻¹S, the
    regression of the members on (1, z), and Σ = (M - SᵀA⁻¹S)/n. A prior of pseudo-members is conjugate: Γ is
    matrix-normal given Σ, and Σ inverse Wishart.

    Parameters
    ----------
    sums : ndarray of shape (1 + D + P, 1 + D + P)
    n_covariates : int
        D.

    Raises
    ------
    NotPositiveDefinite
        When Σ is needed and is not positive definite.

    Examples
    --------
    >>> import numpy as np
    >>> from sksvi.families import RegressedPopulation
    >>> rows = np.array([[1.0, -1.0, 2.0], [1.0, 1.0, 4.0], [1.0, 0.0, 3.0], [1.0, 0.0, 4.0], [1.0, 0.0, 2.0]])
    >>> block = RegressedPopulation(rows.T @ rows, 1)
    >>> block.location, block.slopes, block.scale
    (array([3.]), array([[1.]]), array([[0.4]]))
    """

    LAYOUT = """
        sums (n,n) f where it[0, 0] > 0; n_covariates count d >=1 where d < n
        _root? (p,p) f diag>0 where p == n - 1 - d
    """

    def __init__(self, sums: Array, n_covariates: int) -> None:
        super().__init__(sums)
        self.n_covariates = n_covariates

    @classmethod
    def around(cls, coefficients: Array, scale: Array) -> Self:
        """One member of this Γ and Σ, whose covariates have mean 0 and covariance I."""
        ahead = np.column_stack([np.eye(len(coefficients)), coefficients])
        sums = ahead.T @ ahead
        sums[len(coefficients) :, len(coefficients) :] += scale
        return cls(sums, len(coefficients) - 1)

    @property
    def gram(self) -> Array:
        """A, the sum of (1, z)(1, z)ᵀ, (1 + D, 1 + D)."""
        ahead = 1 + self.n_covariates
        return self.sums[:ahead, :ahead]

    @property
    def coefficients(self) -> Array:
        """Γ, (1 + D, P): μ, then the slopes."""
        ahead = 1 + self.n_covariates
        return np.linalg.solve(self.gram, self.sums[:ahead, ahead:])

    @property
    def location(self) -> Array:
        """μ, the mean where covariates are 0, (P,)."""
        return self.coefficients[0]

    @property
    def slopes(self) -> Array:
        """What a unit of each covariate adds to the mean of a member, (D, P)."""
        return self.coefficients[1:]

    @property
    def scale(self) -> Array:
        """Σ, (P, P)."""
        ahead = 1 + self.n_covariates
        return (self.sums[ahead:, ahead:] - self.coefficients.T @ self.sums[:ahead, ahead:]) / self.size

    def _with_sums(self, sums: Array) -> Self:
        return type(self)(sums, self.n_covariates)

    @property
    def moments(self) -> Array:
        """What E log N(η | μ + Bᵀz, Σ) is linear in, (1 + D + P, 1 + D + P)."""
        coefficients, precision = self.coefficients, self.precision
        pull = coefficients @ precision
        table = np.block([[pull @ coefficients.T, -pull], [-pull.T, precision]])
        table[0, 0] += self.log_det()
        return -0.5 * table

    @property
    def standard_values(self) -> Array:
        """Unconstrained standard coordinates: Γ by rows, then those of Σ as of `Population`."""
        return np.concatenate([self.coefficients.ravel(), super().standard_values[len(self.location) :]])

    def at(self, values: Array) -> Self:
        """The population of as many members with the same covariates at other unconstrained coordinates."""
        shape = self.coefficients.shape
        first = shape[0] * shape[1]
        coefficients = values[:first].reshape(shape)
        factor = self._factor(values[first - shape[1] :])
        with_gram = self.gram @ coefficients
        scatter = coefficients.T @ with_gram + self.size * factor @ factor.T
        return self._with_sums(np.block([[self.gram, with_gram], [with_gram.T, scatter]]))

    def standard_gradient(self, prior: Population, gradient: tuple[Array]) -> Array:
        """Gradient of the bound in unconstrained coordinates, the prior's log density included."""
        ahead, coefficients, precision = 1 + self.n_covariates, self.coefficients, self.precision
        sums = 0.5 * (gradient[0] + gradient[0].T) + prior.sums
        gram, product = sums[:ahead, :ahead], sums[:ahead, ahead:]
        pull = coefficients.T @ product
        about = sums[ahead:, ahead:] - pull - pull.T + coefficients.T @ gram @ coefficients
        in_coefficients = ((product - gram @ coefficients) @ precision).ravel()
        twice = precision @ about @ precision - sums[0, 0] * precision
        return np.concatenate([in_coefficients, self._in_factor(twice)])
