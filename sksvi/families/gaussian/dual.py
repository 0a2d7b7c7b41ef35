"""A Gaussian over latents with a dense prior covariance, held as that covariance and one message per latent.

The dual form. x ~ N(0, K) has met a message N(y_i; x_i, 1/W_i) per coordinate, so that S⁻¹ = K⁻¹ + W;
with B = I + W^½ K W^½ everything follows without K⁻¹ and without 1/W, so K may be singular and W may be zero:

    S = K - K W^½ B⁻¹ W^½ K,   m = K a,   KL = ½ [log|B| - Σ W_i S_ii + aᵀm].
"""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np
from scipy.linalg import blas, lapack, lu_factor, lu_solve

from sksvi._typing.arrays import RandomState
from sksvi.families.base import Draw, Message, MessageGaussian, NotPositiveDefinite
from sksvi.families.gaussian.structures import DENSE, Structure

Array = np.ndarray

#: W_i S_ii above which 1 - [B⁻¹]_ii keeps as many digits as expectations need: the rest costs a solve for each row.
LEAST_SHARE = 1e-6


#: Columns of a triangle that are worked on at once.
COLUMNS = 128


def squares_of_columns(L: Array) -> Array:
    """Sums of squares of the columns of the lower triangle of L."""
    out = np.empty(len(L))
    for first in range(0, len(L), COLUMNS):
        columns = slice(first, first + COLUMNS)
        corner, below = np.tril(L[columns, columns]), L[first + COLUMNS :, columns]
        out[columns] = np.einsum("ij,ij->j", corner, corner) + np.einsum("ij,ij->j", below, below)
    return out


def mirrored(A: Array) -> Array:
    """The lower triangle of A copied to the upper one, in place."""
    for first in range(0, len(A), COLUMNS):
        columns = slice(first, first + COLUMNS)
        corner = np.tril(A[columns, columns], -1)
        A[columns, columns] = corner + corner.T + np.diag(np.diagonal(A[columns, columns]))
        A[columns, first + COLUMNS :] = A[first + COLUMNS :, columns].T
    return A


class SiteGaussian(MessageGaussian):
    """N(m, S) with S⁻¹ = K⁻¹ + diag(W) and m = K a, held as (K, a, W).

    In coordinates centred at c, the natural parameters of the messages are (λ1 - W c, W), λ1 = a + W m: about its own
    mean (a, W), and (0, 0) for the prior.

    Parameters
    ----------
    prior_cov : ndarray of shape (n, n)
        K, positive semi-definite; shared by all blocks of a fit.
    dual : ndarray of shape (n,), default=None
        a; None: zeros, the prior's.
    weights : ndarray of shape (n,), default=None
        W, precisions of the messages, none negative; None: zeros.

    Raises
    ------
    NotPositiveDefinite
        When a weight is negative; when K turns out to be indefinite.

    Examples
    --------
    >>> import numpy as np
    >>> from sksvi.families.gaussian.dual import SiteGaussian
    >>> q = SiteGaussian(np.array([[1.0, 0.5], [0.5, 1.0]]), np.zeros(2), np.array([1.0, 0.0]))
    >>> q.variance
    array([0.5  , 0.875])
    """

    LAYOUT = "prior_cov (n,n) f diag>=0; dual (n) f; weights (n) f >=0"

    structure: Structure = DENSE

    def __init__(self, prior_cov: Array, dual: Array | None = None, weights: Array | None = None) -> None:
        n = len(prior_cov)
        self.prior_cov = prior_cov
        self.dual = np.zeros(n) if dual is None else dual
        self.weights = np.zeros(n) if weights is None else weights
        if not np.all(self.weights >= 0):
            worst = int(np.argmin(self.weights))
            raise NotPositiveDefinite(f"the message about row {worst} has the precision {self.weights[worst]:g}", worst)

    # ---- factors
    @cached_property
    def _root_weights(self) -> Array:
        return np.sqrt(self.weights)

    @cached_property
    def _factor(self) -> Array:
        """L in the lower half, B = I + W^½ K W^½ = L Lᵀ."""
        B = self.prior_cov * self._root_weights
        B *= self._root_weights[:, None]
        B.flat[:: len(B) + 1] += 1.0
        if not np.all(np.isfinite(np.diagonal(B))):
            raise NotPositiveDefinite("the kernel matrix is not finite")
        factor, info = lapack.dpotrf(B.T, lower=1, clean=0, overwrite_a=1)
        if info:
            raise NotPositiveDefinite(f"the kernel matrix is indefinite at row {info - 1}", info - 1)
        return factor

    @cached_property
    def _inverse_factor(self) -> Array:
        """L⁻¹ in the lower half, for `variance` and, once, for `evidence_gradient`."""
        return lapack.dtrtri(self._factor, lower=1)[0]

    def _half(self, cross: Array) -> Array:
        """L⁻¹ W^½ k for the rows k of `cross` (r, n), as columns (n, r)."""
        scaled = np.multiply(cross, self._root_weights, order="C")
        return blas.dtrsm(1.0, self._factor, scaled.T, lower=1, overwrite_b=1)

    def against(self, x: Array) -> Array:
        """(I + W K)⁻¹ x = x - W^½ B⁻¹ W^½ K x."""
        inner = self._root_weights * (self.prior_cov @ x)
        solved, _ = lapack.dpotrs(self._factor, inner, lower=1)
        return x - self._root_weights * solved

    def prepare(self) -> None:
        """Factor now."""
        _ = self.variance

    # ---- moments
    @cached_property
    def mean(self) -> Array:
        """m = K a."""
        return self.prior_cov @ self.dual

    @cached_property
    def variance(self) -> Array:
        """Diagonal of S.

        W_i S_ii = 1 - [B⁻¹]_ii costs a third of K - K W^½ B⁻¹ W^½ K and is as exact where the message says something.
        """
        share = 1.0 - squares_of_columns(self._inverse_factor)
        out = np.divide(share, self.weights, out=np.zeros_like(share), where=share > LEAST_SHARE)
        faint = np.flatnonzero(~(share > LEAST_SHARE))
        if len(faint):
            out[faint] = self.latents(self.prior_cov[faint], np.diagonal(self.prior_cov)[faint])[1]
        return out

    @property
    def cov(self) -> Array:
        """S."""
        half = self._half(self.prior_cov)
        return self.prior_cov - half.T @ half

    @cached_property
    def _rows_of_cov(self) -> tuple[Array, Array]:
        """Numbers of latents in order, and their rows of S: of all, until `updated` has used some."""
        return np.arange(len(self.dual)), self.prior_cov if not self.weights.any() else np.ascontiguousarray(self.cov)

    def latents(self, cross: Array, prior_variance: Array) -> tuple[Array, Array]:
        """Mean and variance of further latents.

        Parameters
        ----------
        cross : ndarray of shape (r, n)
            Their prior covariances with x.
        prior_variance : ndarray of shape (r,)

        Returns
        -------
        mean, variance : ndarray of shape (r,)
            A variance that rounding took below zero is zero.
        """
        half = self._half(cross)
        return cross @ self.dual, np.maximum(prior_variance - np.einsum("ij,ij->j", half, half), 0.0)

    @cached_property
    def _prior_root(self) -> Array:
        """R with R Rᵀ = K: a kernel matrix may be singular, and an eigenvalue that rounding made negative is zero."""
        values, vectors = np.linalg.eigh(self.prior_cov)
        return vectors * np.sqrt(np.maximum(values, 0.0))

    def sample(self, n: int = 1, random_state: RandomState = None) -> Array:
        """Draw (n, P): draws from the prior, corrected by what the messages say of them."""
        from sklearn.utils import check_random_state

        rng = check_random_state(random_state)
        shape = n, len(self.dual)
        prior = rng.standard_normal(shape) @ self._prior_root.T
        noisy = self._root_weights * prior + rng.standard_normal(shape)
        solved, _ = lapack.dpotrs(self._factor, noisy.T, lower=1)
        return self.mean + prior - (self._root_weights * solved.T) @ self.prior_cov

    def drawn(self, rng: np.random.Generator) -> Draw:
        """A draw; what it was made from, standard normal numbers, is its source."""
        shape = len(self.dual)
        prior = self._prior_root @ rng.standard_normal(shape)
        noisy = self._root_weights * prior + rng.standard_normal(shape)
        solved, _ = lapack.dpotrs(self._factor, noisy, lower=1)
        return Draw(self.mean + prior - self.prior_cov @ (self._root_weights * solved))

    # ---- algebra of a step
    def natural(self, about: Any = None) -> tuple[Array, Array]:
        """Natural parameters of the messages in coordinates centred at the mean of `about`."""
        return self.dual + self.weights * (self.mean - about.mean), self.weights

    def replace(self, natural: Any) -> SiteGaussian:
        """The block with these messages, centred at this one's mean."""
        linear, weights = natural
        new = SiteGaussian(self.prior_cov, self.dual, weights)
        # K⁻¹(m' - m) = (I + W'K)⁻¹(linear - a): at a fixed point exactly zero, whatever the size of m.
        return new.moved_by(new.against(linear - self.dual))

    def moved_by(self, dual: Array) -> SiteGaussian:
        """The block with `dual` added to a: another mean, the same covariance."""
        new = SiteGaussian(self.prior_cov, self.dual + dual, self.weights)
        for name in ("_root_weights", "_factor", "variance", "_prior_root"):
            if name in vars(self):
                vars(new)[name] = vars(self)[name]
        return new

    def updated(self, rows: Array, linear: Array, weights: Array, change: Array) -> SiteGaussian:
        """The block once the messages about some latents are others, by an update of rank b of the rows of S to come.

        It costs 2 n r b operations, where r latents have not been updated since the block was last factored, and is as
        exact as a factorization (of which there has to be one before a latent is updated again).

        Parameters
        ----------
        rows : ndarray of shape (b,)
            Numbers of the latents.
        linear, weights : ndarray of shape (n,)
            λ1, about zero, and W of all messages after the change.
        change : ndarray of shape (b,)
            Of λ1 at these latents.

        Returns
        -------
        SiteGaussian

        Raises
        ------
        NotPositiveDefinite
            Where no covariance is left.
        """
        numbers, cov = self._rows_of_cov
        at = np.searchsorted(numbers, rows)
        own, step = cov[at], weights[rows] - self.weights[rows]
        # S' = S - S_b (I + ΔW S_bb)⁻¹ ΔW S_bᵀ, and log|B'| = log|B| + log|I + ΔW S_bb|.
        inner = lu_factor(np.eye(len(rows)) + step[:, None] * own[:, rows])
        pivots = np.diagonal(inner[0])
        if not np.prod(np.sign(pivots)) * (-1) ** np.count_nonzero(inner[1] != np.arange(len(rows))) > 0:
            raise NotPositiveDefinite("messages leave no covariance", int(rows[0]))
        solved = lu_solve(inner, step[:, None] * own)
        mean = self.mean + own.T @ lu_solve(inner, change - step * self.mean[rows])
        new = SiteGaussian(self.prior_cov, linear - weights * mean, weights)
        vars(new)["mean"] = mean
        vars(new)["variance"] = np.maximum(self.variance - np.einsum("bi,bi->i", own, solved), 0.0)
        vars(new)["_log_det"] = self._log_det + float(np.log(np.abs(pivots)).sum())
        left = np.delete(cov, at, axis=0)
        if len(left):  # S - S_b G S_bᵀ in place
            left = blas.dgemm(-1.0, solved.T, np.ascontiguousarray(left[:, rows]).T, 1.0, left.T, overwrite_c=1).T
        vars(new)["_rows_of_cov"] = np.delete(numbers, at), left
        return new

    def blended(self, other: SiteGaussian, weight: float) -> SiteGaussian:
        """(1 - weight) of this block's coordinates plus weight of the other's."""
        pairs = (self.dual, other.dual), (self.weights, other.weights)
        return SiteGaussian(self.prior_cov, *((1 - weight) * a + weight * b for a, b in pairs))

    @cached_property
    def _log_det(self) -> float:
        return 2.0 * float(np.log(np.diagonal(self._factor)).sum()) if self.weights.any() else 0.0

    def log_det(self) -> float:
        """log |B| = log |K| - log |S|, nats."""
        return self._log_det

    def kl(self, prior: SiteGaussian) -> float:
        """KL(q ‖ prior), nats, for blocks of one K: the prior itself or another step of the same fit."""
        delta = self.mean - prior.mean
        spread = np.sum((prior.weights - self.weights) * self.variance)
        distance = (self.dual - prior.dual) @ delta + prior.weights @ np.square(delta)
        return 0.5 * float(spread + distance + self.log_det() - prior.log_det())

    # ---- messages
    def over(self, prior: SiteGaussian) -> Message:
        """What the data said, about zero: λ1 = a + W m and W of this block less those of its prior."""
        linear = self.dual + self.weights * self.mean
        if prior.weights.any() or prior.dual.any():
            linear = linear - (prior.dual + prior.weights * prior.mean)
        return Message((linear, self.weights - prior.weights))

    def times(self, message: Message) -> SiteGaussian:
        """This prior times messages about its latents."""
        linear, weights = message.added()
        if self.weights.any() or self.dual.any():
            linear, weights = linear + self.dual + self.weights * self.mean, weights + self.weights
        new = SiteGaussian(self.prior_cov, linear, weights)
        return new.moved_by(new.against(linear) - linear)

    # ---- the prior's own parameters
    def under(self, prior_cov: Array) -> SiteGaussian:
        """The block of these messages under another prior covariance."""
        return SiteGaussian(prior_cov).times(self.over(SiteGaussian(self.prior_cov)))

    def log_evidence(self) -> float:
        """log ∫ N(x | 0, K) exp(λ1ᵀx - ½ xᵀWx) dx, nats: what the messages say of the prior."""
        return 0.5 * float((self.dual + self.weights * self.mean) @ self.mean - self.log_det())

    def evidence_gradient(self) -> Array:
        """Derivative of `log_evidence` in K, messages fixed: ½ (a aᵀ - W^½ B⁻¹ W^½), (n, n)."""
        inverse, _ = lapack.dlauum(self._inverse_factor, lower=1, overwrite_c=1)  # B⁻¹ = L⁻ᵀ L⁻¹
        del self._inverse_factor  # has been overwritten
        gradient = inverse.T  # by rows, whose upper half is filled
        gradient *= self._root_weights
        gradient *= -0.5 * self._root_weights[:, None]
        return mirrored(blas.dsyr(0.5, self.dual, lower=1, a=gradient.T, overwrite_a=1)).T
