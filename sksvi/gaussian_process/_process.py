"""A fitted process: its mode, the nodes of its hyperparameters, and what a mixture over these predicts."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from sklearn.utils.validation import check_is_fitted

from sksvi._runtime import parallel
from sksvi._typing.arrays import MatrixLike, PerRow
from sksvi.estimators.base import BaseSVI
from sksvi.estimators.checks import interval_table
from sksvi.estimators.draws import PosteriorDraws
from sksvi.estimators.offsets import checked_offset
from sksvi.estimators.summaries import posterior_of_nodes
from sksvi.estimators.validation import validate_data
from sksvi.families.gaussian.dual import SiteGaussian
from sksvi.gaussian_process._prior_draws import prior_draws
from sksvi.gaussian_process._start import hyperparameters, spread_of
from sksvi.integrals.nodes import Nodes
from sksvi.models.gp import kernels
from sksvi.models.gp.bounds import Geometry
from sksvi.models.gp.evaluations import explored
from sksvi.models.gp.hyperpriors import HyperPrior, hyper_prior
from sksvi.models.gp.integrated import HyperparameterNodes
from sksvi.models.linear.latents import moments
from sksvi.models.linear.rows import DenseRows
from sksvi.predictive import MixturePredictive, Predictive
from sksvi.predictive.mixture import mixed_moments
from sksvi.predictive.plain import tail_of

Array = np.ndarray


class NodeProcess(NamedTuple):
    """A process that predicts: of the mode, or of a node of the hyperparameters."""

    weight: float
    kernel: Any
    likelihood: Any
    block: Any


@dataclass(frozen=True)
class InducingRecord:
    """Where the inducing points of a sparse process come from.

    Parameters
    ----------
    learned_rows : int or None
        Rows that kernel and points of a stream were last learned from; None after a fit, and once it was warned of.
    at_rows : int
        Points that began at a training row and have not left it.
    start : pair of ndarrays of shape (k,) and (k, D), or None
        Which points began at a training row, and where, while the fit goes on.
    """

    LAYOUT = "learned_rows? count >=1; at_rows count"

    learned_rows: int | None = None
    at_rows: int = 0
    start: tuple[Array, Array] | None = None


@dataclass(frozen=True)
class ProcessFit:
    """A fitted process and the nodes of its hyperparameters.

    Parameters
    ----------
    kernel, likelihood : kernel and Likelihood
        At the mode.
    block : Gaussian block
        Of the latents at the mode, in the coordinates that predictions project from.
    points : ndarray of shape (M, D)
        Inputs of the latents: inducing points, or the different rows.
    log_prior : float
        Of the hyperparameters where the fit ended, a part of its bound.
    nodes : Nodes or None
        Of the hyperparameters; None: they are a point.
    few : Nodes or None
        Those that predict; the first is the mode.
    node_blocks : list of blocks, or pair of ndarray of shape (k - 1, M), or None
        Blocks at the others of these; of a block made of messages these (`SiteGaussian`).
    """

    LAYOUT = "block Family; points (_,_) x; log_prior number"

    kernel: Any
    likelihood: Any
    block: Any
    points: Array
    log_prior: float = 0.0
    nodes: Nodes | None = None
    few: Nodes | None = None
    node_blocks: Any = None

    @cached_property
    def parts(self) -> list[NodeProcess]:
        """Processes that predict: that of the mode, and those of the few nodes about it."""
        if self.few is None:
            return [NodeProcess(1.0, self.kernel, self.likelihood, self.block)]
        out = [NodeProcess(float(self.few.weights[0]), self.kernel, self.likelihood, self.block)]
        size = self.kernel.n_dims
        for k, (weight, h) in enumerate(zip(self.few.weights[1:], self.few.values[1:], strict=True)):
            likelihood = self.likelihood.replace(h[size:]) if len(h) > size else self.likelihood
            kernel = self.kernel.clone_with_theta(h[:size])
            out.append(NodeProcess(float(weight), kernel, likelihood, self._node_block(kernel, k)))
        return out

    def _node_block(self, kernel: Any, k: int) -> Any:
        """The block of q at node k."""
        if isinstance(self.node_blocks, list):
            return self.node_blocks[k]
        return SiteGaussian(kernels.gram(kernel, self.points), *(part[k] for part in self.node_blocks))

    @cached_property
    def places(self) -> list[Place]:
        """The processes among their inducing points."""
        several = self.likelihood.n_latents > 1
        first, *others = self.parts
        return [Place(first, self.points, self.likelihood.n_latents)] + [
            (Place if several else PlaceOfOne)(part, self.points, self.likelihood.n_latents) for part in others
        ]

    @property
    def weights(self) -> Array:
        """Weights of the processes that predict."""
        return np.array([part.weight for part in self.parts])

    def mixed(self, latents: list[tuple[Array, Array]]) -> tuple[Array, Array]:
        """Mean and variance of f over the processes, of those that each predicts."""
        if len(latents) == 1:
            return latents[0]
        means, variances = zip(*latents, strict=True)
        mean, variance = mixed_moments(means, variances, self.weights)
        return mean.astype(means[0].dtype, copy=False), variance.astype(means[0].dtype, copy=False)

    def predictive(self, latents: list[tuple[Array, Array]]) -> Predictive:
        """Distribution of y over the processes, of the f that each predicts."""
        components = [Predictive(part.likelihood, *here) for part, here in zip(self.parts, latents, strict=True)]
        return components[0] if len(components) == 1 else MixturePredictive(components, self.weights)

    # ---- tables
    def hyperparameter_columns(self, values: Array, columns: Any) -> dict[str, Array]:
        """Names to values (k,) of the kernel's numbers and the likelihood's, at nodes of values (k, H)."""
        size, rows = self.kernel.n_dims, []
        for h in values:
            row = dict(zip(*hyperparameters(self.kernel.clone_with_theta(h[:size]), columns), strict=True))
            if len(h) > size:
                likelihood = self.likelihood.replace(h[size:])
                noise = likelihood.scales.noise
                row |= likelihood.reported if noise is None else {"noise_variance": noise}
            rows.append(row)
        return {name: np.array([row[name] for row in rows]) for name in rows[0]}

    def kernel_table(self, coverage: float, columns: Any) -> Any:
        """Rows of the kernel's numbers, with the spread that nodes give them; NaN where they are points."""
        import pandas as pd

        names, values = hyperparameters(self.kernel, columns)
        table = interval_table(np.array(values), np.full(len(values), np.nan), coverage, pd.Index(names, dtype=object))
        return self.with_spread(table, coverage, columns).rename_axis("quantity")

    def with_spread(self, table: Any, coverage: float, columns: Any) -> Any:
        """A table of hyperparameters with mean, std and interval over the nodes, in the rows that these move."""
        if self.nodes is None:
            return table
        from scipy.special import ndtri

        half, weights = ndtri(1.0 - tail_of(coverage)), self.nodes.weights
        found = self.hyperparameter_columns(self.nodes.values, columns)
        if "noise_variance" in found:
            found["std(residual)"] = np.sqrt(found["noise_variance"])
        table = table.copy()
        for name in table.index:
            values = found.get(name)
            if values is None or np.all(values == values[0]):
                continue
            mean = weights @ values
            unit = np.max(np.abs(values))  # of a target of 1e150 a variance has no square
            std = unit * np.sqrt(weights @ np.square((values - mean) / unit))
            # Positive numbers are nearly normal in their logarithm.
            logs = np.log(values) if np.all(values > 0) else values
            centre = weights @ logs
            spread = np.sqrt(weights @ np.square(logs - centre))
            ends = centre - half * spread, centre + half * spread
            low, high = np.exp(ends) if np.all(values > 0) else ends
            table.loc[name, ["mean", "std", "lower", "upper"]] = mean, std, low, high
        return table


class Place:
    """A process among its inducing points."""

    def __init__(self, part: NodeProcess, points: Array, n_latents: int) -> None:
        self.block, self.n_latents = part.block, n_latents
        self.geometry = Geometry(part.kernel, points)

    def moments(self, X: Array) -> tuple[Array, Array, Array]:
        """Mean and (co)variance of what the inducing values say of f at rows, and what they leave open."""
        _, H, d = self.geometry.rows(X)
        return *moments(DenseRows(H, False), self.block, self.n_latents), d


class PlaceOfOne(Place):
    """A process of one latent among its inducing points, whose moments take one product of matrices.

    A mixture over nodes needs those of several processes.
    """

    def __init__(self, part: NodeProcess, points: Array, n_latents: int) -> None:
        super().__init__(part, points, n_latents)
        root = self.block.root if self.block.full else np.diag(self.block.root)
        inverse, size = self.geometry.inverse.T, len(points)
        self.cuts = size, 2 * size
        self.lift = np.concatenate([inverse, inverse @ root.T, (inverse @ self.block.mean)[:, None]], axis=1)

    def moments(self, X: Array) -> tuple[Array, Array, Array]:
        """Mean, variance, and what the inducing values leave open."""
        kernel = self.geometry.kernel
        H, spread, mean = np.split(np.dot(kernels.cross(kernel, X, self.geometry.Z), self.lift), self.cuts, axis=1)
        explained = np.einsum("ij,ij->i", H, H)
        return (
            mean[:, 0],
            np.einsum("ij,ij->i", spread, spread),
            np.maximum(kernels.diagonal(kernel, X) - explained, 0.0),
        )


class GaussianProcess(BaseSVI):
    """What sparse and full processes share: hyperparameters with a posterior, mixtures over its nodes."""

    LAYOUT = (
        BaseSVI.LAYOUT
        + """
        kernel_ where self._fits_columns(it); kernel_.n_dims count h; likelihood_.n_latents count l
        state_.q.kernel.value? (_) f where len(it) == len(self.kernel_.theta)
        _process.nodes.values? (_,_) where it.shape[1] in (h, h + np.size(self.likelihood_.unconstrained))
        _process.few.values? (_,_) where it.shape[1] in (h, h + np.size(self.likelihood_.unconstrained))
        _process.nodes? where self._process.few is not None
    """
    )

    kernel: Any
    kernel_: Any
    likelihood_: Any
    optimize_hyperparameters: bool
    hyperparameters: str
    _process: ProcessFit
    hyperparameter_posterior_ = posterior_of_nodes(
        lambda self: self._process.nodes if hasattr(self, "_process") else None,
        lambda self, values: self._process.hyperparameter_columns(values, self._names),
    )

    @property
    def _names(self) -> Any:
        """Names of the columns, or None."""
        return getattr(self, "feature_names_in_", None)

    def _fits_columns(self, kernel: Any) -> bool:
        """Whether a kernel is one of the columns of the fit; the error that says what is wrong where it is not."""
        return kernels.checked(kernel, self.n_features_in_) is not None

    def _hyper_prior(self, kernel: Any, data: Any, target_unit: float = 1.0) -> HyperPrior | None:
        """Priors of what this fit learns; None where it takes a point."""
        if self.hyperparameters == "point" or not self.optimize_hyperparameters or not data.at_hand:
            return None
        return hyper_prior(kernel, self.likelihood_, spread_of(data), target_unit, self.kernel)

    # ---- the prior
    def _columns_of(self, kernel: Any, values: Array) -> dict[str, Array]:
        """Hyperparameters (n, H), those of a kernel of this form first, under the names of users."""
        fit = ProcessFit(kernel, self.likelihood_, None, np.empty((0, 0)))
        return fit.hyperparameter_columns(values, self._names) if values.shape[1] else {}

    def _prior_draws(self, X: Any, n: int, rng: Any, offset: Any = None) -> tuple[Any, PosteriorDraws]:
        return prior_draws(self, X, n, rng, offset)

    def _refine(self, problem: Any, state: Any, looks: Any) -> str | None:
        model, data = problem.model, problem.data
        density, integrates = model.density, self.hyperparameters == "integrated" and not self._record.one_sided
        if density is not None and (problem.deterministic or problem.exact_batches) and integrates:
            self._process = replace(self._process, log_prior=density(state.q))
            about = explored(model, state.q, data, problem.exact, density, problem.frozen)
            self._store_nodes(model, None if about is None else about.integrated())
        return super()._refine(problem, state, looks)

    def _store_nodes(self, model: Any, found: HyperparameterNodes | None) -> None:
        """Store the nodes that were found."""
        if found is None:
            return
        self.lower_bound_ = found.nodes.log_integral
        blocks = self._blocks_of_nodes(model, found.blocks[1:])
        self._process = replace(self._process, nodes=found.nodes, few=found.few, node_blocks=blocks)

    def _latents(self, X: Any, offset: Any) -> list[tuple[Array, Array]]:
        """Mean and variance of f + offset under the process of each node."""
        check_is_fitted(self)
        given, X = X, validate_data(self, X, reset=False, dtype=[np.float64, np.float32])
        offset = checked_offset(self, offset, given)
        with parallel.working():
            return [self._latents_of(node, X, offset) for node in range(len(self._process.parts))]

    def predict_latent(self, X: MatrixLike, offset: PerRow | None = None) -> tuple[Array, Array]:
        """Mean and variance of f(x) + offset under the posterior.

        Parameters
        ----------
        X : array-like of shape (n, D)
        offset : array-like of shape (n,), default=None

        Returns
        -------
        mean, variance : ndarrays of shape (n,), or (n, K) for more than two classes
        """
        m, v = self._latent(X, offset)
        return m, np.diagonal(v, axis1=1, axis2=2).copy() if v.ndim == 3 else v

    def _latent(self, X: Any, offset: Any) -> tuple[Array, Array]:
        latents = self._latents(X, offset)
        return self._process.mixed(latents)

    def _predictive(self, X: Any, offset: Any) -> Predictive:
        latents = self._latents(X, offset)
        return self._process.predictive(latents)
