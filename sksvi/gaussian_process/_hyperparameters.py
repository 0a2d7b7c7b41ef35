"""Hyperparameters of processes with a posterior: its nodes, the processes that they stand for, what these predict."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from sksvi.estimators.checks import interval_table
from sksvi.estimators.hyperparameters import IntegratedHyperparameters
from sksvi.gaussian_process._start import hyperparameters, spread_of
from sksvi.models.gp.hyperpriors import HyperPrior, hyper_prior
from sksvi.models.gp.integrated import MOST_NUMBERS, HyperparameterNodes
from sksvi.models.gp.looks import explored
from sksvi.predictive import MixturePredictive, Predictive
from sksvi.predictive.coverage import tail_of
from sksvi.predictive.mixture import mixed_moments

Array = np.ndarray


class Part(NamedTuple):
    """A process that predicts: of the mode, or of a node of the hyperparameters."""

    weight: float
    kernel: Any
    likelihood: Any
    block: Any


class ProcessHyperparameters(IntegratedHyperparameters):
    """Mixin for hyperparameters with a posterior; a subclass says what block belongs to a node (`_node_block`)."""

    kernel_: Any
    likelihood_: Any
    optimize_hyperparameters: bool
    lower_bound_: float
    _target_unit: float = 1.0
    #: Of the hyperparameters where the fit ended, a part of its bound.
    _log_prior: float = 0.0
    #: The few nodes that predict: the first is the mode; what files have of q at the others.
    _few: Any = None
    _node_blocks: Any = None

    # ---- the fit
    def _hyper_prior(self, kernel: Any, data: Any) -> HyperPrior | None:
        """Priors of what this fit learns; None where it takes a point."""
        if self.hyperparameters == "point" or not self.optimize_hyperparameters or not data.at_hand:
            return None
        return hyper_prior(kernel, self.likelihood_, spread_of(data), self._target_unit, self.kernel)  # type: ignore[attr-defined]

    def _at_a_point(self) -> None:
        """Forget the nodes of an earlier fit."""
        self._nodes, self._node_blocks, self._few, self._log_prior = None, None, None, 0.0
        for name in ("_away", "_places_away"):
            vars(self).pop(name, None)

    def _refine(self, problem: Any, state: Any, looks: Any) -> str | None:
        model, data = problem.model, problem.data
        density = model.density
        if density is not None and problem.deterministic and self._integrates:
            self._log_prior = density(state.q)
            if len(data) * np.size(state.q[model.main].mean) <= MOST_NUMBERS:
                found = explored(model, state.q, data, problem.exact, density, problem.frozen).integrated()
                self._store_nodes(model, found)
        return super()._refine(problem, state, looks)  # type: ignore[misc]

    def _store_nodes(self, model: Any, found: HyperparameterNodes | None) -> None:
        """Store the nodes that were found as attributes."""
        if found is None:
            return
        self._nodes, self._few = found.nodes, found.few
        self.lower_bound_ = found.nodes.log_integral
        self._node_blocks = self._blocks_of_nodes(model, found.blocks[1:])

    def _blocks_of_nodes(self, model: Any, blocks: Sequence[Any]) -> Any:
        raise AttributeError(f"{type(self).__name__} has no blocks of its nodes")

    # ---- the processes
    def _parts(self, block: Any) -> list[Part]:
        """Processes that predict: that of the mode, with its block, and those of the few nodes about it."""
        weight = 1.0 if self._few is None else float(self._few.weights[0])
        here = Part(weight, self.kernel_, self.likelihood_, block)
        return [here] if self._few is None else [here, *self._away]

    @cached_property
    def _away(self) -> list[Part]:
        """Processes of nodes beside the mode; files have what they are made of."""
        size, out = self.kernel_.n_dims, []
        for k, (weight, h) in enumerate(zip(self._few.weights[1:], self._few.values[1:], strict=True)):
            likelihood = self.likelihood_.replace(h[size:]) if len(h) > size else self.likelihood_
            kernel = self.kernel_.clone_with_theta(h[:size])
            out.append(Part(float(weight), kernel, likelihood, self._node_block(kernel, k)))
        return out

    def _node_block(self, kernel: Any, k: int) -> Any:
        """The main block of q at node k."""
        return self._node_blocks[k]

    def _latents(self, X: Any, offset: Any) -> tuple[list[Part], list[tuple[Array, Array]]]:
        """The processes, and the mean and variance of f that each predicts."""
        raise AttributeError(f"{type(self).__name__} has no latents")

    def _latent(self, X: Any, offset: Any) -> tuple[Array, Array]:
        parts, latents = self._latents(X, offset)
        if len(parts) == 1:
            return latents[0]
        means, variances = zip(*latents, strict=True)
        mean, variance = mixed_moments(means, variances, np.array([part.weight for part in parts]))
        return mean.astype(means[0].dtype, copy=False), variance.astype(means[0].dtype, copy=False)

    def _predictive(self, X: Any, offset: Any) -> Predictive:
        parts, latents = self._latents(X, offset)
        components = [Predictive(part.likelihood, *here) for part, here in zip(parts, latents, strict=True)]
        if len(components) == 1:
            return components[0]
        return MixturePredictive(components, np.array([part.weight for part in parts]))

    # ---- tables
    def _hyperparameter_columns(self, values: Array) -> dict[str, Array]:
        size, names = self.kernel_.n_dims, getattr(self, "feature_names_in_", None)
        rows = []
        for h in values:
            row = dict(zip(*hyperparameters(self.kernel_.clone_with_theta(h[:size]), names), strict=True))
            if len(h) > size:
                likelihood = self.likelihood_.replace(h[size:])
                noise = likelihood.scales.noise
                row |= likelihood.reported if noise is None else {"noise_variance": noise}
            rows.append(row)
        return {name: np.array([row[name] for row in rows]) for name in rows[0]}

    def _kernel_table(self, coverage: float) -> Any:
        """Rows of the kernel's numbers, with the spread that nodes give them; NaN where they are points."""
        import pandas as pd

        names, values = hyperparameters(self.kernel_, getattr(self, "feature_names_in_", None))
        table = interval_table(np.array(values), np.full(len(values), np.nan), coverage, pd.Index(names, dtype=object))
        return self._with_spread(table, coverage)

    def _with_spread(self, table: Any, coverage: float) -> Any:
        """A table of hyperparameters with mean, std and interval over the nodes, in the rows that these move."""
        if self._nodes is None:
            return table
        from scipy.special import ndtri

        half, weights = ndtri(1.0 - tail_of(coverage)), self._nodes.weights
        columns = self._hyperparameter_columns(self._nodes.values)
        if "noise_variance" in columns:
            columns["std(residual)"] = np.sqrt(columns["noise_variance"])
        table = table.copy()
        for name in table.index:
            values = columns.get(name)
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
