"""Priors of coefficients that the user gives one by one, or all together, beside the learned prior of the others."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np

from sksvi._runtime.user import warn_user
from sksvi.families.gaussian.structures import DENSE

Array = np.ndarray

#: Smallest eigenvalue of W with which it is no rounding.
LEAST = 1e-12


@dataclass(frozen=True)
class JointPrior:
    """Normal prior of all weights and the intercept together, in the coordinates of a fit.

    Parameters
    ----------
    mean : ndarray of shape (P,)
    precision : ndarray of shape (P, P)
    """

    LAYOUT = "mean (p) f; precision (p,p) f"

    mean: Array
    precision: Array


@dataclass(frozen=True)
class NamedPriors:
    """Prior means and precisions of the coefficients, in the coordinates of a fit.

    Parameters
    ----------
    mean : ndarray of shape (D,)
        0 where the prior is learned or flat.
    precision : ndarray of shape (D,)
        Of a mixture the one at which its scale is 1. Has no meaning where the prior is learned.
    learned, flat : ndarray of bool, shape (D,)
        Which share the learned precision, and which have a flat prior.
    mixtures : tuple of StudentT or Horseshoe
        Priors with scales of single coefficients.
    mixture_of : ndarray of int, shape (D,), optional
        Which of them a coefficient has, -1: none.
    joint : JointPrior, optional
        In the place of all of these.
    """

    LAYOUT = """
        mean (d) f; precision (d) f >0; learned (d) b; flat (d) b; mixtures? items; mixture_of? (d) i; joint? JointPrior
    """

    mean: Array
    precision: Array
    learned: Array
    flat: Array
    mixtures: tuple[Any, ...] = ()
    mixture_of: Array | None = None
    joint: JointPrior | None = None

    def _each(self) -> Iterator[tuple[Any, Array]]:
        """Every mixture, and the positions of its coefficients."""
        for k, mixture in enumerate(self.mixtures):
            yield mixture, np.flatnonzero(self.mixture_of == k)

    # ---- scales of single coefficients
    def squares(self, mean: Array, variance: Array) -> Array:
        """Expected squares of coefficients (K, D) about their centres, in units of the prior, summed over K, (D,)."""
        return np.asarray(self.precision * np.sum(np.square(mean - self.mean) + variance, axis=0))

    def tangent(self, squares: Array, n_each: int) -> tuple[float, Array]:
        """Φ of all mixtures (`sksvi.priors`), nats, and the expected precisions (D,), 1 of other coefficients."""
        value, expected = 0.0, np.ones(len(squares))
        for mixture, at in self._each():
            own, expected[at] = mixture.tangent(squares[at], n_each)
            value += own
        return value, expected

    def slopes(self, squares: Array, n_each: int) -> Array:
        """Derivatives of the expected precisions, in units of the fit, in E w² of coefficients, (D, D)."""
        found = np.zeros((len(squares), len(squares)))
        for mixture, at in self._each():
            found[np.ix_(at, at)] = mixture.slopes(squares[at], n_each)
        return self.precision[:, None] * found * self.precision

    @property
    def mixed(self) -> Array:
        """Which coefficients have a scale of their own, (D,)."""
        return np.zeros(len(self.mean), bool) if self.mixture_of is None else self.mixture_of >= 0

    def drawn(self, rng: Any) -> Self:
        """The priors with the scales of mixtures drawn from what these say: normal ones."""
        precision = self.precision.copy()
        for mixture, at in self._each():
            precision[at] *= mixture.drawn_precisions(len(at), rng)
        return replace(self, precision=precision, mixtures=(), mixture_of=None)


# ---- scales of single coefficients: the block "local_scales" is the log of the squares r at which mixtures have their
# tangent, of all coefficients (0 where there is no mixture)
def local_step(model: Any, q: dict[str, Any]) -> tuple[Array, float]:
    """To the expected squares under q, where the tangent is the best one; and what that gains, nats."""
    named, k, d = model.named, model.likelihood.n_latents, model.n_fixed
    before = np.exp(q["local_scales"].value)
    squares = named.squares(*(model.by_latent(part)[:, :d] for part in (q["weights"].mean, q["weights"].variance)))
    squares = np.where(named.mixed, squares, before)
    value, expected = named.tangent(before, k)
    gain = named.tangent(squares, k)[0] - value + 0.5 * float(expected @ (squares - before))
    return np.log(squares) - q["local_scales"].value, max(gain, 0.0)


def local_density(model: Any, q: dict[str, Any]) -> float:
    """What the tangent says beside E log N(w | mean, 1 / expected precision), nats."""
    named, k, squares = model.named, model.likelihood.n_latents, np.exp(q["local_scales"].value)
    value, expected = named.tangent(squares, k)
    own = expected * squares - k * np.log(expected / (2.0 * np.pi))
    return float(value + 0.5 * np.sum(own[named.mixed]))


def local_widening(model: Any, q: dict[str, Any]) -> Array | None:
    """W (P, P) of `reweighted`: the weights' precision where scales of single coefficients follow their means.

    q holds these scales independent of the weights, and is too narrow by what a mean would move them:
    dδ = G (U dm - T dδ) with δ the precisions, G their slopes in E w², U dm the change of m² and T the squared entries
    of S (linear response: Giordano, Broderick and Jordan 2018). None where the precision is not dense, and, which is
    warned of, where q is at none of its maxima.
    """
    block, named, k = q["weights"], model.named, model.likelihood.n_latents
    if not block.full or block.structure is not DENSE:
        return None
    at = np.flatnonzero(named.mixed)
    index = np.arange(k)[:, None] * model.width + at
    G = named.slopes(np.exp(q["local_scales"].value), k)[np.ix_(at, at)]
    squared = np.square(block.cov[np.ix_(index.ravel(), index.ravel())])
    T = squared.reshape(k, len(at), k, len(at)).sum(axis=(0, 2))
    off = block.mean[index] - named.mean[at]
    response = np.linalg.solve(np.eye(len(at)) + G @ T, G)
    added = 2.0 * np.einsum("aj,jl,bl->ajbl", off, 0.5 * (response + response.T), off)
    root = np.linalg.cholesky(block.natural_form().precision)
    half = np.linalg.solve(root, np.eye(len(root))[:, index.ravel()])
    W = np.eye(len(root)) + half @ added.reshape(index.size, index.size) @ half.T
    if np.linalg.eigvalsh(W)[0] > LEAST:
        return W
    warn_user(
        "the fit ended at no maximum in the scales of single coefficients (prior=): intervals of coefficients leave "
        "out that these scales follow them, and are too short. A larger max_iter, or a smaller tol, goes on."
    )
    return None
