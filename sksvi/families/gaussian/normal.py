"""What every Gaussian block answers, given its mean and C, S = CᵀC.

Conventions. ``P`` is the number of coordinates, ``...`` the plates. Every class answers the same questions: ``mean``
(..., P), ``variance`` (..., P), ``std``, ``cov`` (..., P, P), ``root`` (lower triangular C, a vector of standard
deviations, or what the structure has), ``kl``, ``sample``. They differ in the coordinates they are held in, because a
step should not convert: :mod:`dense` holds mean and precision (natural steps), `StandardGaussian` mean and C (gradient
steps).
"""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np

from sksvi._typing.arrays import RandomState
from sksvi.families.base import RULE_NODES, Draw, Family, Message, NotPositiveDefinite
from sksvi.families.gaussian.structures import DENSE, DIAGONAL, Structure, lower_root

Array = np.ndarray

#: Standard deviations that 64 nodes of a rule reach: the mass beyond is 1e-16.
NODES_REACH = 8.3
#: Draws per coefficient of a regression of slopes on draws.
DRAWS_PER_NUMBER = 2


class Normal(Family):
    """A Gaussian in any coordinates."""

    column = "gaussian"
    slopes_at_nodes = True
    structure: Structure = DENSE
    #: Whether plates have no covariance.
    independent: bool = True
    #: Whether the prior that a view stands for has correlations.
    correlated_prior: bool = False
    mean: Array
    root: Any

    @property
    def full(self) -> bool:  # type: ignore[override]
        """Whether coordinates are correlated."""
        return self.structure.full

    @property
    def variance(self) -> Array:
        """Diagonal of S, (..., P)."""
        return self.structure.variance(self.root)

    @property
    def cov(self) -> Array:
        """S, (..., P, P)."""
        return self.structure.cov(self.root)

    @property
    def within(self) -> Any:
        """S on the pattern of the precision."""
        return self.structure.within(self.root)

    def prepare(self) -> None:
        """Factor now, and find what rows ask for, before threads do."""
        self.structure.prepare(self.root)

    def coloured(self, z: Array) -> Array:
        """Cᵀz: standard coordinates to a deviation from the mean."""
        return self.structure.coloured(self.root, z)

    def uncoloured(self, g: Array) -> Array:
        """C g: a gradient in the mean as gradient in standard coordinates."""
        return self.structure.uncoloured(self.root, g)

    def log_det_cov(self) -> float:
        """log |S| summed over plates, nats."""
        return self.structure.log_det(self.root)

    def spread(self, rows: Array) -> Array:
        """x S xᵀ for each row x of (n, P)."""
        return self.structure.spread(self.root, rows)

    def contrast(self, plate: int, other: int) -> Any:
        """The distribution of one plate less another, whose coordinates have no covariance: plates are independent."""
        assert not self.full and self.mean.ndim == 2
        precision = 1.0 / (self.variance[plate] + self.variance[other])
        return DIAGONAL.block(self.mean[plate] - self.mean[other], precision)

    def spread_of(self, rows: Any) -> Array:
        """diag(A S Aᵀ) for a row block A (`models.linear.rows`), by the way that is cheapest for both."""
        return self.structure.spread_of(self, rows)

    def crossed(self, rows: Array) -> Array:
        """Covariance (K, m, K, m) of A w for rows A (m, P), K = 1 without plates, which are independent."""
        if self.mean.ndim > 1:
            out = np.zeros((len(self.mean), len(rows)) * 2)
            for k in range(len(out)):
                out[k, :, k] = self[k].crossed(rows)[0, :, 0]
            return out
        half = self.uncoloured(rows)
        return (half @ half.T)[None, :, None, :]

    def across(self) -> Array:
        """Covariance (P, K, K) between the plates of each coordinate: they are independent."""
        return self.variance.T[..., None] * np.eye(len(self.variance))

    def around(self, block: Any, prior_std: float = 1.0) -> Any:
        """What a view of this block shows of another: the block itself."""
        return block

    # ---- expectations under one coordinate at a time
    def nodes(self, n: int = RULE_NODES) -> Draw:
        """Nodes (n, ..., P) and weights of the trapezoidal rule for each coordinate; standard nodes are the source."""
        reach = NODES_REACH * min(1.0, (n / RULE_NODES) ** 0.25)
        z = np.linspace(-reach, reach, n).reshape(-1, *[1] * self.mean.ndim)
        weight = np.exp(-0.5 * np.square(z))
        value = self.mean + self.std * z
        return Draw(value, np.broadcast_to(z, value.shape), np.broadcast_to(weight / weight.sum(), value.shape))

    def of_draws(self, draws: Draw, slope: Any) -> tuple[Array, Array]:
        """Gradient of E f in the moments: at nodes E f' and ½ E f' z / sd per coordinate; at draws f' regressed on x.

        Half of the regression is the gradient in the covariance, so that what is conjugate, a slope linear in x, is
        found without noise. Fewer draws than `DRAWS_PER_NUMBER` per coefficient are averaged one by one.
        """
        slope = slope(draws.value) if callable(slope) else slope
        if draws.weight is not None:
            return draws.average(slope), self._on_diagonal(draws.average(slope * draws.source) / self.std)
        least = DRAWS_PER_NUMBER * (1 + (self.mean.shape[-1] if self.full else 1))
        if not isinstance(self.root, np.ndarray) or len(draws.value) < least:
            return super().of_draws(draws, slope)
        away = draws.value.mean(0)
        x, s = draws.value - away, slope - slope.mean(0)
        if self.full:
            square, cross = (np.einsum("n...j,n...k->...jk", x, part) for part in (x, s))
            bend = np.linalg.solve(square, cross)
            bend = 0.5 * (bend + np.swapaxes(bend, -1, -2))
            shift = np.einsum("...jk,...k->...j", bend, away - self.mean)
        else:
            bend = np.sum(x * s, 0) / np.sum(x * x, 0)
            shift = bend * (away - self.mean)
        return slope.mean(0) - shift, 0.5 * bend

    def of_values(self, nodes: Draw, values: Array) -> tuple[Array, Array]:
        """E f z / sd in the mean and ½ E f (z² - 1) / sd² in the variance of each coordinate."""
        curvature = nodes.average(values * (np.square(nodes.source) - 1.0)) / self.variance
        return nodes.average(values * nodes.source) / self.std, self._on_diagonal(curvature)

    def _on_diagonal(self, curvature: Array) -> Array:
        """Half of it as the gradient in the covariance."""
        return 0.5 * curvature[..., None] * np.eye(curvature.shape[-1]) if self.full else 0.5 * curvature

    def kl(self, prior: Any) -> float:
        """KL(q ‖ prior), nats, summed over plates."""
        size = self.mean.size
        return 0.5 * (prior.expected_quadratic(self) - size - prior.log_det_precision() - self.log_det_cov())

    def sample(self, n: int = 1, random_state: RandomState = None) -> Array:
        """Draw (n, ..., P) from q."""
        from sklearn.utils import check_random_state

        z = check_random_state(random_state).standard_normal((n, *self.mean.shape))
        return self.mean + self.coloured(z)

    def draws_against(self, prior: Any, n: int, random_state: RandomState = None) -> tuple[Array, Array]:
        """Draws (n, ..., P) and log q - log prior at each, for a prior that is held by its precision."""
        from sklearn.utils import check_random_state

        z = check_random_state(random_state).standard_normal((n, *self.mean.shape))
        draws = self.mean + self.coloured(z)
        away, axes = draws - prior.mean, tuple(range(1, z.ndim))
        squares = np.sum(away * prior.dot(away), axis=axes) - np.sum(np.square(z), axis=axes)
        return draws, 0.5 * (squares - prior.log_det_precision() - self.log_det_cov())

    def shown(self, draws: Array) -> Array:
        """Draws of the block that a fit holds, (S, ...), as this view of it has them: here they are the same."""
        return draws

    def drawn(self, rng: np.random.Generator) -> Draw:
        """A draw m + Cᵀz; z is its source."""
        z = rng.standard_normal(self.mean.shape)
        return Draw(self.mean + self.coloured(z), z)


# ---- held as mean and C, S = CᵀC: the coordinates of a gradient step
class StandardGaussian(Normal):
    """N(m, CᵀC) held as mean and C (lower triangular, or a vector when diagonal): the block of a gradient step.

    Parameters
    ----------
    mean : ndarray of shape (..., P)
    root : ndarray of shape (..., P, P) or (..., P)

    Raises
    ------
    NotPositiveDefinite
        When the diagonal of C is not positive.

    Examples
    --------
    >>> import numpy as np
    >>> from sksvi.families import StandardGaussian
    >>> StandardGaussian(np.zeros(2), np.array([[1.0, 0.0], [0.5, 2.0]])).cov
    array([[1.25, 1.  ],
           [1.  , 4.  ]])
    """

    LAYOUT = "mean (…,D) f; root (…,D,D) f diag>0 or (…,D) f >0"

    natural_coordinates = False

    def __init__(self, mean: Array, root: Array) -> None:
        if not np.all((np.diagonal(root, axis1=-2, axis2=-1) if root.ndim > mean.ndim else root) > 0):
            raise NotPositiveDefinite("a standard deviation (diagonal of C) is not positive")
        self.mean, self.root = mean, root

    @property
    def structure(self) -> Structure:  # type: ignore[override]
        """Dense where C is a matrix."""
        return DENSE if self.root.ndim > self.mean.ndim else DIAGONAL

    @property
    def array_dims(self) -> dict[str, int]:  # type: ignore[override]
        """Mean and C."""
        return {"mean": 1, "root": self.structure.rank}

    def converted(self, block: Any) -> Any:
        """Another block held as mean and C."""
        return block.standard()

    def standard(self) -> StandardGaussian:
        """The block itself, which is held by its mean and root."""
        return self

    def natural_form(self) -> Any:
        """This distribution as a block held by its mean and precision."""
        if not self.full:
            return DIAGONAL.block(self.mean, 1.0 / np.square(self.root), self.root)
        inverse = np.linalg.inv(self.root)
        return DENSE.block(self.mean, inverse @ np.swapaxes(inverse, -1, -2), self.root)

    def over(self, prior: Any) -> Message:
        """What the data said."""
        return self.natural_form().over(prior)

    def standard_gradient(self, prior: Any, gradient: tuple[Array, Array]) -> tuple[Array, Array]:
        """Gradient of the bound in mean and C (doc/algorithms.md, `standard`), KL included."""
        g, curvature = gradient
        in_mean = prior.dot(prior.mean - self.mean) + g
        if not self.full:
            return in_mean, 1.0 / self.root + self.root * (2.0 * curvature - prior.precision_like(self))
        entropy = np.eye(self.mean.shape[-1]) / np.diagonal(self.root, axis1=-2, axis2=-1)[..., None]
        return in_mean, np.tril(entropy + self.root @ (2.0 * curvature - prior.precision_like(self)))

    def of_slopes(self, draw: Draw, slope: Array) -> tuple[Array, Array]:
        """The gradient in the moments from slopes, as of the block held by its mean and precision."""
        return self.natural_form().of_slopes(draw, slope)


# ---- weights in the units of the user's columns: a fit works with columns that are centred and on their own scale
class InUnits(Normal):
    """Weights w = u / scale and an intercept b = a - centreᵀw, for a posterior `inner` of (u, a).

    Since uᵀ(x - centre) / scale + a = wᵀx + b, it is the same latent in other coordinates. Rows with a large common
    value are better projected in the inner ones: there nothing cancels.

    Parameters
    ----------
    inner : Gaussian block
        Of D weights, and the intercept last where there is one; its plates are the plates of this block.
    centre, scale : ndarray of shape (D,)
    plain : bool, optional
        Whether the user's units are those of the posterior; None: as centre and scale say.
    n_second : int, default=0
        Weights of a second latent, the last of the D: its intercept is the last of these, and centred for it alone.

    Examples
    --------
    >>> import numpy as np
    >>> from sksvi.families import DiagonalGaussian, InUnits
    >>> q = InUnits(DiagonalGaussian(np.array([2.0, 5.0]), np.array([1.0, 4.0])), np.array([10.0]), np.array([2.0]))
    >>> q.mean, q.std
    (array([ 1., -5.]), array([0.5       , 5.02493781]))
    """

    LAYOUT = """
        scale (d) f >0; centre (d) f; inner Family; inner.mean (…,d|d+1); n_second? count where it <= d
    """
    n_second: int = 0

    def __init__(self, inner: Any, centre: Array, scale: Array, plain: bool | None = None, n_second: int = 0) -> None:
        self.inner, self.centre, self.scale = inner, centre, scale
        if plain is not None:
            self._plain = plain
        if n_second:
            self.n_second = n_second

    @cached_property
    def _plain(self) -> bool:
        """Whether the user's units are those of the posterior."""
        return not self.centre.any() and bool(np.all(self.scale == 1.0))

    def _lift(self, z: Array) -> Array:
        """Inner coordinates (..., D + extra) in the user's units."""
        if self._plain:
            return z
        d = len(self.scale)
        first, w = d - self.n_second, z[..., :d] / self.scale
        b = z[..., d:] - (w[..., :first] @ self.centre[:first])[..., None]
        if self.n_second:
            w[..., -1] -= w[..., first:] @ self.centre[first:]
        return np.concatenate([w, b], axis=-1)

    def inner_rows(self, rows: Array) -> Array:
        """Rows a (n, D + extra) as those c for which aᵀ(w, b) = cᵀ(u, a)."""
        d = len(self.scale)
        moved = rows[:, d:].sum(1)[:, None] * self.centre
        if self.n_second:
            moved[:, d - self.n_second :] = rows[:, d - 1, None] * self.centre[d - self.n_second :]
        return np.concatenate([(rows[:, :d] - moved) / self.scale, rows[:, d:]], 1)

    def around(self, block: Any, prior_std: float = 1.0) -> InUnits:
        """The view of another block in the same units."""
        return InUnits(self.inner.around(block, prior_std), self.centre, self.scale, n_second=self.n_second)

    @property
    def independent(self) -> bool:  # type: ignore[override]
        """Whether plates have no covariance."""
        return bool(self.inner.independent)

    def prepare(self) -> None:
        """Factor the inner block."""
        self.inner.prepare()

    def __getitem__(self, plate: int) -> InUnits:
        """The view of one plate."""
        return InUnits(self.inner[plate], self.centre, self.scale)

    def contrast(self, plate: int, other: int) -> InUnits:
        """The distribution of one plate less another."""
        return InUnits(self.inner.contrast(plate, other), self.centre, self.scale)

    @property
    def mean(self) -> Array:  # type: ignore[override]
        """(..., D + extra)."""
        return self._lift(self.inner.mean)

    @property
    def variance(self) -> Array:
        """Diagonal of S, (..., D + extra)."""
        d, inner = len(self.scale), self.inner.variance
        if self._plain:
            return inner
        w = inner[..., :d] / np.square(self.scale)
        if self.n_second:
            w[..., -1] = self.inner.spread(self.inner_rows(np.eye(inner.shape[-1])[d - 1 : d]))[0]
        if inner.shape[-1] == d or not self.centre.any():
            return np.concatenate([w, inner[..., d:]], axis=-1)
        row = self.inner_rows(np.append(np.zeros(d), 1.0)[None])
        plates = [self.inner] if inner.ndim == 1 else [self.inner[k] for k in range(len(inner))]
        b = np.stack([plate.spread(row) for plate in plates])
        return np.concatenate([w, b.reshape(*inner.shape[:-1], 1)], axis=-1)

    @property
    def cov(self) -> Array:
        """S, (..., D + extra, D + extra): formed when asked for."""
        return self._lift(np.swapaxes(self._lift(self.inner.cov), -1, -2))

    @property
    def root(self) -> Array:
        """C lower triangular, S = CᵀC."""
        if self.mean.ndim > 1:
            return np.stack([self[k].root for k in range(len(self.mean))])
        return lower_root(self.inner.uncoloured(self.inner_rows(np.eye(len(self.mean)))))

    def spread(self, rows: Array) -> Array:
        """a S aᵀ for each row a of (n, D + extra)."""
        return self.inner.spread(self.inner_rows(rows))

    def crossed(self, rows: Array) -> Array:
        """Covariance (K, m, K, m) of A w between classes, for rows A (m, D + extra)."""
        return self.inner.crossed(self.inner_rows(rows))

    def across(self) -> Array:
        """Covariance (D, K, K) between the classes of each weight, without what follows them."""
        return self.inner.across()[: len(self.scale)] / np.square(self.scale)[:, None, None]

    @property
    def correlated_prior(self) -> bool:  # type: ignore[override]
        """Whether weights are correlated under their prior."""
        return bool(self.inner.correlated_prior)

    def alone(self) -> tuple[Array, Array]:
        """Mean (D, K) and covariance (D, K, K) of each weight, its prior as wide and independent of that of others."""
        mean, cov = self.inner.alone()
        return mean / self.scale[:, None], cov / np.square(self.scale)[:, None, None]

    def shown(self, draws: Array) -> Array:
        """Draws of the block inside in the user's units."""
        return self._lift(self.inner.shown(draws))

    def lifted(self, draws: Array) -> Array:
        """Draws that `inner` made, in the user's units."""
        return self._lift(draws)

    def sample(self, n: int = 1, random_state: RandomState = None) -> Array:
        """Draw (n, ..., D + extra)."""
        return self._lift(self.inner.sample(n, random_state))
