"""Linear models whose hyperparameters have a posterior: nodes found after a fit, latents and draws under each."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import numpy as np
from sklearn.utils import check_random_state

from sksvi._runtime import parallel
from sksvi.estimators.hyperparameters import IntegratedHyperparameters
from sksvi.estimators.offsets import checked_offset
from sksvi.estimators.response import MOST
from sksvi.families import NotPositiveDefinite
from sksvi.families.gaussian.mixture import NodeMixture
from sksvi.inference.engine import evaluate, whole
from sksvi.inference.hyper import with_fixed_hyper
from sksvi.inference.problem import DIRECT, Problem
from sksvi.inference.records import replace
from sksvi.inference.search import EvaluationBudget
from sksvi.inference.state import State
from sksvi.models.linear.hyperposterior import LinearHyperposterior
from sksvi.models.linear.own_prior import own_sets
from sksvi.predictive import MixturePredictive
from sksvi.predictive.latents import check_latents
from sksvi.predictive.mixture import merged, mixed_moments

Array = np.ndarray

#: Rows that are looked at for parameters of a likelihood at most: those of more leave them no spread worth a node.
MOST_ROWS = 20_000


@dataclass(frozen=True)
class NodeFit:
    """What predictions need of a node.

    Parameters
    ----------
    weight : float
    block : Gaussian block
        Of the weights, in the coordinates of the fit.
    likelihood : Likelihood
    values : ndarray of shape (H,) or None
        Its hyperparameters; None: those of the fit.
    """

    weight: float
    block: Any
    likelihood: Any
    values: Array | None


class Looked:
    """Looks at all rows of a fit for parameters of its likelihood, all else as it is.

    Parameters
    ----------
    problem, state : Problem and State
        Of a finished fit.
    """

    def __init__(self, problem: Problem, state: State) -> None:
        self.problem, self.state = with_fixed_hyper(problem, expect=problem.exact, messages=DIRECT), state
        self.known: dict[bytes, tuple[float, float]] = {}
        self.weighed = self._look(state.q)[1]

    def _look(self, q: dict[str, Any]) -> tuple[float, float]:
        """E log p of the rows, nats, and what they weigh in the directions in which q is uncertain."""
        gradient, value = evaluate(self.problem, replace(self.state, q=q), whole(self.problem))
        block, curvature = q["weights"], gradient["weights"][1]
        return value, -2.0 * float(block.structure.expected_quadratic(curvature, np.zeros_like(block.mean), block))

    def __call__(self, theta: Array) -> tuple[float, float]:
        """E log p of the rows, nats, and what they weigh over what they weigh in the fit."""
        key = theta.tobytes()
        if key not in self.known:
            likelihood = self.state.q["likelihood"].at(theta)
            value, weighed = self._look({**self.state.q, "likelihood": likelihood})
            self.known[key] = value, weighed / self.weighed if self.weighed > 0 else 1.0
        return self.known[key]


class IntegratedScales(IntegratedHyperparameters):
    """Scales of coefficients, of groups and of noise; needs what a fit of a linear latent leaves behind."""

    n_jobs: Any
    likelihood_: Any
    lower_bound_: float
    n_samples_seen_: float
    posterior_: Any
    total_samples: Any
    _columns: Any
    _categories: Any
    _distribution: Callable[..., Any]
    _fixed_part: Callable[[Any], Any]
    _own_by_default: bool
    _own_precision: Callable[[str | None], Any]
    _prior_at: Callable[[NodeFit], Array]
    _in_units: Callable[[Any], Any]
    _subspace: Any
    _validated: Callable[[Any], Any]
    _expose: Callable[[Any, State], None]
    #: Where each block of hyperparameters is in the values of a node.
    _places: Mapping[str, list[int]] = MappingProxyType({})
    #: While a fit has its rows: standard deviations of groups to the bound of the best q of the weights there.
    _along: Callable[[Array], float] | None = None

    #: While a fit has its rows: parameters of the likelihood to what these say of them under q.
    _looks: Callable[[Array], tuple[float, float]] | None = None

    # ---- after a fit
    def _looked(self, problem: Problem, state: State) -> Looked | None:
        """What nodes of the likelihood's parameters need rows for; None where these stay a point."""
        model, q = problem.model, state.q
        learned = "likelihood" in q and "likelihood" not in problem.frozen and model.likelihood.noise_variance is None
        few = len(problem.data) <= MOST_ROWS
        if not (learned and few and state.converged) or model.likelihood.scales.collinear or not self._integrates:
            return None
        return Looked(problem, state)

    def _with_rows(self, problem: Problem, state: State, budget: EvaluationBudget) -> str | None:
        """Nodes that need the rows; what was left undone."""
        if self._looks is not None:
            self._expose(problem.model, replace(state, q=state.shown))
        return None

    def _hyperposterior(self, model: Any, state: State) -> LinearHyperposterior:
        counted = self.total_samples or state.counted or self.n_samples_seen_
        return LinearHyperposterior(model, dict(state.shown), float(state.bound), float(counted), self._looks)

    def _integrated(self, model: Any, state: State, view: Any) -> Any:
        """The posterior of the weights over nodes of the hyperparameters; the view itself where these are a point."""
        posterior, nodes = None, None
        if self._integrates and state.finished:
            posterior = self._hyperposterior(model, state)
            try:
                nodes = posterior.nodes(self._along)
                self.lower_bound_ = posterior.log_evidence(nodes)
            except NotPositiveDefinite:  # of a fit that was cut off before its messages were proper
                nodes = None
        # At once: where a callback ended the search, what stood before stands.
        self._nodes, self._places = nodes, {}
        if nodes is None or posterior is None:
            return view
        self._places = {name: [at.start, at.stop] for name, at in posterior.places.items()}
        if len(nodes.weights) == 1:
            return view
        off = None
        if self._subspace is not None and "prior_precision" in posterior.places:
            at = posterior.places["prior_precision"]
            off = np.exp(0.5 * (posterior.mode[at] - nodes.values[:, at])[:, 0])
        return NodeMixture(view, posterior.under(nodes), off)

    def _values_of(self, name: str, values: Array) -> Array | None:
        """The values (k, size) of one block among the nodes' values (k, H); None where the block has no nodes."""
        if name not in self._places:
            return None
        start, stop = self._places[name]
        return values[..., start:stop]

    def _likelihood_at(self, values: Array | None) -> Any:
        learned = None if values is None else self._values_of("likelihood", values)
        return self.likelihood_ if learned is None else self.likelihood_.replace(learned)

    def _inner_block(self, component: Any) -> Any:
        """The block in the coordinates of the fit, of a view of the weights."""
        return component.inner

    @property
    def _weights_view(self) -> Any:
        """Name of the view that predictions start from."""
        return self.posterior_["weights"]

    def _node_fits(self) -> list[NodeFit]:
        """The fit at every node, or the fit itself where there are no nodes."""
        view = self._weights_view
        if not isinstance(view, NodeMixture):
            return [NodeFit(1.0, self._inner_block(view), self.likelihood_, None)]
        assert self._nodes is not None
        parts = zip(view.weights, view.components, self._nodes.values, strict=True)
        return [NodeFit(float(w), self._inner_block(c), self._likelihood_at(h), h) for w, c, h in parts]

    def _hyperparameter_columns(self, values: Array) -> dict[str, Any]:
        columns: dict[str, Any] = {}
        precision = self._values_of("prior_precision", values)
        if precision is not None:
            # On one standard deviation of a column, half of its spread.
            scales = 0.5 * np.exp(-0.5 * precision)
            names = ["coefficients"] if scales.shape[1] == 1 else self._kind_names()
            columns |= {f"scale({name})": scales[:, k] for k, name in enumerate(names)}
        return columns | self._likelihood_columns(values)

    def _likelihood_columns(self, values: Array) -> dict[str, Any]:
        """Learned parameters of the likelihood at nodes, as tables show them; none where they are a point."""
        if "likelihood" not in self._places:
            return {}
        rows = [self._likelihood_at(h).reported for h in values]
        return {name: np.array([row[name] for row in rows]) for name in rows[0]}

    def _kind_names(self) -> list[str]:
        """What each kind of columns is called."""
        return ["coefficients"]

    # ---- predictions
    def _latents(self, X: Any, offset: Any) -> list[tuple[NodeFit, Array, Array]]:
        """Mean and variance of f under every node."""
        given, X = X, self._validated(X)
        offset = checked_offset(self, offset, given)
        fits = self._node_fits()
        models = [self._predicting(X, fit) for fit in fits]
        size = max(parallel.chunk_rows(X.shape[1], False), 512)
        size = size if not models[0].joint else max(64, size // 4)

        def one(rows: slice) -> list[tuple[Array, Array]]:
            part = self._in_units(X[rows])
            own = None if offset is None else offset[rows]
            return [model.predict_latent(fit.block, part, own) for fit, model in zip(fits, models, strict=True)]

        with parallel.working():
            for fit in fits:
                fit.block.prepare()
            parts = list(parallel.in_order(one, parallel.slices(X.shape[0], size), parallel.n_threads(self.n_jobs)))
        found = []
        for fit, blocks in zip(fits, zip(*parts, strict=True), strict=True):
            m, v = (np.concatenate(part) for part in zip(*blocks, strict=True))
            check_latents(m, v, X.dtype, not self.likelihood_.traits.measured)
            found.append((fit, m.astype(X.dtype, copy=False), v.astype(X.dtype, copy=False)))
        return found

    def _latent(self, X: Any, offset: Any) -> tuple[Array, Array]:
        """Moments of f over the nodes."""
        parts = self._latents(X, offset)
        if len(parts) == 1:
            return parts[0][1:]
        weights = np.array([fit.weight for fit, _, _ in parts])
        m, v = mixed_moments([m for _, m, _ in parts], [v for _, _, v in parts], weights)
        return m.astype(parts[0][1].dtype, copy=False), v.astype(parts[0][1].dtype, copy=False)

    def _predicting(self, X: Any, fit: NodeFit) -> Any:
        """The model that projects rows on the block of a node."""
        raise AttributeError(f"{type(self).__name__} does not say how it predicts")

    def _predictive(self, X: Any, offset: Any) -> Any:
        parts = self._latents(X, offset)
        means, variances = [m for _, m, _ in parts], [v for _, _, v in parts]
        likelihoods = [fit.likelihood for fit, _, _ in parts]
        weights = np.array([fit.weight for fit, _, _ in parts])
        if len(parts) > 1 and "likelihood" not in self._places:
            # By the weights' own spread: what is said of a row is the same whatever rows stand beside it.
            spreads = [float(np.mean(fit.block.variance)) for fit, _, _ in parts]
            means, variances, weights = merged(means, variances, weights, spreads)
        found = [self._distribution(*part) for part in zip(means, variances, likelihoods)]
        return found[0] if len(found) == 1 else MixturePredictive(found, weights)

    def _latent_draws(
        self, X: Any, n_draws: int, seed: int, offset: Any, effect: Array | None = None
    ) -> Iterator[tuple[slice, Array, Array]]:
        given, X = X, self._validated(X)
        offset = checked_offset(self, offset, given)
        fits, rng = self._node_fits(), check_random_state(seed)
        shares = np.array([fit.weight for fit in fits])
        counts = [n_draws] if len(fits) == 1 else rng.multinomial(n_draws, shares / shares.sum())
        used = [(fit, self._predicting(X, fit), int(c)) for fit, c in zip(fits, counts, strict=True) if c]
        draws = [(model, self._own_draws(fit, fit.block.sample(c, rng), effect), c / n_draws) for fit, model, c in used]
        size = sum(part[..., 0].size for _, part, _ in draws)
        for rows in parallel.slices(X.shape[0], max(1, MOST // size)):
            design = self._in_units(X[rows])
            found = [(*model.latents_at(part, design), share) for model, part, share in draws]
            f = np.concatenate([part for part, _, _ in found], axis=1)
            left = np.asarray(sum(share * own for _, own, share in found))
            yield rows, f if offset is None else f + offset[rows].reshape(-1, *[1] * (f.ndim - 1)), left

    # ---- one effect under a weak prior of its own
    def _effect_of(self, low: Any, high: Any) -> Array | None:
        """Coefficients in which rows differ, with the other levels of their columns; None: under the joint prior."""
        if not self._own_by_default or self._subspace is not None:
            return None
        low, high = (self._fixed_part(self._validated(part)) for part in (low, high))
        off = abs(low - high)
        moved = np.flatnonzero(np.asarray(off.max(axis=0).todense() if hasattr(off, "todense") else off.max(axis=0)))
        own = self._categories
        for column, size in () if own is None else zip(own.columns, own.counts[own.columns], strict=True):
            levels = own.at(column) + np.arange(size)
            if np.any(np.isin(levels, moved)):
                moved = np.union1d(moved, levels)
        return moved

    def _own_draws(self, fit: NodeFit, draws: Array, effect: Array | None) -> Array:
        """Draws of all weights with an effect under its own prior, the others following as they do under q."""
        if effect is None or not len(effect):
            return draws
        d, scale = len(self._columns.scale), self._columns.scale
        prior, own = self._prior_at(fit) / np.square(scale), self._own_precision("own") / np.square(scale)
        block = getattr(fit.block, "joint", fit.block)
        flat = draws.reshape(len(draws), -1)
        k = self.likelihood_.n_latents
        at = (np.arange(k)[:, None] * (flat.shape[1] // k) + effect).ravel()
        units = np.zeros((len(at), flat.shape[1]))
        units[np.arange(len(at)), at] = 1.0
        across = block.coloured(block.uncoloured(units))
        S, m = across[:, at], np.ravel(block.mean)[at]
        mean, cov = own_sets(m, S, np.tile(prior[:d][effect], k), np.tile(own[effect], k))
        standard = np.linalg.solve(np.linalg.cholesky(S), (flat[:, at] - m).T)
        moved = mean + (np.linalg.cholesky(cov) @ standard).T - flat[:, at]
        return (flat + moved @ np.linalg.solve(S, across)).reshape(draws.shape)
