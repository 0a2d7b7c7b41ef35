"""What users see of a Gaussian block: some coordinates, class by class, in all weights. Views take no steps."""

from __future__ import annotations

from typing import Any

import numpy as np

from sksvi._typing.arrays import RandomState
from sksvi.families.base import Family
from sksvi.families.gaussian.dense import Gaussian
from sksvi.families.gaussian.normal import Normal
from sksvi.families.gaussian.structures import lower_root

Array = np.ndarray


class Marginal(Normal):
    """The marginal distribution of some coordinates of a joint Gaussian, which stays within reach as `joint`.

    Parameters
    ----------
    joint : Gaussian block
    index : ndarray of int, shape (P,)
        Coordinates of the joint block.

    Examples
    --------
    >>> import numpy as np
    >>> from sksvi.families import Gaussian, Marginal
    >>> joint = Gaussian(np.arange(3.0), np.diag([1.0, 4.0, 16.0]))
    >>> Marginal(joint, np.array([0, 2])).std
    array([1.  , 0.25])
    """

    LAYOUT = "joint Family; joint.mean (…,D); index (_) i <D"

    def __init__(self, joint: Any, index: Array) -> None:
        self.joint, self.index = joint, index

    def around(self, block: Any, prior_std: float = 1.0) -> Marginal:
        """The marginal of the same coordinates in another joint block."""
        return Marginal(block, self.index)

    def prepare(self) -> None:
        """Factor the joint block."""
        self.joint.prepare()

    @property
    def mean(self) -> Array:  # type: ignore[override]
        """(P,)."""
        return self.joint.mean[self.index]

    @property
    def variance(self) -> Array:
        """Marginal variances, (P,)."""
        return self.joint.variance[self.index]

    @property
    def cov(self) -> Array:
        """S of these coordinates, (P, P): rows of the joint one, formed when asked for."""
        half = self._half(np.eye(len(self.index)))
        return half @ half.T

    @property
    def root(self) -> Array:
        """C lower triangular, S = CᵀC."""
        return lower_root(self._half(np.eye(len(self.index))))

    def spread(self, rows: Array) -> Array:
        """x S xᵀ for each row x of (n, P), without an inverse of S: levels that are nearly known leave it none."""
        return np.square(self._half(rows)).sum(-1)

    def between(self, a: slice, b: slice) -> Array:
        """S of pairs, the first coordinates of `a` and `b`, the second ones and so on, of coordinates in a row."""
        moved = (slice(self.index[0] + one.start, self.index[0] + one.stop, one.step) for one in (a, b))
        return np.asarray(self.joint.structure.between(self.joint.root, *moved))

    def crossed(self, rows: Array) -> Array:
        """Covariance (1, m, 1, m) of A w for rows A (m, P): the axes of one class."""
        half = self._half(rows)
        return (half @ half.T)[None, :, None, :]

    def _half(self, rows: Array) -> Array:
        """H (n, joint) with H Hᵀ = A S Aᵀ for rows A (n, P)."""
        whole = np.zeros((len(rows), self.joint.mean.shape[-1]))
        whole[:, self.index] = rows
        return self.joint.uncoloured(whole)

    def shown(self, draws: Array) -> Array:
        """Draws (S, P) of these coordinates, from draws of the joint block."""
        return draws[:, self.index]

    def sample(self, n: int = 1, random_state: RandomState = None) -> Array:
        """Draw (n, P)."""
        return self.joint.sample(n, random_state)[:, self.index]


class ClassGaussian(Normal):
    """N(m, S) over K x P weights with the K classes as plates: what a softmax fit leaves behind.

    Parameters
    ----------
    joint : Gaussian
        Of K * P coordinates, class by class.
    n_classes : int

    Examples
    --------
    >>> import numpy as np
    >>> from sksvi.families import ClassGaussian, Gaussian
    >>> q = ClassGaussian(Gaussian(np.zeros(4), np.eye(4)), 2)
    >>> q.mean.shape, q.cov.shape, q.joint.cov.shape
    ((2, 2), (2, 2, 2), (4, 4))
    """

    independent = False

    LAYOUT = "n_classes count n >=1; joint Family; joint.mean (D) f where D % n == 0"

    def __init__(self, joint: Gaussian, n_classes: int) -> None:
        self.joint, self.n_classes = joint, n_classes

    def around(self, block: Any, prior_std: float = 1.0) -> ClassGaussian:
        """The classes of another joint block."""
        return ClassGaussian(block, self.n_classes)

    def prepare(self) -> None:
        """Factor the joint block."""
        self.joint.prepare()

    def __getitem__(self, plate: int) -> Marginal:
        """The weights of one class."""
        width = self.mean.shape[1]
        return Marginal(self.joint, np.arange(plate * width, (plate + 1) * width))

    @property
    def mean(self) -> Array:  # type: ignore[override]
        """(K, P)."""
        return self.joint.mean.reshape(self.n_classes, -1)

    @property
    def variance(self) -> Array:
        """(K, P)."""
        return self.joint.variance.reshape(self.n_classes, -1)

    @property
    def cov_blocks(self) -> Array:
        """Covariance between the weights of class k and those of class l, (K, K, P, P)."""
        k = self.n_classes
        return self.joint.cov.reshape(k, -1, k, self.mean.shape[1]).transpose(0, 2, 1, 3)

    @property
    def cov(self) -> Array:
        """Covariance of each class's own weights, (K, P, P)."""
        index = np.arange(self.n_classes)
        return self.cov_blocks[index, index]

    @property
    def root(self) -> Array:
        """C of each class's own weights, S = CᵀC, (K, P, P)."""
        return np.stack([self[k].root for k in range(self.n_classes)])

    def contrast(self, plate: int, other: int) -> Gaussian:
        """The weights of one class less those of another."""
        width = self.mean.shape[1]
        pair = np.zeros((width, self.joint.mean.size))
        index = np.arange(width)
        pair[index, plate * width + index], pair[index, other * width + index] = 1.0, -1.0
        half = self.joint.uncoloured(pair)
        return Gaussian(self.mean[plate] - self.mean[other], np.linalg.inv(half @ half.T))

    def crossed(self, rows: Array) -> Array:
        """Covariance (K, m, K, m) of A w_k between classes, for rows A (m, P)."""
        (m, width), k = rows.shape, self.n_classes
        placed = np.zeros((k, m, k, width))
        index = np.arange(k)
        placed[index, :, index] = rows
        half = self.joint.uncoloured(placed.reshape(k * m, k * width))
        return (half @ half.T).reshape(k, m, k, m)

    def across(self) -> Array:
        """Covariance (P, K, K) between the classes of each weight."""
        return np.moveaxis(np.diagonal(self.cov_blocks, axis1=2, axis2=3), -1, 0)

    def latents(self, rows: Any) -> tuple[Array, Array]:
        """Mean (n, K) and covariance (n, K, K) of the K latents of a row block (`models.projection`)."""
        return rows.classes(self.mean, self.cov_blocks)

    def shown(self, draws: Array) -> Array:
        """Draws of the joint block, class by class, (S, K, P)."""
        return draws.reshape(len(draws), self.n_classes, -1)

    def sample(self, n: int = 1, random_state: RandomState = None) -> Array:
        """Draw (n, K, P), classes together."""
        return self.joint.sample(n, random_state).reshape(n, self.n_classes, -1)

    def lifted(self, lift: Array, off: Array, mean: Array) -> Gaussian:
        """The joint Gaussian whose precision is this one's through `lift` (P', P), plus `off` (P', P') per class."""
        k = self.n_classes
        blocks = self.joint.precision.reshape(k, -1, k, lift.shape[1])
        out = np.einsum("ai,kilj,bj->kalb", lift, blocks, lift, optimize=True)
        index = np.arange(k)
        out[index, :, index] += off
        return Gaussian(mean.ravel(), out.reshape(mean.size, mean.size))


class ProjectedGaussian(Normal):
    """Posterior of more weights than rows: the prior off a subspace, a small Gaussian on it.

    With N < D rows only r <= N directions of w are informed: w = scale (B z + (I - BBᵀ) u), B (D, r) with orthonormal
    columns, z the informed coordinates with posterior `inner` and prior N(0, off_std² diag(ratio)), the prior of the
    rest u ~ N(0, off_std² I). An intercept is the last coordinate of `inner` and follows the D weights.

    Parameters
    ----------
    scale : ndarray of shape (D,)
    basis : ndarray of shape (D, r)
    inner : Gaussian
        Block of r + extra coordinates; its plates are the plates of this block.
    off_std : float, default=1.0
    ratio : ndarray of shape (r,), optional
        Prior variances in the subspace over those off it; None: all are equal.
    """

    LAYOUT = "scale (d) f >0; basis (d,r) f; inner Family; inner.mean (…,r|r+1); off_std number >=0; ratio? (r) f >0"
    ratio: Array | None = None

    def __init__(
        self, scale: Array, basis: Array, inner: Any, off_std: float = 1.0, ratio: Array | None = None
    ) -> None:
        self.scale, self.basis, self.inner, self.off_std, self.ratio = scale, basis, inner, off_std, ratio

    @property
    def _rank(self) -> int:
        return self.basis.shape[1]

    def _lift(self, z: Array) -> Array:
        """Inner coordinates (..., r + extra) to weights (..., D + extra)."""
        return np.concatenate([self.scale * (z[..., : self._rank] @ self.basis.T), z[..., self._rank :]], axis=-1)

    def around(self, block: Any, prior_std: float = 1.0) -> ProjectedGaussian:
        """The posterior with another inner block, and a prior `prior_std` times as wide off the subspace."""
        off_std = prior_std * self.off_std
        return ProjectedGaussian(self.scale, self.basis, self.inner.around(block), off_std, self.ratio)

    @property
    def independent(self) -> bool:  # type: ignore[override]
        """Whether plates have no covariance."""
        return bool(self.inner.independent)

    def prepare(self) -> None:
        """Factor the inner block."""
        self.inner.prepare()

    def __getitem__(self, plate: int) -> ProjectedGaussian:
        """The posterior of one plate."""
        return ProjectedGaussian(self.scale, self.basis, self.inner[plate], self.off_std, self.ratio)

    def contrast(self, plate: int, other: int) -> ProjectedGaussian:
        """One plate less another; off the subspace they are independent."""
        inner = self.inner.contrast(plate, other)
        return ProjectedGaussian(self.scale, self.basis, inner, float(np.sqrt(2.0)) * self.off_std, self.ratio)

    @property
    def root(self) -> Array:
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

    def crossed(self, rows: Array) -> Array:
        """Covariance (K, m, K, m) of A w between classes, for rows A (m, D + extra)."""
        d, inner = len(self.scale), self.inner_rows(rows)
        scaled, informed = rows[:, :d] * self.scale, inner[:, : self._rank]
        out = self.inner.crossed(inner)
        index = np.arange(len(out))
        out[index, :, index] += self.off_std**2 * (scaled @ scaled.T - informed @ informed.T)
        return out

    def across(self) -> Array:
        """Covariance (D, K, K) between the classes of each weight, without what follows them."""
        k, r = len(self.inner.mean), self._rank
        blocks = self.inner.cov_blocks[:, :, :r, :r]
        inner = np.einsum("dr,klrs,ds->dkl", self.basis, blocks, self.basis, optimize=True)
        off = np.maximum(1.0 - np.square(self.basis).sum(1), 0.0) * self.off_std**2
        return np.square(self.scale)[:, None, None] * (inner + off[:, None, None] * np.eye(k))

    @property
    def correlated_prior(self) -> bool:  # type: ignore[override]
        """Whether weights are correlated under their prior."""
        return self.ratio is not None

    @property
    def prior_precision(self) -> Array:
        """Prior precision of the coordinates in the subspace, (r,)."""
        return 1.0 / (np.square(self.off_std) * (np.ones(self._rank) if self.ratio is None else self.ratio))

    def alone(self) -> tuple[Array, Array]:
        """Mean (D, K) and covariance (D, K, K) of each weight, its prior as wide and independent of that of others.

        With P the covariance of the prior, what the data say of w_j with the others under their prior is Gaussian, of
        covariance S_jj + (S P⁻¹)_jj a⁻¹ (P⁻¹ S)_jj and mean m_j + (S P⁻¹)_jj a⁻¹ (P⁻¹ m)_j, a = (P⁻¹ - P⁻¹ S P⁻¹)_jj.
        """
        r, B, prior = self._rank, self.basis, self.prior_precision
        several = self.inner.mean.ndim == 2
        z = np.atleast_2d(self.inner.mean)[:, :r]
        blocks = self.inner.cov_blocks[:, :, :r, :r] if several else self.inner.cov[None, None, :r, :r]
        eye, off = np.eye(len(z)), np.maximum(1.0 - np.square(B).sum(1), 0.0)[:, None, None]
        half = np.einsum("dr,klrs->dkls", B, blocks, optimize=True)
        weighted = np.einsum("dr,klrs->dkls", B * prior, blocks, optimize=True)
        S = np.einsum("dkls,ds->dkl", half, B) + self.off_std**2 * off * eye
        across = np.einsum("dkls,ds->dkl", weighted, B) + off * eye  # P⁻¹ S
        twice = np.einsum("dkls,ds->dkl", weighted, B * prior)
        informed = (np.square(B) @ prior)[:, None, None] * eye - twice
        inverse = np.linalg.inv(S)
        solved = np.swapaxes(across, 1, 2) @ np.linalg.inv(informed + across @ inverse @ np.swapaxes(across, 1, 2))
        information = inverse - inverse @ solved @ across @ inverse
        m, pulled = B @ z.T, (B * prior) @ z.T
        linear = (information @ m[..., None] + inverse @ solved @ pulled[..., None])[..., 0]
        own = self.off_std**2 * off + (np.square(B) @ (1.0 / prior))[:, None, None]
        cov = np.linalg.inv(information + eye / own)
        return self.scale[:, None] * (cov @ linear[..., None])[..., 0], np.square(self.scale)[:, None, None] * cov

    def spread_of(self, rows: Any) -> Array:
        """diag(A S Aᵀ): rows are whitened through the subspace, never through a D x D root."""
        return self.spread(rows.dense())

    def latents(self, rows: Any) -> tuple[Array, Array]:
        """Mean (n, K) and covariance (n, K, K) of the latents of a row block, `inner` over all classes."""
        A = rows.dense()
        prior = np.square(A[:, : len(self.scale)] * self.scale).sum(1)
        inner = self.inner_rows(A)
        off = prior - np.square(inner[:, : self._rank]).sum(1)
        m, v = self.inner.latents(rows.replaced(inner))
        return m, v + (self.off_std**2 * np.maximum(off, 0.0))[:, None, None] * np.eye(m.shape[1])

    def shown(self, draws: Array) -> Array:
        """What draws of the inner block say of all weights; off the subspace these are at their prior's mean."""
        return self._lift(self.inner.shown(draws))

    def sample(self, n: int = 1, random_state: RandomState = None) -> Array:
        """Draw (n, D + extra)."""
        from sklearn.utils import check_random_state

        rng = check_random_state(random_state)
        z = rng.standard_normal((n, *self.inner.mean.shape[:-1], len(self.scale)))
        draws = self._lift(self.inner.sample(n, rng))
        draws[..., : len(self.scale)] += self.off_std * self.scale * (z - (z @ self.basis) @ self.basis.T)
        return draws

    def dense(self) -> Gaussian:
        """This posterior as a Gaussian with a D x D precision, which can take more data."""
        d, r = self.basis.shape
        width = self.inner.mean.shape[-1]
        extra = width - r
        lift = np.zeros((d + extra, width))
        lift[:d, :r] = self.basis / self.scale[:, None]
        lift[d:, r:] = np.eye(extra)
        off = np.zeros((d + extra, d + extra))
        off[:d, :d] = (np.eye(d) - self.basis @ self.basis.T) / np.outer(self.scale, self.scale) / self.off_std**2
        return self.inner.lifted(lift, off, self.mean)


class ChosenRows(Family):
    """Some coordinates of a Gaussian block, in any order, also several times: rows as users gave them.

    Parameters
    ----------
    block : Gaussian block
    rows : ndarray of int, shape (n,)

    Examples
    --------
    >>> import numpy as np
    >>> from sksvi.families.gaussian.dual import SiteGaussian
    >>> from sksvi.families.gaussian.views import ChosenRows
    >>> ChosenRows(SiteGaussian(np.diag([1.0, 4.0])), np.array([1, 0, 1])).std
    array([2., 1., 2.])
    """

    LAYOUT = "block Family; block.mean (…,D); rows (_) i <D"

    column = "gaussian"
    full = True

    def __init__(self, block: Any, rows: Array) -> None:
        self.block, self.rows = block, rows

    @property
    def mean(self) -> Array:
        """(n,)."""
        return self.block.mean[self.rows]

    @property
    def variance(self) -> Array:
        """(n,)."""
        return self.block.variance[self.rows]

    @property
    def cov(self) -> Array:
        """(n, n)."""
        return self.block.cov[np.ix_(self.rows, self.rows)]

    def sample(self, n: int = 1, random_state: RandomState = None) -> Array:
        """Draw (n, number of rows)."""
        return self.block.sample(n, random_state)[:, self.rows]
