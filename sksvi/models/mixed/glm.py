"""The mixed-effects GLM: noise per datum and effects per level of grouping factors (doc/mixed_effects.md).

f_i = x_iᵀw + Σ_f z_ifᵀ u_f[level of i] + noise_i, noise_i ~ N(0, w2), u_f ~ N(0, Σ_f). The levels' effects
are further weights, so that their posterior is one Gaussian with the fixed effects. w2 has a Rayleigh posterior; what
makes a group's covariance is a point, "group_std", in the coordinates of `covariances`.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from sklearn.base import clone

from sksvi.algorithms.rules import ClosedForm, Rule
from sksvi.families import Marginal, Point, Rayleigh
from sksvi.families.gaussian.level_blocks import LevelBlocks, LevelGaussian
from sksvi.models.base import LinearTerms, Starts
from sksvi.models.linear.glm import LinearModel
from sksvi.models.mixed import noise_bounds
from sksvi.models.mixed.covariances import (
    GROUP_CONSTANT,
    GROUP_PRIOR_SCALE,
    Groups,
    SquaredDeviation,
    correlation_slope,
    covariance_slope,
    drawn_correlations,
    log_correlation_density,
)
from sksvi.models.mixed.levels import UNSEEN
from sksvi.models.mixed.noise_table import MOST_VALUES, NoiseTable

Array = np.ndarray

#: First standard deviation of a group's effects in those units.
GROUP_START = 0.5
#: Distance of slopes' columns from zero, in their units, from which a second start is tried.
FAR = 2.5
#: First scale of q(w2), where the prior allows it, and units of f beyond which the square of a variance is no number.
NOISE_START, MOST_UNIT = 0.5, 1e75


@dataclass(frozen=True)
class SlopeStarts(Starts):
    """Independent effects of columns far from zero: intercepts that allow for lines that differ as much more there.

    Else slopes of moderate size look impossible from the first rows on, and vanish before intercepts have grown.
    """

    groups: Groups | None
    means: tuple[Array, ...]

    def others(self, q: dict[str, Any]) -> list[dict[str, Any]]:
        """Deviations of intercepts that allow for it."""
        off = [float(np.linalg.norm(mean)) for mean in self.means]
        if self.groups is None or not max(off, default=0.0) > FAR:
            return []
        values = q["group_std"].value.copy()
        values[np.cumsum([0, *self.groups.effects[:-1]])] += 0.5 * np.log1p(np.square(off))
        return [{"group_std": Point(values)}]


class MixedModel(LinearModel):
    """GLM with noise per datum, effects per level, or both.

    Parameters
    ----------
    likelihood, **options
        As for :class:`sksvi.models.linear.glm.LinearModel`; `n_features` counts the levels' effects too.
    bound : {"optimal", "simple", "mean-field"}
    noise_prior_scale : float, "auto" or None
        Of the Rayleigh prior of w2; "auto": its root has the prior of groups' deviations; None: no noise.
    groups : Groups or None
    slope_means : tuple of ndarray, optional
        By factor the means of the columns that have slopes beside an intercept, in the units that they are in.
    unseen : list of ndarray of shape (r, r), optional
        Covariance of the effects of a level that the fit did not have, by factor, for predictions; None: not counted
        in.
    """

    def __init__(
        self,
        likelihood: Any,
        *,
        bound: str,
        noise_prior_scale: float | str | None,
        groups: Groups | None = None,
        slope_means: tuple[Array, ...] = (),
        unseen: list[Array] | None = None,
        **options: Any,
    ) -> None:
        super().__init__(likelihood, **options)
        self.bound, self.noise_prior_scale, self.groups = bound, noise_prior_scale, groups
        self.slope_means, self.unseen = slope_means, unseen
        #: Serves the optimal bound of a fit.
        self.table: NoiseTable | None = None

    def tabulated(self, y: Array) -> MixedModel:
        """The model with a table for the optimal bound of these y, where there is nothing to learn and few differ."""
        wanted = self.noise_prior_scale is not None and self.bound == "optimal" and not self.likelihood.learned
        smooth = self.likelihood.traits.log_concave and self.likelihood.noise_variance is None
        if wanted and smooth and (n_values := len(np.unique(y, axis=0))) <= MOST_VALUES:
            return self.replaced(table=NoiseTable(self.likelihood, n_values))
        return self

    def with_fixed_likelihood(self, q: dict[str, Any], y: Array) -> tuple[MixedModel, dict[str, Any]]:
        """The model of data y whose likelihood has nothing to learn, its parameters where q has them, and q without."""
        if "likelihood" not in q:
            return self, q
        model = self.replaced(likelihood=clone(self.current_likelihood(q))).tabulated(y)
        return model, {name: block for name, block in q.items() if name != "likelihood"}

    @property
    def n_fixed(self) -> int:
        """Columns of X that are no grouping factor."""
        return self.n_features if self.groups is None else self.groups.starts[0]

    # ---- blocks
    def precision(self, q: dict[str, Any]) -> Array:
        """Prior precision of the fixed weights, then of the levels' effects, each as if the others had none."""
        fixed = super().precision(q)
        if self.groups is None:
            return fixed
        return np.concatenate([fixed, np.exp(-2.0 * q["group_std"].value)[self.groups.scale_of]])

    def prior(self, q: dict[str, Any]) -> dict[str, Any]:
        """Gaussian on all weights, that of the noise variance beside q of it."""
        prior = super().prior(q)
        if self.groups is not None and self.groups.n_values > self.groups.n_scales:
            alone = prior["weights"]
            prior["weights"] = LevelGaussian(alone.mean, self._blocks(alone.precision, q["group_std"].value))
        if isinstance(self.noise_prior_scale, str):
            at = q["noise"].scale if "noise" in q else self.unit**2
            prior["noise"] = SquaredDeviation(GROUP_PRIOR_SCALE * self.unit, at)
        elif self.noise_prior_scale is not None:
            prior["noise"] = Rayleigh(self.noise_prior_scale)
        return prior

    def _blocks(self, alone: Array, values: Array) -> LevelBlocks:
        """The prior precision of all weights, `alone` (P,) that of independent ones."""
        groups = self.groups
        assert groups is not None
        covariances, diag = groups.covariances(values), alone.copy()
        places, blocks = [], []
        for f, r, *_ in groups.correlated_factors:
            block = np.linalg.inv(covariances[f])
            block = 0.5 * (block + block.T)
            start, levels = groups.starts[f], groups.levels[f]
            diag[start : start + levels * r] = np.tile(np.diagonal(block), levels)
            places.append((start, levels))
            blocks.append(block)
        return LevelBlocks(diag, tuple(places), tuple(blocks))

    @cached_property
    def hyper(self) -> dict[str, Rule]:
        """Rules of the GLM's hyperparameters, and a closed form for the standard deviations of group effects."""
        rules = dict(super().hyper)
        if self.groups is not None:
            rules["group_std"] = ClosedForm(self._group_step, self.log_group_density)
        return rules

    def drawn_hyper(self, rng: Any) -> dict[str, Any]:
        """The groups' standard deviations, from their half-Student-t, and correlations."""
        if self.groups is None:
            return {}
        drawn = np.abs(rng.standard_t(3.0, self.groups.n_scales))
        correlations = [drawn_correlations(r, rng) for _, r, *_ in self.groups.correlated_factors]
        return {"group_std": Point(np.concatenate([np.log(GROUP_PRIOR_SCALE * self.unit * drawn), *correlations]))}

    def first_hyper(self) -> dict[str, Any]:
        """Groups and noise at moderate scales."""
        first: dict[str, Any] = {}
        if self.groups is not None:
            values = np.zeros(self.groups.n_values)
            values[: self.groups.n_scales] = np.log(GROUP_START * self.unit)
            first["group_std"] = Point(values)
        if self.noise_prior_scale is not None:
            if self.unit > MOST_UNIT:
                raise ValueError(f"y varies by {self.unit:g}, too much for noise per row: give y in another unit.")
            most = np.inf if isinstance(self.noise_prior_scale, str) else self.noise_prior_scale
            first["noise"] = Rayleigh(min(most, NOISE_START * self.unit**2))
        return first

    @property
    def starts(self) -> Starts:  # type: ignore[override]
        """Wider intercepts where slopes are those of columns far from zero."""
        return SlopeStarts(self.groups, self.slope_means)

    # ---- gradients
    def terms(self, view: dict[str, Any], batch: Any, expect: Any, rng: Any) -> LinearTerms:
        """Terms per datum; a row without a known level has the variance of any level's effect, as in predictions."""
        if self.unseen is None:
            return super().terms(view, batch, expect, rng)
        v = self.with_unseen(self.latent_variance(view, batch), batch.data.X)
        return self.terms_at(view, batch, expect, rng, v)

    def expected(
        self, q: dict[str, Any], likelihood: Any, y: Array, m: Array, v: Array, expect: Any, rng: Any
    ) -> LinearTerms:
        """The datum's term of the bound and its derivatives, noise integrated out or in a q of its own."""
        if self.noise_prior_scale is None:
            return super().expected(q, likelihood, y, m, v, expect, rng)
        scale = q["noise"].scale
        terms = noise_bounds.BOUNDS[self.bound] if self.table is None else self.table.optimal
        value, alpha, gamma, slope = terms(likelihood, y, m, v, scale, expect, rng)
        points = {}
        if "likelihood" in q:
            points["likelihood"] = noise_bounds.parameters(likelihood, y, m, v, scale, expect, rng, bound=self.bound)
        # The outer product stands for the curvature: streams ask how well past rows know the noise.
        return LinearTerms(value, alpha, gamma, m, points, {"noise": np.stack([slope, -np.square(slope)], axis=1)})

    def log_prob_at(self, likelihood: Any, y: Array, f: Array, draws: dict[str, Array]) -> Array:
        """log p(y | f) with the noise of each row integrated out, at the draws of its variance."""
        if self.noise_prior_scale is None:
            return super().log_prob_at(likelihood, y, f, draws)
        repeated = np.tile(y, (len(f), *[1] * (y.ndim - 1)))
        w2 = np.repeat(draws["noise"][:, 0], f.shape[1])
        return noise_bounds.log_phi_at(likelihood, repeated, f.ravel(), w2).reshape(f.shape)

    def log_group_density(self, q: dict[str, Any]) -> float:
        """Log prior density of the groups' log standard deviations, in the unit of f, and of their z, nats."""
        assert self.groups is not None
        values, log_unit = q["group_std"].value, self.traits.bound.log_unit
        log_std = values[: self.groups.n_scales]
        deviations = float(np.sum(GROUP_CONSTANT + log_std - log_unit - 2.0 * np.log1p(self._squared(log_std) / 3.0)))
        return deviations + sum(log_correlation_density(values[z], r) for _, r, _, z in self.groups.correlated_factors)

    def _squared(self, log_std: Array) -> Array:
        """(s / prior scale)²."""
        return np.exp(2.0 * log_std) / (GROUP_PRIOR_SCALE * self.unit) ** 2

    def group_slope(self, q: dict[str, Any]) -> tuple[Array, Array]:
        """Slope of the bound in each log s of independent effects, and a curvature that is safe.

        With g well-determined effects of L (g = L - tr S / s²) the bound's slope in log s is Σ m² / s² - g, plus the
        prior's; Σ m² / s² falls as exp(-2 log s), g hardly moves (MacKay 1992).
        """
        assert self.groups is not None
        log_std, of = q["group_std"].value[: self.groups.n_scales], self.groups.scale_of
        part = slice(self.n_fixed, self.n_features)
        count = np.bincount(of).astype(float)
        variance = np.exp(2.0 * log_std)
        norm = np.bincount(of, np.square(q["weights"].mean[part])) / variance
        determined = count - np.bincount(of, q["weights"].variance[part]) / variance
        slope, bend = self._deviation_slope(log_std)
        return norm - determined + slope, 2.0 * np.maximum(norm, determined) + bend

    def _deviation_slope(self, log_std: Array) -> tuple[Array, Array]:
        """Slope of the prior's log density in log s, and a curvature that is safe."""
        ratio = self._squared(log_std) / 3.0
        return 1.0 - 4.0 * ratio / (1.0 + ratio), 8.0 * ratio / (1.0 + ratio) / (1.0 + ratio) + 1.0

    def covariance_slope(self, f: int, q: dict[str, Any]) -> tuple[Array, Array]:
        """Slope of the bound in log s and z of the correlated effects of factor f, and a curvature (V, V)."""
        groups, block = self.groups, q["weights"]
        assert groups is not None
        (scales, own) = next((scales, z) for at, _, scales, z in groups.correlated_factors if at == f)
        log_std, z = q["group_std"].value[scales], q["group_std"].value[own]
        start, levels, r = groups.starts[f], groups.levels[f], groups.effects[f]
        part = slice(start, start + levels * r)
        means = block.mean[part].reshape(levels, r)
        spread = np.diag(block.variance[part].reshape(levels, r).sum(0))
        for j, k, *pair in groups.pairs(f):
            spread[j, k] = spread[k, j] = block.structure.between(block.root, *pair).sum()
        slope, bend = covariance_slope(log_std, z, means.T @ means, spread, levels)
        priors = zip(self._deviation_slope(log_std), correlation_slope(z, r), strict=True)
        prior_slope, prior_bend = (np.concatenate(parts) for parts in priors)
        return slope + prior_slope, bend + np.diag(prior_bend)

    def _group_step(self, q: dict[str, Any]) -> tuple[Array, float]:
        """Step of log s and z, and the gain it promises."""
        assert self.groups is not None
        slope, bend = self.group_slope(q)
        step = np.clip(slope / bend, -1.0, 1.0)
        for f, r, scales, _ in self.groups.correlated_factors:
            own, curvature = self.covariance_slope(f, q)
            found = np.linalg.solve(curvature, own)
            found /= max(1.0, np.abs(found).max())
            slope[scales], step[scales] = own[:r], found[:r]
            slope, step = np.append(slope, own[r:]), np.append(step, found[r:])
        return step, 0.5 * float(np.sum(np.abs(slope * step)))

    def exposed(self, weights: Any) -> Any:
        """The fixed effects and the intercept."""
        if self.groups is None:
            return super().exposed(weights)
        last = [self.n_features] if self.fit_intercept else []
        return Marginal(weights, np.array([*range(self.n_fixed), *last], int))

    def predict_latent(self, weights: Any, X: Any, offset: Array | None = None) -> tuple[Array, Array]:
        """Mean and variance of f without noise; a row without a known level has the variance of any level's effect."""
        m, v = super().predict_latent(weights, X, offset)
        return m, v if self.groups is None or self.unseen is None else self.with_unseen(v, X)

    def unseen_variance(self, X: Any) -> Array:
        """Variance of the effects of levels that the fit did not have, (n,)."""
        v = np.zeros(X.shape[0])
        if self.groups is None or self.unseen is None:
            return v
        for f, (values, cov) in enumerate(zip(X.values, self.unseen, strict=True)):
            Z = np.ones((len(v), 1)) if values is None else values
            own = np.square(Z) @ np.diagonal(cov)
            for j, k in zip(*np.tril_indices(len(cov), -1), strict=True):
                own += 2.0 * cov[j, k] * Z[:, j] * Z[:, k]
            v += (X.codes[:, f] == UNSEEN) * own
        return v


# ---- the posterior of the groups' standard deviations
#: Most passes to settle q(w) at other scales, and the change in nats at which it has settled.
SETTLING_PASSES, SETTLED = 50, 0.3
