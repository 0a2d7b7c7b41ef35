"""Predictive distribution of y given two latents that are Gaussian together: the mean's, and that of a scale or zeros.

A mixture over nodes of the pair. Where noise is Gaussian given its scale, f is integrated in closed form.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from scipy.special import logsumexp, ndtr

from sksvi.integrals.quadrature import hermite
from sksvi.likelihoods.base import Likelihood
from sksvi.predictive.mixture import normal_quantiles
from sksvi.predictive.plain import Predictive, check_number_of_samples

Array = np.ndarray

#: Nodes of each latent.
NODES = 20
#: Numbers of a block of rows and nodes.
MOST = 2_000_000


class PairPredictive(Predictive):
    """Distribution of y with both latents integrated out, independently for each row.

    Parameters
    ----------
    likelihood : Distributional
    mean, variance : ndarray of shapes (n, 2) and (n, 2, 2)
        Of the latents.

    Examples
    --------
    >>> import numpy as np
    >>> from sksvi.likelihoods import Gaussian
    >>> from sksvi.likelihoods.distributional import Distributional
    >>> from sksvi.predictive.pair import PairPredictive
    >>> likelihood = Distributional(Gaussian(variance=1.0), "scale")
    >>> PairPredictive(likelihood, np.array([[0.0, np.log(2.0)]]), np.zeros((1, 2, 2))).std()
    array([2.])
    """

    likelihood: Any

    @property
    def _normal(self) -> bool:
        """Whether y is normal given g."""
        return self.likelihood.likelihood.noise_variance is not None

    def _nodes(self, rows: Any = slice(None)) -> tuple[Array, Array, Array, Array, Array]:
        """Weights (J,), then for the rows (J, r): g, and given g nodes, mean and variance of f."""
        m, v = (np.asarray(part[rows], float) for part in (self.latent_mean, self.latent_variance))
        x, w = hermite(NODES)
        sd = np.sqrt(v[:, 1, 1])
        pull = np.divide(v[:, 0, 1], v[:, 1, 1], out=np.zeros(len(m)), where=v[:, 1, 1] > 0)
        rest = np.maximum(v[:, 0, 0] - pull * v[:, 0, 1], 0.0)
        if self._normal:
            g = m[:, 1] + sd * x[:, None]
            centre = m[:, 0] + pull * (g - m[:, 1])
            return w, g, centre, centre, np.broadcast_to(rest, g.shape)
        u, z = (part.ravel()[:, None] for part in np.meshgrid(x, x))
        g = m[:, 1] + sd * u
        centre = m[:, 0] + pull * (g - m[:, 1])
        return np.outer(w, w).ravel(), g, centre + np.sqrt(rest) * z, centre, np.broadcast_to(rest, g.shape)

    def _mixed(self, function: Callable[[Likelihood, Array], Array]) -> Array:
        """E of a function of the likelihood given g and of f, (n,)."""

        def one(rows: slice) -> Array:
            weights, g, f, _, _ = self._nodes(rows)
            return weights @ function(self.likelihood.at(g), f)

        return self._by_block(one).astype(self.latent_mean.dtype, copy=False)

    def _by_block(self, one: Callable[[slice], Array]) -> Array:
        n, size = len(self.latent_mean), MOST // NODES**2
        return np.concatenate([one(slice(start, start + size)) for start in range(0, max(n, 1), size)])

    def mean(self) -> Array:
        """E y, shape (n,)."""
        return self._mixed(lambda given, f: given.mean(f))

    def variance(self) -> Array:
        """Var y: what the latents leave open and the uncertainty of both."""
        if self._normal:
            return self._mixed(lambda given, f: given.conditional_variance(f)) + self.latent_variance[:, 0, 0]
        squares = self._mixed(lambda given, f: given.conditional_variance(f) + np.square(given.mean(f)))
        return np.maximum(squares - np.square(self.mean()), 0.0)

    def log_prob(self, y: Array) -> Array:
        """log p(y) in nats, shape (n,)."""
        y = np.asarray(y, float)

        def one(rows: slice) -> Array:
            weights, g, f, centre, rest = self._nodes(rows)
            given = self.likelihood.at(g)
            logs = given.log_predictive(y[rows], centre, rest) if self._normal else given.log_prob(y[rows], f)
            return logsumexp(logs, axis=0, b=weights[:, None])

        return self._by_block(one).astype(self.latent_mean.dtype, copy=False)

    def sample(self, n: int, rng: np.random.Generator, trials: Array | None = None) -> Array:
        """Draws of y, shape (n_rows, n)."""
        check_number_of_samples(n)
        m, v = (np.asarray(part, float) for part in (self.latent_mean, self.latent_variance))
        z = rng.standard_normal((len(m), n, 2))
        pull = np.divide(v[:, 0, 1], v[:, 1, 1], out=np.zeros(len(m)), where=v[:, 1, 1] > 0)
        rest = np.sqrt(np.maximum(v[:, 0, 0] - pull * v[:, 0, 1], 0.0))
        off = np.sqrt(v[:, 1, 1])[:, None] * z[..., 1]
        f = m[:, None, 0] + pull[:, None] * off + rest[:, None] * z[..., 0]
        return self.likelihood.sample(np.stack([f, m[:, None, 1] + off], -1), rng)

    def _cdf(self, y: Array, rows: Array) -> Array:
        return self._cdf_and_density(y, rows)[0]

    def _cdf_and_density(self, y: Array, rows: Array) -> list[Array]:
        out = np.empty((2, len(rows)))
        for start in range(0, len(rows), size := MOST // NODES**2):
            at = slice(start, start + size)
            weights, g, f, centre, rest = self._nodes(rows[at])
            given = self.likelihood.at(g)
            if self._normal:
                sd = np.sqrt(rest + given.noise_variance)
                out[0, at] = weights @ ndtr((y[at] - centre) / sd)
                out[1, at] = weights @ np.exp(given.log_predictive(y[at], centre, rest))
            else:
                out[0, at] = weights @ given.cdf(y[at], f)
                out[1, at] = weights @ np.exp(given.log_prob(y[at], f))
        return list(out)

    def _continuous_quantile(self, level: float) -> Array:
        if not self._normal:
            return self._between(level)
        weights, g, centre, _, rest = self._nodes()
        return normal_quantiles(centre, np.sqrt(rest + self.likelihood.at(g).noise_variance), weights, level)

    def _quantile_bracket(self, level: float) -> tuple[Array, Array, Array]:
        """The quantile at the means, and the ends of those at all nodes: the mixture's lies between."""
        parts = []
        for start in range(0, len(self.latent_mean), size := MOST // NODES**2):
            _, g, f, _, rest = self._nodes(slice(start, start + size))
            given = self.likelihood.at(g)
            if self._normal:
                found = normal_quantiles(f[None], np.sqrt(rest + given.noise_variance)[None], np.ones(1), level)
            else:
                found = given.ppf(level, f)
            parts.append((found.min(0), found.max(0)))
        low, high = (np.concatenate(part) for part in zip(*parts, strict=True))
        return np.clip(self.likelihood.ppf(level, np.asarray(self.latent_mean, float)), low, high), low, high
