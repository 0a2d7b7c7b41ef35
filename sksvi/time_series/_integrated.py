"""A fitted series at each node of its hyperparameters, and what mixtures over these nodes say."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from scipy.special import expit, logit, ndtr, ndtri

from sksvi._typing.arrays import RandomState
from sksvi.estimators.hyperparameters import IntegratedHyperparameters
from sksvi.estimators.posterior import Posterior
from sksvi.families.gaussian.chain import Chain, ChainGaussian
from sksvi.inference.records import replace
from sksvi.integrals.nodes import Nodes
from sksvi.models.time_series.integrated import all_parameters, nodes_of
from sksvi.models.time_series.search import closed_messages, without_offsets
from sksvi.predictive import MixturePredictive, Predictive
from sksvi.predictive.coverage import tail_of
from sksvi.predictive.mixture import mixed_moments, normal_quantiles

Array = np.ndarray

#: Share of their spread within which a node is where a fit ended.
NEARBY = 0.1


def after(chain: Chain, last: Array, last_cov: Array, X: Array) -> Chain:
    """The chain of points after those of a chain whose last states have this mean and covariance."""
    if chain.is_level:
        return replace(chain, X=X, mean=last, cov=last_cov + chain.noise)
    A = chain.transition()
    cov = A @ last_cov @ A.T + np.diag(chain.noise)
    return replace(chain, X=X, mean=A @ last, cov=0.5 * (cov + cov.T))


@dataclass
class NodeView:
    """The series as one node of the hyperparameters sees it: its weight, likelihood, block, and states at the end."""

    weight: float
    likelihood: Any
    block: ChainGaussian
    last: Array
    last_cov: Array

    def after(self, X: Array) -> Chain:
        """The chain of points after the last one; rows of X in units of their own."""
        return after(self.block.chain, self.last, self.last_cov, X)


class MixedLatents:
    """The posterior of f, a mixture over nodes of the hyperparameters.

    Parameters
    ----------
    components : sequence of ChainGaussian
    weights : ndarray of shape (k,)
    """

    def __init__(self, components: Sequence[ChainGaussian], weights: Array) -> None:
        self.components, self.weights = list(components), np.asarray(weights, float)
        parts = [part.mean for part in components], [part.variance for part in components]
        self.mean, self.variance = mixed_moments(*parts, self.weights)

    @property
    def std(self) -> Array:
        """Standard deviations of f."""
        return np.sqrt(self.variance)

    @property
    def cov(self) -> Array:
        """Covariance of f, (T, T)."""
        found = np.zeros((len(self.mean), len(self.mean)))
        for weight, part in zip(self.weights, self.components, strict=True):
            off = part.mean - self.mean
            found += weight * (part.cov + np.outer(off, off))
        return found

    def sample(self, n: int = 1, random_state: RandomState = None) -> Array:
        """Draws (n, T) of f."""
        from sklearn.utils import check_random_state

        rng = check_random_state(random_state)
        counts = rng.multinomial(n, self.weights)
        drawn = [part.sample(int(c), rng) for part, c in zip(self.components, counts, strict=True) if c]
        return np.concatenate(drawn)[rng.permutation(n)]


class IntegratedSeries(IntegratedHyperparameters):
    """Nodes of the hyperparameters of a `DynamicGLM`: found at the end of a fit, held while points are appended."""

    #: Messages (k, 2, T) that the nodes had at the end of the fit; None: those of the fit serve.
    _node_messages: Array | None = None
    #: Of a file without rows: mean and covariance of the last states at each node.
    _node_ends: tuple[Array, Array] | None = None
    #: Nodes of the fit that chose the level.
    _found_nodes: tuple[Nodes, Array | None] | None = None
    #: By how much the log evidence exceeds the bound at the mode, nats.
    _gain = 0.0

    # ---- at the end of a fit
    def _leave_nodes(self: Any) -> None:
        """Forget the nodes of the last fit."""
        for name in ("_nodes", "_node_messages", "_node_ends", "_gain", "_found_nodes"):
            vars(self).pop(name, None)
        self._leave_mixture()

    def _leave_mixture(self) -> None:
        """Forget what the nodes said of the points so far."""
        for name in ("_one_ahead", "_views", "posterior_", "coef_", "coef_std_"):
            vars(self).pop(name, None)

    def _refine(self: Any, problem: Any, state: Any, looks: Any) -> str | None:
        """Nodes of what was learned."""
        if self.hyperparameters == "integrated":
            frozen = "likelihood" in problem.frozen
            found, self._found_nodes = self._found_nodes, None
            if found is None or not self._near_end(found[0], state.shown):
                found = nodes_of(problem.model, problem.data, self._rule(), state.shown, frozen)
            if found is not None:
                self._nodes, self._node_messages = found
                self._gain = float(self._nodes.log_integral - self.lower_bound_)
                self._leave_mixture()
                self._add_gain()
                _ = self._views  # predictions leave an estimator as it is
        return super()._refine(problem, state, looks)  # type: ignore[misc,no-any-return]

    @staticmethod
    def _near_end(nodes: Nodes, q: Any) -> bool:
        """Whether nodes that were found before lie about where a fit ended."""
        value = all_parameters(q)
        off = np.abs(nodes.values - value).min(axis=0)
        return bool(np.all(off <= NEARBY * np.maximum(nodes.std, NEARBY)))

    def _add_gain(self: Any) -> None:
        """Turn the bound at the mode into the log evidence, by the gain of the integral."""
        self.lower_bound_ += self._gain
        self.diffuse_lower_bound_ += self._gain

    # ---- the nodes
    @property
    def _block(self: Any) -> ChainGaussian:
        """Messages at the mode."""
        block: ChainGaussian = self.state_.shown["latents"]
        return block

    @cached_property
    def _views(self: Any) -> list[NodeView]:
        """The series as each node of the hyperparameters sees it; at the mode, where they are a point."""
        if self._nodes is None:
            return [NodeView(1.0, self.likelihood_, self._block, self._last, self._last_cov)]
        return [self._view(k) for k in range(len(self._nodes.weights))]

    def _view(self: Any, k: int) -> NodeView:
        theta, likelihood = self._at_node(k)
        block, data = self._block, self._series
        chain = self._dynamics.chain(theta, block.chain.X)
        if self._node_ends is not None:  # of the first points only these are left
            end = self._node_ends[0][k], self._node_ends[1][k]
            chain = after(chain, *end, block.chain.X)
        if likelihood.noise_variance is not None:
            messages = closed_messages(likelihood, without_offsets(data), data.weight)
        elif self._node_messages is None:
            messages = block.linear, block.weights
        else:  # points that were appended have the messages that they had at the mode
            own = self._node_messages[k]
            pairs = zip(own, (block.linear, block.weights), strict=True)
            messages = tuple(np.concatenate([node_part, mode_part[len(node_part) :]]) for node_part, mode_part in pairs)
        found = ChainGaussian(chain, *messages)
        if not len(chain):
            return NodeView(float(self._nodes.weights[k]), likelihood, found, *end)
        return NodeView(float(self._nodes.weights[k]), likelihood, found, found.swept.last, found.swept.last_cov)

    def _at_node(self: Any, k: int) -> tuple[Array, Any]:
        """Parameters of the states, and the likelihood, of a node."""
        values, n = self._nodes.values[k], len(self._dynamics.parameters)
        likelihood = self.likelihood_
        return values[:n], likelihood.replace(values[n:]) if len(values) > n else likelihood

    def _hyperparameter_columns(self: Any, values: Array) -> dict[str, Array]:
        """Variances, dampings and periods, and the likelihood's parameters as it reports them."""
        found: dict[str, Array] = {}
        for place, parameter in enumerate(self._dynamics.parameters):
            column, name = values[:, place], parameter.name
            found["damping" if name == "level_damping" else name] = (
                expit(column) if name.endswith("_damping") else np.exp(column)
            )
        n = len(found)
        if values.shape[1] > n:
            reported = [self.likelihood_.replace(each[n:]).reported for each in values]
            found |= {name: np.array([one[name] for one in reported]) for name in reported[0]}
        return found

    # ---- mixtures
    @property
    def _weights(self) -> Array:
        return np.array([view.weight for view in self._views])

    def _mixture(self, of: Callable[[NodeView], tuple[Array, Array]]) -> tuple[Array, Array]:
        """Mean and variance over the nodes of what each has a mean and variance of."""
        means, variances = zip(*map(of, self._views), strict=True)
        return (means[0], variances[0]) if len(means) == 1 else mixed_moments(means, variances, self._weights)

    def _mixed_predictive(self: Any, of: Callable[[NodeView], tuple[Array, Array]]) -> Predictive:
        """Distribution of y, of the mean and variance of f at each node."""
        dtype = np.dtype(getattr(self, "_dtype", "float64"))
        parts = []
        for view in self._views:
            m, v = of(view)
            parts.append(Predictive(view.likelihood, m.astype(dtype, copy=False), v.astype(dtype, copy=False)))
        return parts[0] if len(parts) == 1 else MixturePredictive(parts, self._weights)

    @cached_property
    def posterior_(self) -> Posterior:
        """The posterior of f, over the nodes of the hyperparameters."""
        views = self._views
        blocks = [view.block for view in views]
        return Posterior({"latents": blocks[0] if len(views) == 1 else MixedLatents(blocks, self._weights)})

    def _coefficients(self: Any) -> tuple[Array, Array]:
        """Mean and variance of the coefficients at the last point, for columns in their own units."""
        E = self._dynamics.n_coefficients

        def last(view: NodeView) -> tuple[Array, Array]:
            first = len(view.last) - E
            return view.last[first:], np.maximum(np.diagonal(view.last_cov)[first:], 0.0)

        found: tuple[Array, Array] = self._mixture(last)
        return found

    @cached_property
    def coef_(self: Any) -> Array:
        """Coefficients of X at the last point."""
        return np.asarray(self._coefficients()[0] / self._scale).astype(self._dtype)

    @cached_property
    def coef_std_(self: Any) -> Array:
        """Standard deviations of the coefficients of X at the last point."""
        return np.asarray(np.sqrt(self._coefficients()[1]) / self._scale).astype(self._dtype)


# ---- tables
def mixed_table(means: Array, stds: Array, weights: Array, coverage: float, index: Any) -> Any:
    """Mean, std, equal-tailed interval and direction of mixtures of normals, (k, r)."""
    import pandas as pd

    tail = tail_of(coverage)
    mean, variance = mixed_moments(means, np.square(stds), weights)
    with np.errstate(divide="ignore", invalid="ignore"):
        signs = weights @ ndtr(np.where(mean < 0.0, -1.0, 1.0) * means / stds)
    ends = {name: normal_quantiles(means, stds, weights, p) for name, p in (("lower", tail), ("upper", 1.0 - tail))}
    return pd.DataFrame({"mean": mean, "std": np.sqrt(variance), **ends, "direction": signs}, index=index)


def node_rows(values: dict[str, Array], weights: Array, coverage: float) -> Any:
    """Rows of numbers that nodes have: moments, and intervals of their logarithms, of dampings of their logits.

    What is the same at every node was given, or stays: it has a mean alone.
    """
    import pandas as pd

    half, rows = ndtri(1.0 - tail_of(coverage)), {}
    for name, column in values.items():
        mean = float(weights @ column)
        if np.ptp(column) == 0.0:
            rows[name] = [float(column[0]), np.nan, np.nan, np.nan]
            continue
        to, back = (logit, expit) if name.endswith("damping") else (np.log, np.exp)
        z = to(column)
        centre = float(weights @ z)
        spread = half * float(np.sqrt(weights @ np.square(z - centre)))
        std = float(np.hypot.reduce(np.sqrt(weights) * (column - mean)))  # whose squares may be no numbers
        rows[name] = [mean, std, float(back(centre - spread)), float(back(centre + spread))]
    return pd.DataFrame.from_dict(rows, orient="index", columns=["mean", "std", "lower", "upper"])
