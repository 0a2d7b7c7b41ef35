"""Linear models whose hyperparameters have a posterior: nodes found after a fit, and the fit at each."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, cast

import numpy as np

from sksvi.estimators.summaries import integrates
from sksvi.families import NotPositiveDefinite
from sksvi.families.gaussian.mixture import NodeMixture
from sksvi.inference.engine import evaluate, whole, with_fixed_hyper
from sksvi.inference.problem import DIRECT, Problem
from sksvi.inference.records import replace
from sksvi.inference.state import State
from sksvi.integrals.nodes import Nodes
from sksvi.models.linear.glm import LinearModel
from sksvi.models.linear.hyperposterior import LinearHyperposterior
from sksvi.models.linear.scales import WIDEST

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


@dataclass(frozen=True)
class FittedWeights:
    """What predictions and tables of a linear latent need beside its posterior, and warnings of its stream.

    Parameters
    ----------
    subspace : tuple of ndarray, or None
        Scale and basis of the subspace that the rows of a wide design inform, inside which the weights were fitted.
    nodes : Nodes or None
        Of the hyperparameters; None where they are a point, or all fixed.
    places : mapping
        Where each block of hyperparameters is in the values of a node.
    group_scales : LogScales or None
        Posterior of the standard deviations between levels of groups, in the coordinates of the fit.
    only_target : ndarray
        The one target that all rows of a stream have had so far, (1,), or none: (0,).
    one_sided_rows : bool
        Whether such rows were summarized before others came.
    """

    LAYOUT = """
        subspace? items 2; subspace[0]? (c) f >0; subspace[1]? (c,_) f; nodes? Nodes; places dict
        group_scales? LogScales; only_target (…) f; one_sided_rows flag
    """

    subspace: tuple[Array, Array] | None = None
    nodes: Nodes | None = None
    places: Mapping[str, list[int]] = field(default_factory=dict)
    group_scales: Any = None
    only_target: Array = field(default_factory=lambda: np.empty(0))
    one_sided_rows: bool = False

    def n_informed(self, n: int) -> int:
        """Coordinates in which n coefficients of a latent were fitted."""
        return n if self.subspace is None else self.subspace[1].shape[1]

    def has_places(self, sizes: Mapping[str, int]) -> bool:
        """Whether the values of a node are those of blocks, which have these sizes, one after the other."""
        ends = np.cumsum([0, *(sizes[name] for name in self.places)]).tolist()
        spans = [[start, stop] for start, stop in itertools.pairwise(ends)]
        size = None if self.nodes is None else self.nodes.values.shape[1]
        return size == ends[-1] and spans == list(map(list, self.places.values()))

    def values_of(self, name: str, values: Array) -> Array | None:
        """The values (k, size) of one block among the nodes' values (k, H); None where the block has no nodes."""
        if name not in self.places:
            return None
        start, stop = self.places[name]
        return values[..., start:stop]


class Looked:
    """Looks at all rows of a fit for parameters of its likelihood, all else as it is.

    Parameters
    ----------
    problem, state : Problem and State
        Of a finished fit.
    """

    def __init__(self, problem: Problem, state: State) -> None:
        self.problem, self.state = with_fixed_hyper(problem, expect=problem.exact, messages=DIRECT), state
        self.evaluated: dict[bytes, tuple[float, float]] = {}
        self.weighed = self._look(state.q)[1]

    def _look(self, q: dict[str, Any]) -> tuple[float, float]:
        """E log p of the rows, nats, and what they weigh in the directions in which q is uncertain."""
        gradient, value = evaluate(self.problem, replace(self.state, q=q), whole(self.problem))
        block, curvature = q["weights"], gradient["weights"][1]
        return value, -2.0 * float(block.structure.expected_quadratic(curvature, np.zeros_like(block.mean), block))

    def __call__(self, theta: Array) -> tuple[float, float]:
        """E log p of the rows, nats, and what they weigh over what they weigh in the fit."""
        key = theta.tobytes()
        if key not in self.evaluated:
            likelihood = self.state.q["likelihood"].at(theta)
            value, weighed = self._look({**self.state.q, "likelihood": likelihood})
            self.evaluated[key] = value, weighed / self.weighed if self.weighed > 0 else 1.0
        return self.evaluated[key]


def rows_for_nodes(estimator: Any, problem: Problem, state: State) -> Looked | None:
    """What nodes of the likelihood's parameters need rows for; None where these stay a point."""
    model, q = cast(LinearModel, problem.model), state.q
    learned = "likelihood" in q and "likelihood" not in problem.frozen and model.likelihood.noise_variance is None
    few = len(problem.data) <= MOST_ROWS
    if not (learned and few and state.converged) or model.likelihood.scales.collinear or not integrates(estimator):
        return None
    return Looked(problem, state)


def integrated(
    estimator: Any, model: Any, state: State, view: Any, looks: Any, along: Any
) -> tuple[Any, FittedWeights]:
    """The posterior of the weights over nodes of the hyperparameters, and these; the view where they are a point.

    Parameters
    ----------
    estimator : estimator
        Gets the log evidence as its bound.
    model : LinearModel
    state : State
    view : Gaussian view
        Of the weights in the user's units.
    looks : function or None
        While a fit has its rows: parameters of the likelihood to what these say of them under q.
    along : function or None
        Then: standard deviations of groups to the bound of the best q of the weights there.
    """
    posterior, nodes = None, None
    fitted = replace(estimator._fitted, nodes=None, places={})
    if integrates(estimator) and state.finished:
        counted = estimator.total_samples or state.counted or estimator.n_samples_seen_
        posterior = LinearHyperposterior(model, dict(state.shown), float(state.bound), float(counted), looks)
        try:
            nodes = posterior.nodes(along)
            estimator.lower_bound_ = posterior.log_evidence(nodes)
        except NotPositiveDefinite:  # of a fit that was cut off before its messages were proper
            nodes = None
    if nodes is None or posterior is None:
        return view, fitted
    places = {name: [at.start, at.stop] for name, at in posterior.places.items()}
    fitted = replace(fitted, nodes=nodes, places=places)
    if len(nodes.weights) == 1:
        return view, fitted
    off = None
    if fitted.subspace is not None and "prior_precision" in posterior.places:
        at = posterior.places["prior_precision"]
        off = np.exp(0.5 * (posterior.mode[at] - nodes.values[:, at])[:, 0])
    return NodeMixture(view, posterior.under(nodes), off), fitted


def likelihood_at(estimator: Any, values: Array | None) -> Any:
    """The likelihood at a node."""
    learned = None if values is None else estimator._fitted.values_of("likelihood", values)
    return estimator.likelihood_ if learned is None else estimator.likelihood_.replace(learned)


def node_fits(estimator: Any) -> list[NodeFit]:
    """The fit at every node, or the fit itself where there are no nodes."""
    view, inner = estimator._weights_view, estimator._inner_block
    if not isinstance(view, NodeMixture):
        return [NodeFit(1.0, inner(view), estimator.likelihood_, None)]
    parts = zip(view.weights, view.components, estimator._fitted.nodes.values, strict=True)
    return [NodeFit(float(w), inner(c), likelihood_at(estimator, h), h) for w, c, h in parts]


def scale_columns(estimator: Any, values: Array) -> dict[str, Any]:
    """Scales of coefficients and learned parameters of the likelihood at nodes, in the user's units, by name."""
    columns: dict[str, Any] = {}
    precision = estimator._fitted.values_of("prior_precision", values)
    if precision is not None:
        # On one standard deviation of a column, half of its spread.
        scales = 0.5 * np.exp(-0.5 * precision)
        names = ["coefficients"] if scales.shape[1] == 1 else estimator._kind_names()
        columns |= {f"scale({name})": scales[:, k] for k, name in enumerate(names)}
    return columns | likelihood_columns(estimator, values)


def likelihood_columns(estimator: Any, values: Array) -> dict[str, Any]:
    """Learned parameters of the likelihood at nodes, as tables show them; none where they are a point."""
    if "likelihood" not in estimator._fitted.places:
        return {}
    rows = [likelihood_at(estimator, h).reported for h in values]
    return {name: np.array([row[name] for row in rows]) for name in rows[0]}


# ---- the prior of the coefficients, and a weak one of single effects
def prior_at(estimator: Any, fit: NodeFit) -> Array:
    """Precision of the prior of the coefficients at a node, in the user's units, (D,)."""
    encoding, fitted = estimator._encoding, estimator._fitted
    d = len(encoding.columns.scale)
    precision = np.broadcast_to(np.atleast_1d(np.asarray(estimator.prior_precision_, float)), (d,))
    own = None if fit.values is None else fitted.values_of("prior_precision", fit.values)
    if own is None:
        return precision
    # In a subspace the columns are of one kind.
    kinds = np.zeros(d, int) if fitted.subspace is not None else encoding.kinds(d)[0]
    return precision * np.exp(own - estimator.state_.q["prior_precision"].value)[kinds]


def own_by_default(estimator: Any) -> bool:
    """Whether rows are under a weak prior of their own where nobody asks: the learned one is for prediction."""
    return estimator._prior_kind in ("auto", "ard") and estimator.covariance == "full"


def own_precision(estimator: Any, effects: str | None) -> Array | None:
    """Precision of the weak prior of each effect, (D,); None: rows are under the prior of the fit.

    Raises
    ------
    ValueError
        "own" effects of a prior that was given, or without correlations.
    """
    by_default = own_by_default(estimator)
    if not (by_default if effects is None else effects == "own"):
        return None
    if not by_default:
        raise ValueError(
            "effects='own' replaces a prior that was learned, and needs the correlations of the coefficients: set "
            "prior_precision='auto' and covariance='full', or effects='joint'; found "
            f"{estimator.prior_precision!r} and {estimator.covariance!r}."
        )
    spread = estimator._encoding.columns.stats.spread
    # Constant columns keep the prior of the fit.
    precision = np.atleast_1d(estimator.prior_precision_)
    # Of classes the difference of two is as wide as a coefficient of two labels is.
    several = 2.0 if estimator.likelihood_.n_latents > 1 else 1.0
    weak = several * np.square(spread / (2.0 * WIDEST * estimator._encoding.prior.unit))
    return np.where(spread > 0, weak, precision)
