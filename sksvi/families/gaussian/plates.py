"""Many Gaussians of one size, a plate each (users, items), held as mean and packed covariance.

A factorization reads the covariances of one side once per rating of the other, and forms a plate's precision only when
that plate steps: so the covariance is what is kept, its lower triangle row by row ("packed"), or its diagonal.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np

from sksvi._typing.arrays import RandomState
from sksvi.families.base import Draw, Family, Message
from sksvi.families.gaussian.dense import gaussian
from sksvi.families.gaussian.structures import DENSE, DIAGONAL, Structure

Array = np.ndarray

#: Plates whose covariances are unpacked at a time.
TURNED = 64


@cache
def pairs(size: int, full: bool) -> tuple[Array, Array, Array]:
    """Rows and columns of the packed coordinates, and how often each counts in a trace (2 off the diagonal)."""
    rows, cols = np.tril_indices(size) if full else (np.arange(size), np.arange(size))
    count = np.where(rows == cols, 1.0, 2.0)
    for values in (rows, cols, count):
        values.setflags(write=False)
    return rows, cols, count


def packed(matrices: Array, full: bool) -> Array:
    """(..., F, F), or (..., F) for diagonal ones, to (..., R)."""
    if not full:
        return matrices
    rows, cols, _ = pairs(matrices.shape[-1], True)
    return matrices[..., rows, cols]


def unpacked(values: Array, size: int, full: bool) -> Array:
    """(..., R) to symmetric (..., F, F), or (..., F) for diagonal ones."""
    if not full:
        return values
    rows, cols, _ = pairs(size, True)
    out = np.empty((*values.shape[:-1], size, size), values.dtype)
    out[..., rows, cols] = values
    out[..., cols, rows] = values
    return out


@dataclass
class PackedMessage(Message):
    """What the data said of each plate: natural parameters (P, F) and packed (P, R)."""

    LAYOUT = "full flag full; parts tuple; parts items 2; parts[0] (n,F) f; parts[1] (n,F~) f"

    full: bool = True

    def added(self) -> tuple[Array, Array]:
        """The second part unpacked."""
        linear, precision = self.parts
        return linear, unpacked(precision, linear.shape[1], self.full)


class GaussianPlates(Family):
    """N(mean_p, cov_p) for plates p = 1..P.

    Parameters
    ----------
    mean : ndarray of shape (P, F)
    values : ndarray of shape (P, R)
        Lower triangles of the covariances row by row, R = F (F + 1) / 2; their diagonals where not `full`, R = F.
    log_det : ndarray of shape (P,) or None
        log |cov|, nats; None: found when it is asked for.
    full : bool

    Examples
    --------
    >>> import numpy as np
    >>> from sksvi.families import GaussianPlates
    >>> q = GaussianPlates(np.zeros((1, 2)), np.array([[1.0, 0.5, 2.0]]), np.log([1.75]), True)
    >>> q.cov
    array([[[1. , 0.5],
            [0.5, 2. ]]])
    """

    LAYOUT = """
        mean (n,F) f; full flag full
        values (n,F~) f where it[:, np.cumsum(np.arange(1, F + 1)) - 1 if full else slice(None)] > 0
        _log_det? (n) f
    """

    column = "gaussian"
    array_dims = {"mean": 1, "values": 1}
    mean: Array

    def __init__(self, mean: Array, values: Array, log_det: Array | None, full: bool) -> None:
        self.mean, self.values, self._log_det, self.full = mean, values, log_det, full

    @property
    def log_det(self) -> Array:
        """log |cov| of each plate, (P,), nats."""
        if self._log_det is None:
            size = self.mean.shape[1]
            parts = [self.values[start : start + TURNED] for start in range(0, len(self), TURNED)]
            logs = [np.linalg.slogdet(unpacked(p, size, True))[1] if self.full else np.log(p).sum(-1) for p in parts]
            self._log_det = np.concatenate([np.zeros(0), *logs])
        return self._log_det

    @property
    def structure(self) -> Structure:
        """Structure of the precision of a plate: dense or diagonal."""
        return DENSE if self.full else DIAGONAL

    @classmethod
    def of(cls, block: Any) -> GaussianPlates:
        """A stack of Gaussians in any coordinates, packed."""
        root = block.root
        if block.full:
            # Cᵀ C by BLAS, one triangle kept.
            values = packed(np.swapaxes(root, -1, -2) @ root, True)
            scale = np.diagonal(root, axis1=-2, axis2=-1)
        else:
            values, scale = np.square(root), root
        return cls(block.mean, values, 2.0 * np.log(scale).sum(-1), block.full)

    @classmethod
    def constant(cls, mean: Array, variance: Array, full: bool) -> GaussianPlates:
        """Plates with the means `mean` (P, F), all of which have the variances `variance` (F,)."""
        plates, size = mean.shape
        values = np.diag(variance)[np.tril_indices(size)] if full else variance
        return cls(mean.copy(), np.tile(values, (plates, 1)), np.full(plates, np.log(variance).sum()), full)

    def __len__(self) -> int:
        return len(self.mean)

    def prepare(self) -> None:
        """Find log |cov| before threads ask for it."""
        _ = self.log_det

    @property
    def variance(self) -> Array:
        """(P, F)."""
        rows, cols, _ = pairs(self.mean.shape[1], self.full)
        return self.values[:, rows == cols]

    @property
    def cov(self) -> Array:
        """(P, F, F): formed only when asked for."""
        cov = unpacked(self.values, self.mean.shape[1], self.full)
        return cov if self.full else cov[..., None] * np.eye(self.mean.shape[1])

    def __getitem__(self, plates: Any) -> GaussianPlates:
        """The block of some plates."""
        plates = slice(plates, plates + 1) if isinstance(plates, int) else plates
        return GaussianPlates(self.mean[plates], self.values[plates], self.log_det[plates], self.full)

    def copy(self) -> GaussianPlates:
        """Arrays of its own, to be written to."""
        return GaussianPlates(self.mean.copy(), self.values.copy(), self.log_det.copy(), self.full)

    def put(self, plates: Any, other: GaussianPlates) -> None:
        """Write some plates."""
        self.log_det[plates] = other.log_det
        self.mean[plates], self.values[plates] = other.mean, other.values

    def concatenated(self, other: GaussianPlates) -> GaussianPlates:
        """One block of these plates, followed by the plates of `other`."""
        mean, values = np.concatenate([self.mean, other.mean]), np.concatenate([self.values, other.values])
        return GaussianPlates(mean, values, np.concatenate([self.log_det, other.log_det]), self.full)

    def leading(self, size: int) -> GaussianPlates:
        """Marginals of the first `size` coordinates: the first packed ones."""
        count = size * (size + 1) // 2 if self.full else size
        return GaussianPlates(self.mean[:, :size], self.values[:, :count], None, self.full)

    def anew(self, coordinates: Array, other: GaussianPlates) -> GaussianPlates:
        """The plates with some coordinates taken from `other`, which are independent of the rest."""
        rows, cols, _ = pairs(self.mean.shape[1], self.full)
        own, its = np.isin(rows, coordinates), np.isin(cols, coordinates)
        mean, values = self.mean.copy(), self.values.copy()
        mean[:, coordinates] = other.mean[:, coordinates]
        values[:, own | its] = 0.0
        values[:, own & its] = other.values[:, own & its]
        return GaussianPlates(mean, values, None, self.full)

    def turn(self, matrix: Array) -> None:
        """Become the plates of A w, where A (K, K) acts on the first K coordinates: full covariances only."""
        k, size = len(matrix), self.mean.shape[1]
        whole = np.eye(size)
        whole[:k, :k] = matrix
        self._log_det = self.log_det + 2.0 * np.linalg.slogdet(matrix)[1]
        self.mean = self.mean @ whole.T
        for start in range(0, len(self), TURNED):
            part = slice(start, start + TURNED)
            self.values[part] = packed(whole @ unpacked(self.values[part], size, True) @ whole.T, True)

    def natural_form(self) -> Any:
        """Held as means and precisions."""
        return gaussian(self.mean, np.linalg.inv(self.cov) if self.full else 1.0 / self.values)

    def for_step(self) -> Any:
        """The plates as a step needs them, by their means and precisions."""
        return self.natural_form()

    @classmethod
    def from_step(cls, block: Any) -> GaussianPlates:
        """Packed again after a step."""
        return cls.of(block)

    def for_full_step(self) -> Any:
        """The means alone, for a step of rate 1: it does not look at the precision that it replaces."""
        size = self.mean.shape[1]
        shape = (len(self), size, size) if self.full else (len(self), size)
        return gaussian(self.mean, np.broadcast_to(0.0, shape))

    def over(self, prior: Any) -> PackedMessage:
        """What the data said of each plate."""
        linear, precision = self.natural_form().over(prior).parts
        return PackedMessage((linear, packed(precision, self.full)), self.full)

    def kl_by_plate(self, prior: Any) -> Array:
        """KL(q_p ‖ prior_p), (P,), nats; the prior's precision is one for all plates or one per plate."""
        size = self.mean.shape[1]
        precision = prior.precision_like(self)
        log_det = np.linalg.slogdet(precision)[1] if self.full else np.log(precision).sum(-1)
        weights = packed(precision, self.full) * pairs(size, self.full)[2]
        trace = self.values @ weights if weights.ndim == 1 else np.sum(self.values * weights, axis=-1)
        delta = self.mean - prior.mean
        return 0.5 * (trace + np.sum(delta * prior.dot(delta), axis=-1) - size - log_det - self.log_det)

    def kl(self, prior: Any) -> float:
        """Σ KL(q_p ‖ prior_p), nats."""
        return float(self.kl_by_plate(prior).sum())

    @property
    def root(self) -> Array:
        """C of each plate, S = CᵀC."""
        return self.natural_form().root

    def standard(self) -> GaussianPlates:
        """The block itself: a step converts to the coordinates that it needs."""
        return self

    def drawn(self, rng: np.random.Generator) -> Draw:
        """A draw m + L z; z is its source."""
        z = rng.standard_normal(self.mean.shape)
        moved = np.einsum("pij,pj->pi", np.linalg.cholesky(self.cov), z) if self.full else z * self.std
        return Draw(self.mean + moved, z)

    def of_slopes(self, draw: Draw, slope: Array) -> Any:
        """The gradient in the moments from slopes, as of plates held by their means and precisions."""
        return self.natural_form().of_slopes(draw, slope)

    def sample(self, n: int = 1, random_state: RandomState = None) -> Array:
        """Draw (n, P, F)."""
        from sklearn.utils import check_random_state

        z = check_random_state(random_state).standard_normal((n, *self.mean.shape))
        if not self.full:
            return self.mean + z * self.std
        return self.mean + np.einsum("pij,npj->npi", np.linalg.cholesky(self.cov), z)

    def blended(self, other: GaussianPlates, weight: float) -> GaussianPlates:
        """(1 - weight) of these means and covariances plus weight of the other's: an average over a fit's path."""
        mean = (1 - weight) * self.mean + weight * other.mean
        values = (1 - weight) * self.values + weight * other.values
        cov = unpacked(values, mean.shape[1], self.full)
        log_det = np.linalg.slogdet(cov)[1] if self.full else np.log(cov).sum(-1)
        return GaussianPlates(mean, values, log_det, self.full)
