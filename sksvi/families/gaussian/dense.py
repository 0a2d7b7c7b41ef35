"""Gaussian blocks q(w) = N(m, P⁻¹) held as mean and precision, one or a stack of them (leading axes are plates)."""

from __future__ import annotations

from typing import Any

import numpy as np

from sksvi.families.base import Draw, Message, NotPositiveDefinite
from sksvi.families.gaussian.normal import Normal, StandardGaussian
from sksvi.families.gaussian.structures import DENSE, DIAGONAL, Structure, structure_of

__all__ = ["DiagonalGaussian", "Gaussian", "NotPositiveDefinite", "PreciseGaussian", "gaussian"]

Array = np.ndarray

#: Share of the prior's precision that stays while the data's precision changes by a ratio.
STILL = 0.01


def gaussian(mean: Array, precision: Any, root: Any = None) -> Any:
    """N(mean, precision⁻¹) in the structure that the precision is held in.

    Parameters
    ----------
    mean : ndarray of shape (..., P)
    precision : ndarray of shape (..., P, P) or (..., P), or a structured matrix
    root : optional
        C with CᵀC = precision⁻¹, where it is known already.

    Returns
    -------
    Gaussian, DiagonalGaussian or the class of another structure

    Examples
    --------
    >>> import numpy as np
    >>> from sksvi.families.gaussian.dense import gaussian
    >>> type(gaussian(np.zeros(2), np.eye(2))).__name__, type(gaussian(np.zeros(2), np.ones(2))).__name__
    ('Gaussian', 'DiagonalGaussian')
    """
    return structure_of(precision, mean.ndim).block(mean, precision, root)


def reweighted(block: Any, W: Array | None) -> Any:
    """The Gaussian of precision L W Lᵀ about the same mean, L Lᵀ that of a dense block; the block itself for None."""
    if W is None:
        return block
    block = block.natural_form()
    root = np.linalg.cholesky(block.precision)
    return gaussian(block.mean, root @ W @ root.T)


class PreciseGaussian(Normal):
    """A Gaussian held as mean and precision, the precision in a structure that a subclass fixes.

    Parameters
    ----------
    mean : ndarray of shape (..., P)
    precision : matrix of the structure
    root : optional
        C with CᵀC = precision⁻¹, where it is known already.

    Raises
    ------
    NotPositiveDefinite
        When the factor of the precision is first needed and does not exist.
    """

    structure: Structure
    _root: Any = None

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if cls.structure.block is None:
            cls.structure.block = cls

    def __init__(self, mean: Array, precision: Any, root: Any = None) -> None:
        self.mean, self.precision, self._root = mean, precision, root

    @property
    def root(self) -> Any:
        """C, S = CᵀC."""
        if self._root is None:
            self._root = self.structure.root(self.precision)
        return self._root

    def _changed(self) -> None:
        self._root = None

    def natural_form(self) -> Any:
        """The block itself, which is held by its mean and precision."""
        return self

    def standard(self) -> StandardGaussian:
        """This distribution as a block held by its mean and the root C of its covariance."""
        return StandardGaussian(self.mean, self.root)

    # ---- the precision
    def dot(self, x: Array) -> Array:
        """P x."""
        return self.structure.dot(self.precision, x)

    def solve(self, x: Array) -> Array:
        """S x."""
        return self.structure.solve(self.root, x)

    def precision_like(self, other: Any) -> Any:
        """The precision in the form that `other` is held in."""
        return other.structure.converted(self.precision, self.structure, other)

    def expected_quadratic(self, q: Any) -> float:
        """E_q (w - m)ᵀ P (w - m), summed over plates."""
        return self.structure.expected_quadratic(self.precision, q.mean - self.mean, q)

    def log_det_precision(self) -> float:
        """log |P| summed over plates."""
        return self.structure.log_det_precision(self)

    # ---- steps
    def natural(self, about: Any = None) -> tuple[Array, Any]:
        """Natural parameters (P(m - c), P) in coordinates centred at c, the mean of `about`.

        Centring makes the natural step m + rho S (P0 (mu - m) + g): the same numbers without the cancellation of
        P m - rho P m when the mean is large.
        """
        return self.dot(self.mean - about.mean), self.precision_like(about)

    def replace(self, natural: Any) -> Any:
        """The Gaussian with these natural parameters, centred at this one's mean."""
        shift, precision = natural
        new = type(self)(self.mean, precision)
        return type(self)(self.mean + new.solve(shift), precision, new._root)

    def narrowed(self, factor: float) -> Any:
        """The block with the same mean and `factor` times the precision; None where that overflows."""
        try:
            with np.errstate(over="raise"):
                return type(self)(self.mean, factor * self.precision)
        except FloatingPointError:
            return None

    def beyond(self, before: Any, share: float) -> Any:
        """The block itself: a natural step of rate 1 is Newton's, beyond which nothing is gained."""
        return self

    @staticmethod
    def natural_gradient(gradient: tuple[Array, Any]) -> tuple[Array, Any]:
        """(g, H), the gradient in mean and covariance, as gradient in the (centred) mean parameters."""
        g, curvature = gradient
        return g, -2.0 * curvature

    # ---- messages
    def over(self, prior: Any) -> Message:
        """What the data said, about zero: P m and P of this block less those of its prior."""
        linear = self.dot(self.mean) - prior.dot(prior.mean)
        return Message((linear, self.precision - prior.precision_like(self)))

    def times(self, message: Message) -> Any:
        """This prior times a message, in the structure of the message."""
        linear, precision = message.added()
        structure = structure_of(precision, linear.ndim)
        like = structure.block(linear, precision)
        precision = structure.added(self.precision, self.structure, precision, 1.0, like)
        root = structure.root(precision)
        return structure.block(structure.solve(root, self.dot(self.mean) + linear), precision, root)

    def log_evidence(self, message: Message, share: float = 1.0) -> float:
        """log ∫ of this prior times a share of a message, nats, up to a constant that no prior changes."""
        linear, precision = message.added()
        own, structure = self.dot(self.mean), structure_of(precision, linear.ndim)
        like = structure.block(linear, precision)
        precision = structure.added(self.precision, self.structure, precision, share, like)
        gained = structure.log_gain(precision, own + share * linear)
        return gained + 0.5 * (self.log_det_precision() - float((self.mean * own).sum()))

    def message_from_gradient(self, gradient: tuple[Array, Any]) -> Message:
        """(g + P m, P) with P = -2 H, for the gradient (g, H) in mean and covariance."""
        g, precision = self.natural_gradient(gradient)
        return Message((g + self.structure.dot(precision, self.mean), precision))

    def expected_log_message(self, message: Message) -> tuple[tuple[Any, ...], float]:
        """(h - P m, -P / 2), and hᵀm - (mᵀP m + tr P S) / 2."""
        linear, precision = message.added()
        value = (linear * self.mean).sum() - 0.5 * self.structure.expected_quadratic(precision, self.mean, self)
        return (linear - self.structure.dot(precision, self.mean), -0.5 * precision), float(value)

    def carried(self, total: Message, old: Message, new: Message, prior: Any, across: Any, own: Any) -> Message:
        """The message `total` of all rows, once a sample of them that sent the message `old` sends `new`.

        Precisions change by their ratio. Gradients, which may have any sign, by their difference, and what the sample
        missed of the old sum is regressed on: `own` is the covariance of that error, `across` that with the new one's.
        A share of the prior keeps directions in place that the sample does not inform.
        """
        (h, P), (h_old, P_old), (h_new, P_new) = (message.added() for message in (total, old, new))
        verbs, still, m = self.structure, STILL * prior.precision_like(self), self.mean
        error = verbs.regressed(h - h_old - verbs.dot(P - P_old, m), across + still, own + still)
        precision = verbs.carried(P, still + P_old, still + P_new)
        return Message((error + h_new + verbs.dot(precision - P_new, m), precision))

    # ---- plates
    @property
    def array_dims(self) -> dict[str, int]:  # type: ignore[override]
        """Mean and precision."""
        return {"mean": 1, "precision": self.structure.rank}

    # ---- draws
    def of_slopes(self, draw: Draw, slope: Array) -> tuple[Array, Any]:
        """The slope in the mean, and ½ P (x - m) slopeᵀ, symmetric, in the covariance: E ½ ∇²f by Stein's lemma."""
        return slope, 0.5 * self.structure.outer(self.dot(draw.value - self.mean), slope, self)


class Gaussian(PreciseGaussian):
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

    LAYOUT = "mean (…,D) f; precision (…,D,D) f diag>0; _root? (…,D,D) f diag>0"

    structure = DENSE

    def __getstate__(self) -> dict[str, Any]:
        """What pickles hold: a symmetric precision and its triangular root as one matrix and a diagonal."""
        state, P, C = vars(self).copy(), self.precision, self._root
        if C is None or np.ndim(P) != 2 or np.any(np.triu(C, 1)) or not np.array_equal(P, P.T):
            return state
        orders = tuple("C" if part.flags.c_contiguous else "F" for part in (P, C))
        both = np.where(np.tri(len(P), dtype=bool), C, P)
        return {**state, "precision": None, "_root": None, "both": (both, np.diagonal(P), orders)}

    def __setstate__(self, state: dict[str, Any]) -> None:
        state = dict(state)
        both = state.pop("both", None)
        vars(self).update(state)
        if both is not None:
            packed, diagonal, orders = both
            below = np.tri(len(packed), dtype=bool)
            P = np.array(np.where(below, packed.T, packed), order=orders[0])
            np.fill_diagonal(P, diagonal)
            self.precision, self._root = P, np.array(np.where(below, packed, 0.0), order=orders[1])

    def lifted(self, lift: Array, off: Array, mean: Array) -> Gaussian:
        """N(mean, ·) whose precision is this one's through `lift` (P', P) plus `off` (P', P'), per plate."""
        return Gaussian(mean, lift @ self.precision @ lift.T + off)


class DiagonalGaussian(PreciseGaussian):
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

    LAYOUT = "mean (…,D) f; precision (…,D) f >0; _root? (…,D) f >0"

    structure = DIAGONAL
