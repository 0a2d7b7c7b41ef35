"""Softmax: one of K unordered classes."""

from __future__ import annotations

import numpy as np

from sksvi.integrals.race import joint_softmax, race
from sksvi.likelihoods.base import Likelihood
from sksvi.likelihoods.links import Array, as_float
from sksvi.likelihoods.support import LikelihoodTraits, Support


class Softmax(Likelihood):
    """Categorical likelihood, P(y = c | f) = exp(f_c) / sum_j exp(f_j); y codes 0..K-1, f has a last axis of K.

    `mean` and `conditional_variance` are those of the indicator of each class, with the class axis. The second
    derivative is the diagonal one. `expected` is deterministic, by integrals over the largest of K Gumbel variables.

    Parameters
    ----------
    n_classes : int
        Number of classes, K >= 2.

    Examples
    --------
    >>> import numpy as np
    >>> from sksvi.likelihoods import Softmax
    >>> print(Softmax(n_classes=4).mean(np.zeros(4)))
    [0.25 0.25 0.25 0.25]
    """

    traits = LikelihoodTraits(discrete=True, classifies=True)
    ratio = "odds"

    def __init__(self, n_classes: int) -> None:
        self.n_classes = n_classes

    @property
    def n_latents(self) -> int:  # type: ignore[override]
        if not isinstance(self.n_classes, int | np.integer) or self.n_classes < 2:
            raise ValueError(f"Softmax needs n_classes, an integer >= 2; found {self.n_classes!r}.")
        return int(self.n_classes)

    @property
    def support(self) -> Support:  # type: ignore[override]
        k = self.n_latents
        return Support(0.0, k - 1.0, True, f"integer codes of {k} classes, 0 to {k - 1}")

    def derivatives(self, y: Array, f: Array) -> tuple[Array, Array, Array]:
        f, code = as_float(f), np.asarray(y).astype(np.intp)
        shape = np.broadcast_shapes(code.shape, f.shape[:-1])
        f, code = np.broadcast_to(f, (*shape, f.shape[-1])), np.broadcast_to(code, shape)[..., None]
        shifted = f - f.max(axis=-1, keepdims=True)
        p = np.exp(shifted)
        total = p.sum(axis=-1, keepdims=True)
        value = np.take_along_axis(shifted, code, axis=-1)[..., 0] - np.log(total[..., 0])
        p = p / total
        curve = -p * (1.0 - p)
        slope = -p
        np.put_along_axis(slope, code, 1.0 + np.take_along_axis(slope, code, axis=-1), axis=-1)
        return value, slope, curve

    def mean(self, f: Array) -> Array:
        f = as_float(f)
        p = np.exp(f - f.max(axis=-1, keepdims=True))
        return p / p.sum(axis=-1, keepdims=True)

    def conditional_variance(self, f: Array) -> Array:
        p = self.mean(f)
        return p * (1.0 - p)

    def cdf(self, y: Array, f: Array) -> Array:
        cumulative = np.cumsum(self.mean(f), axis=-1)
        cumulative[..., -1] = 1.0
        y = np.asarray(y, dtype=float)
        code = np.broadcast_to(np.clip(np.floor(y), 0, self.n_latents - 1).astype(np.intp), cumulative.shape[:-1])
        return np.where(y < 0, 0.0, np.take_along_axis(cumulative, code[..., None], axis=-1)[..., 0])

    def ppf(self, p: Array | float, f: Array) -> Array:
        cumulative = np.cumsum(self.mean(f), axis=-1)
        return (cumulative[..., :-1] < np.asarray(p)[..., None]).sum(axis=-1).astype(float)

    def sample(self, f: Array, rng: np.random.Generator) -> Array:
        return self.ppf(rng.random(np.shape(f)[:-1]), f)

    def expected(self, y: Array, m: Array, v: Array) -> tuple[Array, Array, Array]:
        m = as_float(m)
        self._check_latents(m)
        log_sum, p, q = race(m, v) if v.ndim == 2 else joint_softmax(m, v)
        code = np.asarray(y).astype(np.intp)
        rows = np.arange(len(m))
        slope = -p
        slope[rows, code] += 1.0
        value = m[rows, code] - log_sum
        assert q is not None  # of both by default
        return (
            value.astype(m.dtype, copy=False),
            slope.astype(m.dtype, copy=False),
            -0.5 * q.astype(m.dtype, copy=False),
        )

    def expected_mean(self, m: Array, v: Array) -> Array:
        m = as_float(m)
        self._check_latents(m)
        p = race(m, v)[1] if v.ndim == 2 else joint_softmax(m, v, hessian=False)[1]
        return p.astype(m.dtype, copy=False)

    def log_predictive(self, y: Array, m: Array, v: Array) -> Array:
        p = self.expected_mean(m, v)
        chosen = p[np.arange(len(p)), np.asarray(y).astype(np.intp)]
        return np.log(np.maximum(chosen, np.finfo(p.dtype).tiny))

    def _check_latents(self, m: Array) -> None:
        if m.ndim != 2 or m.shape[1] != self.n_latents:
            k = self.n_latents
            raise ValueError(f"Softmax with {k} classes needs f of shape (n, {k}); found {m.shape}.")
