"""A fitted series at each node of its hyperparameters, and what mixtures over these nodes say."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from scipy.special import expit, logit, ndtr

from sksvi._runtime import parallel
from sksvi._typing.arrays import RandomState
from sksvi.estimators.posterior import Posterior
from sksvi.estimators.summaries import node_ends
from sksvi.families.gaussian.chain import Chain, ChainGaussian
from sksvi.families.gaussian.mixture import sample_mixture
from sksvi.inference.records import replace
from sksvi.integrals.nodes import Nodes
from sksvi.likelihoods import Likelihood
from sksvi.models.data import Table
from sksvi.models.time_series.components import Dynamics
from sksvi.models.time_series.integrated import Ahead, all_parameters, one_step_ahead
from sksvi.models.time_series.model import DynamicModel
from sksvi.models.time_series.search import closed_messages
from sksvi.predictive import MixturePredictive, Predictive
from sksvi.predictive.mixture import mixed_moments, normal_quantiles
from sksvi.predictive.plain import tail_of
from sksvi.time_series._encoding import SeriesEncoding
from sksvi.time_series._index import index_from_record, short_record
from sksvi.time_series._rows import counting

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
    likelihood: Likelihood
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

        return sample_mixture(self.components, self.weights, n, check_random_state(random_state))


@dataclass(frozen=True)
class SeriesFit:
    """A fitted series: its points, the messages over them, and the nodes of its hyperparameters.

    Parameters
    ----------
    encoding : SeriesEncoding
    structure : dict
        Which states there are (`_level.structure_of`).
    series : Table
        The points, encoded.
    times : dict
        Record of their index.
    likelihood : Likelihood
        Its learned scales as numbers.
    block : ChainGaussian
        Messages at the mode; before the end of a fit none.
    last, last_cov : ndarray of shape (m,), (m, m)
        States after the last point, filtered.
    nodes : Nodes or None
        Of the hyperparameters; None: they are a point.
    node_messages : ndarray of shape (k, 2, T) or None
        Messages that the nodes had at the end of the fit; None: those of the mode serve.
    node_ends : pair of ndarray of shape (k, m), (k, m, m), or None
        Last states at each node, of a fit without its rows.
    candidates : Nodes with their messages, or None
        Of the fit that chose the level.
    gain : float
        By how much the log evidence exceeds the bound at the mode, nats.
    left_out : int
        How many of the first points are known by their times alone.
    """

    LAYOUT = """
        structure dict where 'length' in it
        structure.length count >=1; left_out count
        series.X (T,_) f where T + self.left_out >= 1
        times dict where it.keys() >= {'kind', 'values', 'name'}
        index where len(it) == T + self.left_out
        dynamics.n_states count n; last (n) f; last_cov (n,n) f; nodes.weights? (k) f
        node_messages? (k,2,t) f where t <= T
        node_ends? tuple; node_ends? items 2; node_ends[0]? (k,n) f; node_ends[1]? (k,n,n) f
    """

    encoding: SeriesEncoding
    structure: dict[str, Any]
    series: Table
    times: dict[str, Any]
    likelihood: Likelihood
    block: ChainGaussian
    last: Array
    last_cov: Array
    nodes: Nodes | None = None
    node_messages: Array | None = None
    node_ends: tuple[Array, Array] | None = None
    candidates: tuple[Nodes, Array | None] | None = None
    gain: float = 0.0
    left_out: int = 0

    @cached_property
    def index(self) -> Any:
        """Points in time that the fit has rows of."""
        return index_from_record(self.times)

    @cached_property
    def dynamics(self) -> Dynamics:
        """The states, as the parameters of the fit have them."""
        return self.encoding.dynamics(self.structure)

    # ---- nodes
    @cached_property
    def views(self) -> list[NodeView]:
        """The series as each node of the hyperparameters sees it; at the mode, where they are a point."""
        if self.nodes is None:
            return [NodeView(1.0, self.likelihood, self.block, self.last, self.last_cov)]
        return [self._view(k, self.nodes) for k in range(len(self.nodes.weights))]

    def has_posteriors(self, weights: Array) -> bool:
        """Whether each node has a posterior: negative messages, these or its own, may leave none.

        Raises
        ------
        ArithmeticError, ValueError
            Where a node has none.
        """
        negative = np.any(weights < 0) or (self.node_messages is not None and np.any(self.node_messages[:, 1] < 0))
        return not negative or len(self.views) > 0

    def _view(self, k: int, nodes: Nodes) -> NodeView:
        theta, likelihood = self.at_node(nodes.values[k])
        weight, block, data = float(nodes.weights[k]), self.block, self.series
        chain = self.dynamics.chain(theta, block.chain.X)
        if self.node_ends is not None:  # of the first points only these are left
            end = self.node_ends[0][k], self.node_ends[1][k]
            chain = after(chain, *end, block.chain.X)
        if likelihood.noise_variance is not None:
            messages = closed_messages(likelihood, data.centred, data.weight)
        elif self.node_messages is None:
            messages = block.linear, block.weights
        else:  # points that were appended have the messages that they had at the mode
            linear, weights = self.node_messages[k]
            n = len(linear)
            messages = np.concatenate([linear, block.linear[n:]]), np.concatenate([weights, block.weights[n:]])
        found = ChainGaussian(chain, *messages)
        if not len(chain):
            return NodeView(weight, likelihood, found, *end)
        return NodeView(weight, likelihood, found, found.swept.last, found.swept.last_cov)

    def at_node(self, values: Array) -> tuple[Array, Likelihood]:
        """Parameters of the states, and the likelihood, of a node with these values."""
        n = len(self.dynamics.parameters)
        return values[:n], self.likelihood.replace(values[n:]) if len(values) > n else self.likelihood

    def near_end(self, q: Any) -> bool:
        """Whether nodes that were found before lie about where a fit ended."""
        if self.candidates is None:
            return False
        nodes = self.candidates[0]
        off = np.abs(nodes.values - all_parameters(q)).min(axis=0)
        return bool(np.all(off <= NEARBY * np.maximum(nodes.std, NEARBY)))

    def hyperparameter_columns(self, values: Array) -> dict[str, Array]:
        """Variances, dampings and periods, and the likelihood's parameters as it reports them."""
        found: dict[str, Array] = {}
        for place, parameter in enumerate(self.dynamics.parameters):
            column, name = values[:, place], parameter.name
            found["damping" if name == "level_damping" else name] = (
                expit(column) if name.endswith("_damping") else np.exp(column)
            )
        n = len(found)
        if values.shape[1] > n:
            reported = [self.likelihood.replace(each[n:]).reported for each in values]
            found |= {name: np.array([one[name] for one in reported]) for name in reported[0]}
        return found

    # ---- mixtures
    @cached_property
    def weights(self) -> Array:
        """Weights of the nodes, (k,)."""
        return np.array([view.weight for view in self.views])

    def mixture(self, of: Callable[[NodeView], tuple[Array, Array]]) -> tuple[Array, Array]:
        """Mean and variance over the nodes of what each has a mean and variance of."""
        means, variances = zip(*map(of, self.views), strict=True)
        return (means[0], variances[0]) if len(means) == 1 else mixed_moments(means, variances, self.weights)

    def predictive(self, of: Callable[[NodeView], tuple[Array, Array]]) -> Predictive:
        """Distribution of y, of the mean and variance of f at each node."""
        dtype, parts = np.dtype(self.encoding.dtype), []
        for view in self.views:
            m, v = of(view)
            parts.append(Predictive(view.likelihood, m.astype(dtype, copy=False), v.astype(dtype, copy=False)))
        return parts[0] if len(parts) == 1 else MixturePredictive(parts, self.weights)

    @cached_property
    def posterior(self) -> Posterior:
        """The posterior of f, over the nodes of the hyperparameters."""
        blocks = [view.block for view in self.views]
        return Posterior({"latents": blocks[0] if len(blocks) == 1 else MixedLatents(blocks, self.weights)})

    @cached_property
    def coefficients(self) -> tuple[Array, Array]:
        """Mean and standard deviation of the coefficients of X at the last point, for columns as given."""
        E = self.dynamics.n_coefficients

        def last(view: NodeView) -> tuple[Array, Array]:
            first = len(view.last) - E
            return view.last[first:], np.maximum(np.diagonal(view.last_cov)[first:], 0.0)

        mean, variance = self.mixture(last)
        scale, dtype = self.encoding.scale, self.encoding.dtype
        return np.asarray(mean / scale).astype(dtype), np.asarray(np.sqrt(variance) / scale).astype(dtype)

    # ---- points
    @property
    def columns(self) -> Array:
        """The user's columns of the points, (T, E), in units of their own."""
        return self.series.X[:, self.series.X.shape[1] - self.dynamics.n_coefficients :]

    def rows_at(self, columns: Array, at: Array) -> Array:
        """The user's columns of points at these places with what the clock there says of seasons."""
        return self.encoding.rows_at(self.dynamics, columns, at + self.left_out)

    def ahead(self, rule: Any) -> list[Ahead]:
        """Predictions of each point from those before it, at each node."""
        found: list[Ahead] | None = self._found_ahead.get(repr(rule))
        if found is None:
            with parallel.working():
                found = [one_step_ahead(v.likelihood, v.block, self.series, rule) for v in self.views]
            self._found_ahead[repr(rule)] = found
        return found

    @cached_property
    def _found_ahead(self) -> dict[str, list[Ahead]]:
        """Predictions of `ahead`, by their rule."""
        return {}

    def share(self) -> Array:
        """Weights of the states in f, (1, m), 0 for coefficients."""
        chain = self.block.chain
        return np.concatenate([chain.h, np.zeros(chain.X.shape[1])])[None]

    def after(self, X: Array) -> Chain:
        """The chain of points after the last one; rows of X in units of their own."""
        return after(self.block.chain, self.last, self.last_cov, X)

    def model_after(self, data: Table) -> DynamicModel:
        """The model of points after the last one, under what was learned."""
        unit, chain = self.encoding.unit, self.after(data.X)
        return DynamicModel(self.likelihood, self.dynamics, data.X, data.weight, unit=unit, chain=chain)

    @property
    def observed(self) -> Array:
        """Which points have an observation, (T,)."""
        return counting(self.series)

    @property
    def observations(self) -> Array:
        """y of the fit, NaN where it is missing."""
        y = self.series.y
        if self.series.weight is None:
            return y
        return np.where(self.observed.reshape(-1, *[1] * (y.ndim - 1)), y, np.nan)

    def differs_at(self, at: Array, columns: Array, y: Array | None) -> bool:
        """Whether rows of fitted points hold other columns than these; without columns, another y."""
        fitted = at < len(self.series)
        if columns.shape[1]:
            return not np.array_equal(columns[fitted], self.columns[at[fitted]])
        return y is not None and not np.array_equal(y[fitted], self.observations[at[fitted]], equal_nan=True)

    def changed(self, **parts: Any) -> SeriesFit:
        """The fit with other parts and the same states."""
        new = replace(self, **parts)
        vars(new)["dynamics"] = self.dynamics
        return new

    # ---- without rows
    @property
    def without_rows(self) -> SeriesFit:
        """The fit without its points: what is known of the last state, from which it goes on."""
        ends, messages = self.node_ends, self.node_messages
        if self.nodes is not None:
            ends = np.array([v.last for v in self.views]), np.array([v.last_cov for v in self.views])
            messages = None if messages is None else messages[:, :, :0]
        none = np.zeros(0)
        block = ChainGaussian(self.after(self.block.chain.X[:0]), none, none)
        rest = {"node_ends": ends, "node_messages": messages, "left_out": len(self.index)}
        return replace(self, times=short_record(self.index), series=self.series.take(slice(0, 0)), block=block, **rest)

    def stored_index(self, what: str) -> Any:
        """Times of the points whose rows are held.

        Raises
        ------
        ValueError
            Where there is none.
        """
        if self.left_out and not len(self.series):
            raise ValueError(
                f"{what} is about fitted points, and this fit is of a file that was saved with training_rows=False, "
                "which has none of them: ask forecast, or for times that follow, or save with training rows."
            )
        return self.index[self.left_out :] if self.left_out else self.index

    def check_whole(self, what: str) -> None:
        """An error where rows were left out of the series."""
        if self.left_out:
            raise ValueError(
                f"{what} needs the whole series, and this fit has not its first rows: it is of a file that was saved "
                "with training_rows=False (save with training rows), or of a series that was new to a population (fit "
                "anew with it)."
            )

    def check_places(self, at: Any, times: Any) -> None:
        """An error for times whose rows were left out, and for rows that do not say whether they are these."""
        if not self.left_out:
            return
        if times is None:
            raise ValueError(
                "rows without times are fitted points or those that follow, which this fit cannot tell, since its file "
                "was saved with training_rows=False: give the rows that follow their index, or ask forecast."
            )
        if np.any(at < 0):
            raise ValueError(
                f"time {times[int(np.argmin(at))]!r} is a fitted point, and this fit is of a file that was saved with "
                f"training_rows=False: ask for times after {self.index[self.left_out - 1]!r}, or save with training "
                "rows."
            )


# ---- tables
def moments_table(names: list[str], mean: Array, variance: Array, index: Any) -> Any:
    """Columns (name, mean or std) of several parts, (T, r)."""
    import pandas as pd

    pairs = {"mean": mean, "std": np.sqrt(variance)}
    return pd.DataFrame({(name, key): pairs[key][:, k] for k, name in enumerate(names) for key in pairs}, index=index)


def mixed_table(means: Array, stds: Array, weights: Array, coverage: float, index: Any) -> Any:
    """Mean, std, equal-tailed interval and direction of mixtures of normals, (k, r)."""
    import pandas as pd

    tail = tail_of(coverage)
    mean, variance = mixed_moments(list(means), list(np.square(stds)), weights)
    with np.errstate(divide="ignore", invalid="ignore"):
        signs = weights @ ndtr(np.where(mean < 0.0, -1.0, 1.0) * means / stds)
    ends = {name: normal_quantiles(means, stds, weights, p) for name, p in (("lower", tail), ("upper", 1.0 - tail))}
    return pd.DataFrame({"mean": mean, "std": np.sqrt(variance), **ends, "direction": signs}, index=index)


def node_rows(values: dict[str, Array], weights: Array, coverage: float) -> Any:
    """Rows of numbers that nodes have: moments, and intervals of their logarithms, of dampings of their logits.

    What is the same at every node was given, or stays: it has a mean alone.
    """
    import pandas as pd

    tail, rows = tail_of(coverage), {}
    for name, column in values.items():
        mean = float(weights @ column)
        if np.ptp(column) == 0.0:
            rows[name] = [float(column[0]), np.nan, np.nan, np.nan]
            continue
        to, back = (logit, expit) if name.endswith("damping") else (np.log, np.exp)
        std = float(np.hypot.reduce(np.sqrt(weights) * (column - mean)))  # whose squares may be no numbers
        rows[name] = [mean, std, *back(node_ends(to(column), weights, tail))]
    return pd.DataFrame.from_dict(rows, orient="index", columns=["mean", "std", "lower", "upper"])
