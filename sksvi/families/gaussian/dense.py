"""Gaussian blocks q(w) = N(m, S), full or diagonal, one or a stack of them (leading axes are plates).

Conventions. ``P`` is the number of coordinates, ``...`` the plates. Every class answers the same questions: ``mean``
(..., P), ``variance`` (..., P), ``std``, ``cov`` (..., P, P), ``root`` (S = CᵀC; lower triangular C, or a vector of
standard deviations), ``kl``, ``sample``. They differ in the coordinates they are held in, because a step should not
convert: :class:`Gaussian` and :class:`DiagonalGaussian` hold mean and precision (natural steps),
:class:`StandardGaussian` mean and C (gradient steps).

The one policy on positive definiteness lives here: a precision that has no Cholesky factor, or whose factor says that
a coordinate is a linear combination of the others to working precision, raises :class:`NotPositiveDefinite`; whoever
took the step shortens it (``steps.shortened``) and counts the event.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.linalg import lapack

Array = np.ndarray

#: A pivot below this many roundings of its diagonal entry carries no correct digit.
PIVOT_ROUNDINGS = 4.0


class NotPositiveDefinite(ValueError):
    """A precision matrix without a usable Cholesky factor.

    Parameters
    ----------
    message : str
    coordinate : int, default=-1
        Where the factorisation broke down; -1: unknown.

    Examples
    --------
    >>> import numpy as np
    >>> from sksvi.families import Gaussian, NotPositiveDefinite
    >>> try:
    ...     Gaussian(np.zeros(2), np.diag([1.0, -1.0])).root
    ... except NotPositiveDefinite as error:
    ...     print(error)
    the precision matrix is not positive definite at coordinate 1
    """

    def __init__(self, message: str, coordinate: int = -1) -> None:
        super().__init__(message)
        self.coordinate = coordinate


def _inverse_factor(precision: Array) -> Array:
    """C = L⁻¹ (lower triangular) of precision = L Lᵀ, so that S = CᵀC; stacks allowed."""
    if precision.ndim > 2:
        return np.stack([_inverse_factor(p) for p in precision])
    if not np.all(np.isfinite(np.diagonal(precision))):
        raise NotPositiveDefinite("the precision matrix is not finite")
    factor, info = lapack.dpotrf(precision, lower=1, clean=1)
    if info:
        raise NotPositiveDefinite(f"the precision matrix is not positive definite at coordinate {info - 1}", info - 1)
    pivots = np.square(np.diagonal(factor)) / np.diagonal(precision)
    worst = int(np.argmin(pivots))
    if not pivots[worst] > PIVOT_ROUNDINGS * np.finfo(float).eps:
        raise NotPositiveDefinite(
            f"coordinate {worst} is a linear combination of the others to working precision", worst
        )
    root, info = lapack.dtrtri(factor, lower=1, overwrite_c=1)
    if info:
        raise NotPositiveDefinite(f"the Cholesky factor is singular at coordinate {info - 1}", info - 1)
    return np.ascontiguousarray(root)


class _Normal:
    """What every Gaussian answers, given ``mean`` and ``root``."""

    kind = "gaussian"
    one_number = False
    through_rows = False
    mean: Array
    root: Array

    @property
    def std(self) -> Array:
        """Posterior standard deviations, (..., P)."""
        return np.sqrt(self.variance)

    @property
    def variance(self) -> Array:
        """Diagonal of S, (..., P)."""
        return np.square(self.root).sum(-2)

    @property
    def cov(self) -> Array:
        """S, (..., P, P)."""
        return np.swapaxes(self.root, -1, -2) @ self.root

    def prepare(self) -> None:
        """Factor now, before threads ask for it."""
        _ = self.root

    def coloured(self, z: Array) -> Array:
        """Cᵀz: standard coordinates to a deviation from the mean."""
        return np.einsum("...j,...jk->...k", z, self.root)

    def uncoloured(self, g: Array) -> Array:
        """C g: a gradient in the mean as gradient in standard coordinates."""
        return np.einsum("...jk,...k->...j", self.root, g)

    def log_det_cov(self) -> float:
        """log |S| summed over plates, nats."""
        return 2.0 * float(np.log(np.diagonal(self.root, axis1=-2, axis2=-1)).sum())

    def spread(self, rows: Array) -> Array:
        """x S xᵀ for each row x of (n, P)."""
        return np.square(rows @ np.swapaxes(self.root, -1, -2)).sum(-1)

    def kl(self, prior: _Precise) -> float:
        """KL(q ‖ prior), nats, summed over plates (equations.md 0)."""
        size = self.mean.size
        return 0.5 * (prior.expected_quadratic(self) - size - prior.log_det_precision() - self.log_det_cov())

    def sample(self, n: int = 1, random_state: Any = None) -> Array:
        """Draw (n, ..., P) from q."""
        from sklearn.utils import check_random_state

        z = check_random_state(random_state).standard_normal((n, *self.mean.shape))
        return self.mean + self.coloured(z)

    def __getitem__(self, plate: int) -> Any:
        """One plate."""
        return type(self)(*(part[plate] for part in self._parts()))

    def blended(self, other: Any, weight: float) -> Any:
        """(1 - weight) of this block's coordinates plus weight of the other's: an average over a fit's path."""
        parts = zip(self._parts(), other._parts(), strict=True)
        return type(self)(*((1 - weight) * a + weight * b for a, b in parts))

    def matrix_of(self, vector: Array) -> Any:
        """diag(vector) in the form that this block's precision has: a matrix, or the vector itself."""
        return vector[..., None] * np.eye(self.mean.shape[-1]) if self.full else vector  # type: ignore[attr-defined]

    def _parts(self) -> tuple[Array, ...]:
        raise AttributeError(f"{type(self).__name__} does not name its arrays")


class _Precise(_Normal):
    """A Gaussian held as mean and precision: prior, or block of a natural step."""

    def __init__(self, mean: Array, precision: Array, root: Array | None = None) -> None:
        self.mean, self.precision, self._root = mean, precision, root

    def _parts(self) -> tuple[Array, ...]:
        return self.mean, self.precision

    def natural(self, about: _Normal) -> tuple[Array, Array]:
        """Natural parameters (P(m - c), P) in coordinates centred at c, the mean of `about`.

        Centring makes the natural step m + rho S (P0 (mu - m) + g): the same numbers without the cancellation of
        P m - rho P m when the mean is large.
        """
        return self.times(self.mean - about.mean), self.precision_like(about)

    def replace(self, natural: list[Array]) -> Any:
        """The Gaussian with these natural parameters, centred at this one's mean."""
        shift, precision = natural
        new = type(self)(self.mean, precision)
        return type(self)(self.mean + new.solve(shift), precision, new._root)

    @staticmethod
    def natural_gradient(gradient: tuple[Array, Array]) -> tuple[Array, Array]:
        """(g, H), the gradient in mean and covariance, as gradient in the (centred) mean parameters."""
        g, curvature = gradient
        return g, -2.0 * curvature

    def times(self, x: Array) -> Array:
        raise AttributeError

    def solve(self, x: Array) -> Array:
        raise AttributeError

    def precision_like(self, other: _Normal) -> Array:
        raise AttributeError

    def expected_quadratic(self, q: _Normal) -> float:
        raise AttributeError

    def log_det_precision(self) -> float:
        raise AttributeError


class Gaussian(_Precise):
    """N(m, P⁻¹) with a full precision matrix.

    Parameters
    ----------
    mean : ndarray of shape (..., P)
    precision : ndarray of shape (..., P, P)
    root : ndarray of shape (..., P, P), optional
        Lower triangular C with CᵀC = precision⁻¹, where it is known already.

    Raises
    ------
    NotPositiveDefinite
        When the factor of the precision is first needed and does not exist.

    Examples
    --------
    >>> import numpy as np
    >>> from sksvi.families import Gaussian
    >>> q = Gaussian(np.zeros(2), np.array([[2.0, 0.0], [0.0, 4.0]]))
    >>> q.variance
    array([0.5 , 0.25])
    """

    full = True

    @property
    def root(self) -> Array:  # type: ignore[override]
        """C lower triangular, S = CᵀC."""
        if self._root is None:
            self._root = _inverse_factor(self.precision)
        return self._root

    def times(self, x: Array) -> Array:
        """P x."""
        return np.einsum("...ij,...j->...i", self.precision, x)

    def solve(self, x: Array) -> Array:
        """S x."""
        root = self.root
        return np.einsum("...ji,...j->...i", root, np.einsum("...ij,...j->...i", root, x))

    def precision_like(self, other: _Normal) -> Array:
        """The precision in the form that `other` is held in."""
        return self.precision if other.full else np.diagonal(self.precision, axis1=-2, axis2=-1)  # type: ignore[attr-defined]

    def expected_quadratic(self, q: _Normal) -> float:
        """E_q (w - m)ᵀ P (w - m), summed over plates."""
        delta = q.mean - self.mean
        if q.full:  # type: ignore[attr-defined]
            spread = np.einsum("...ij,...jk,...ik->", q.root, self.precision, q.root, optimize=True)
        else:
            spread = np.sum(np.diagonal(self.precision, axis1=-2, axis2=-1) * q.variance)
        return float(spread + np.sum(delta * self.times(delta)))

    def log_det_precision(self) -> float:
        """log |P| summed over plates."""
        return -self.log_det_cov()

    def lifted(self, lift: Array, off: Array, mean: Array) -> Gaussian:
        """N(mean, ·) whose precision is this one's through `lift` (P', P) plus `off` (P', P'), per plate."""
        return Gaussian(mean, lift @ self.precision @ lift.T + off)

    def standard(self) -> StandardGaussian:
        """The same distribution held as mean and C."""
        return StandardGaussian(self.mean, self.root)


class DiagonalGaussian(_Precise):
    """N(m, diag(1/p)); the same answers as :class:`Gaussian` with vectors for matrices.

    Parameters
    ----------
    mean, precision : ndarray of shape (..., P)
    root : ndarray of shape (..., P), optional
        Standard deviations, where they are known already.

    Raises
    ------
    NotPositiveDefinite
        When the standard deviations are first needed and a precision is not positive.

    Examples
    --------
    >>> import numpy as np
    >>> from sksvi.families import DiagonalGaussian
    >>> q = DiagonalGaussian(np.zeros(2), np.array([1.0, 4.0]))
    >>> q.std
    array([1. , 0.5])
    """

    full = False

    @property
    def root(self) -> Array:  # type: ignore[override]
        """Standard deviations."""
        if self._root is None:
            if not np.all(self.precision > 0):
                worst = int(np.argmin(self.precision))
                raise NotPositiveDefinite(f"the precision of coordinate {worst} is not positive", worst)
            self._root = 1.0 / np.sqrt(self.precision)
        return self._root

    @property
    def variance(self) -> Array:
        """Diagonal of S."""
        return np.square(self.root)

    @property
    def cov(self) -> Array:
        """S as a matrix."""
        return self.variance[..., None] * np.eye(self.mean.shape[-1])

    def log_det_cov(self) -> float:
        """log |S| summed over plates, nats."""
        return 2.0 * float(np.log(self.root).sum())

    def spread(self, rows: Array) -> Array:
        """x S xᵀ for each row."""
        return np.square(rows) @ self.variance

    def times(self, x: Array) -> Array:
        """P x."""
        return self.precision * x

    def solve(self, x: Array) -> Array:
        """S x."""
        return x * self.variance

    def precision_like(self, other: _Normal) -> Array:
        """The precision in the form that `other` is held in."""
        return other.matrix_of(self.precision)

    def expected_quadratic(self, q: _Normal) -> float:
        """E_q (w - m)ᵀ P (w - m), summed over plates."""
        return float(np.sum(self.precision * (np.square(q.mean - self.mean) + q.variance)))

    def log_det_precision(self) -> float:
        """log |P| summed over plates."""
        return float(np.log(np.broadcast_to(self.precision, self.mean.shape)).sum())

    def standard(self) -> StandardGaussian:
        """The same distribution held as mean and standard deviations."""
        return StandardGaussian(self.mean, self.root)

    def coloured(self, z: Array) -> Array:
        """Standard coordinates to a deviation from the mean."""
        return z * self.root

    def uncoloured(self, g: Array) -> Array:
        """A gradient in the mean as gradient in standard coordinates."""
        return g * self.root


class StandardGaussian(_Normal):
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

    def __init__(self, mean: Array, root: Array) -> None:
        if not np.all((np.diagonal(root, axis1=-2, axis2=-1) if root.ndim > mean.ndim else root) > 0):
            raise NotPositiveDefinite("a standard deviation (diagonal of C) is not positive")
        self.mean, self.root = mean, root

    @property
    def full(self) -> bool:
        """Whether C is a matrix."""
        return self.root.ndim > self.mean.ndim

    @property
    def variance(self) -> Array:
        """Diagonal of S."""
        return super().variance if self.full else np.square(self.root)

    @property
    def cov(self) -> Array:
        """S as a matrix."""
        return super().cov if self.full else self.variance[..., None] * np.eye(self.mean.shape[-1])

    def log_det_cov(self) -> float:
        """log |S|, nats."""
        return super().log_det_cov() if self.full else 2.0 * float(np.log(self.root).sum())

    def spread(self, rows: Array) -> Array:
        """x S xᵀ for each row."""
        return super().spread(rows) if self.full else np.square(rows) @ self.variance

    def standard(self) -> StandardGaussian:
        """Itself."""
        return self

    def precise(self) -> Gaussian | DiagonalGaussian:
        """The same distribution held as mean and precision."""
        if not self.full:
            return DiagonalGaussian(self.mean, 1.0 / np.square(self.root), self.root)
        factor = np.linalg.inv(self.root)
        return Gaussian(self.mean, factor @ np.swapaxes(factor, -1, -2), self.root)

    def standard_gradient(self, prior: _Precise, gradient: tuple[Array, Array]) -> tuple[Array, Array]:
        """Gradient of the bound in mean and C (equations.md 1, `standard`), KL included."""
        g, curvature = gradient
        in_mean = prior.times(prior.mean - self.mean) + g
        if not self.full:
            return in_mean, 1.0 / self.root + self.root * (2.0 * curvature - prior.precision_like(self))
        entropy = np.eye(self.mean.shape[-1]) / np.diagonal(self.root, axis1=-2, axis2=-1)[..., None]
        return in_mean, np.tril(entropy + self.root @ (2.0 * curvature - prior.precision_like(self)))

    def coloured(self, z: Array) -> Array:
        """Standard coordinates to a deviation from the mean."""
        return super().coloured(z) if self.full else z * self.root

    def _parts(self) -> tuple[Array, ...]:
        return self.mean, self.root


class ProjectedGaussian(_Normal):
    """Posterior of more weights than rows: the prior off a subspace, a small Gaussian on it.

    With N < D rows only r <= N directions of w are informed: w = scale (B z + (I - BBᵀ) u), B (D, r) with orthonormal
    columns, z the informed coordinates with posterior `inner`, u ~ N(0, off_std² I) the prior of the rest.
    An intercept is the last coordinate of `inner` and follows the D weights.

    Parameters
    ----------
    scale : ndarray of shape (D,)
    basis : ndarray of shape (D, r)
    inner : Gaussian
        Block of r + extra coordinates; its plates are the plates of this block.
    off_std : float, default=1.0
    """

    full = True
    #: Rows are whitened through the subspace, never through a D x D root.
    through_rows = True

    def __init__(self, scale: Array, basis: Array, inner: Any, off_std: float = 1.0) -> None:
        self.scale, self.basis, self.inner, self.off_std = scale, basis, inner, off_std

    @property
    def _rank(self) -> int:
        return self.basis.shape[1]

    def _lift(self, z: Array) -> Array:
        """Inner coordinates (..., r + extra) to weights (..., D + extra)."""
        return np.concatenate([self.scale * (z[..., : self._rank] @ self.basis.T), z[..., self._rank :]], axis=-1)

    def prepare(self) -> None:
        """Factor the inner block."""
        self.inner.prepare()

    def __getitem__(self, plate: int) -> ProjectedGaussian:
        """One plate."""
        return ProjectedGaussian(self.scale, self.basis, self.inner[plate], self.off_std)

    @property
    def root(self) -> Array:  # type: ignore[override]
        """C of the covariance of all weights: formed only when asked for."""
        return self.dense().root

    def inner_rows(self, rows: Array) -> Array:
        """Rows (n, D + extra) in inner coordinates."""
        d = len(self.scale)
        return np.concatenate([(rows[:, :d] * self.scale) @ self.basis, rows[:, d:]], axis=1)

    @property
    def mean(self) -> Array:  # type: ignore[override]
        """(..., D + extra)."""
        return self._lift(self.inner.mean)

    @property
    def variance(self) -> Array:
        """Diagonal of S; a rounding below zero off the subspace counts as zero."""
        off = np.maximum(1.0 - np.square(self.basis).sum(1), 0.0) * np.square(self.off_std * self.scale)
        lifted = np.square(self._lift(self.inner.root)).sum(-2)
        lifted[..., : len(off)] += off
        return lifted

    @property
    def cov(self) -> Array:
        """S, (D + extra, D + extra): formed only when asked for."""
        lifted = self._lift(self.inner.root)
        cov = np.swapaxes(lifted, -1, -2) @ lifted
        d = len(self.scale)
        cov[..., :d, :d] += self.off_std**2 * self.scale[:, None] * (np.eye(d) - self.basis @ self.basis.T) * self.scale
        return cov

    def spread(self, rows: Array) -> Array:
        """x S xᵀ for each row of (n, D + extra)."""
        d = len(self.scale)
        inner = self.inner_rows(rows)
        prior = np.square(rows[:, :d] * self.scale).sum(1)
        off = np.maximum(prior - np.square(inner[:, : self._rank]).sum(1), 0.0)
        return self.off_std**2 * off + self.inner.spread(inner)

    def latents(self, rows: Any) -> tuple[Array, Array]:
        """Mean (n, K) and covariance (n, K, K) of the latents of a dense row block, `inner` over all classes."""
        prior = np.square(rows.A[:, : len(self.scale)] * self.scale).sum(1)
        rows = rows.replaced(self.inner_rows(rows.A))
        off = prior - np.square(rows.A[:, : self._rank]).sum(1)
        m, v = self.inner.latents(rows)
        return m, v + (self.off_std**2 * np.maximum(off, 0.0))[:, None, None] * np.eye(m.shape[1])

    def sample(self, n: int = 1, random_state: Any = None) -> Array:
        """Draw (n, D + extra)."""
        from sklearn.utils import check_random_state

        rng = check_random_state(random_state)
        z = rng.standard_normal((n, *self.inner.mean.shape[:-1], len(self.scale)))
        draws = self._lift(self.inner.sample(n, rng))
        draws[..., : len(self.scale)] += self.off_std * self.scale * (z - (z @ self.basis) @ self.basis.T)
        return draws

    def dense(self) -> Gaussian:
        """The same posterior with a D x D precision (to go on with more data)."""
        d, r = self.basis.shape
        width = self.inner.mean.shape[-1]
        extra = width - r
        lift = np.zeros((d + extra, width))
        lift[:d, :r] = self.basis / self.scale[:, None]
        lift[d:, r:] = np.eye(extra)
        off = np.zeros((d + extra, d + extra))
        off[:d, :d] = (np.eye(d) - self.basis @ self.basis.T) / np.outer(self.scale, self.scale) / self.off_std**2
        return self.inner.lifted(lift, off, self.mean)
