"""Linear models whose hyperparameters have a posterior: nodes found after a fit, the fit at each,
and what they predict."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple, cast

import numpy as np
from sklearn.utils import check_random_state

from sksvi._runtime import parallel
from sksvi.algorithms.rules import Newton
from sksvi.estimators.offsets import checked_offset
from sksvi.estimators.posterior import MOST
from sksvi.estimators.sites import NodePrior, SiteFit, linear_sites
from sksvi.estimators.working import check_densities
from sksvi.families import NotPositiveDefinite
from sksvi.families.gaussian.dense import gaussian
from sksvi.families.gaussian.mixture import NodeMixture
from sksvi.inference.engine import evaluate, whole, with_fixed_hyper
from sksvi.inference.problem import DIRECT, Problem
from sksvi.inference.records import LineSearchState, replace
from sksvi.inference.state import State
from sksvi.integrals.nodes import Nodes
from sksvi.linear_model._prior import covariance_of, own_by_default, own_precision
from sksvi.models.linear.glm import LinearModel
from sksvi.models.linear.hyperposterior import LinearHyperposterior
from sksvi.models.linear.scales import SpectralPrior, own_sets
from sksvi.predictive import MixturePredictive
from sksvi.predictive.mixture import merged, mixed_moments
from sksvi.predictive.plain import check_latents

Array = np.ndarray

#: Most rows that are looked at for one parameter of a likelihood, and how far apart two looks at a sample of more are.
MOST_ROWS, BESIDE = 20_000, 0.1
#: Rows of a stream that a sample stands for, from which parameters are known so well that its looks tell them.
LEAST_SAMPLED = 2000.0
#: Looks for the best weights under other parameters at most, and nats that a step of theirs moves them by at the end.
MOST_LOOKS, SETTLED = 10, 2e-3
#: Columns a row beyond which what is learned of their prior leans on every row.
MANY_COLUMNS = 0.5


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
    shapes : SpectralPrior or None
        What the prior variances in the subspace may be in proportion to; None: they are equal.
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
    covariance : {"full", "low-rank"}
        The one that the shape of the rows chose, where it was to.
    loo, temperature : float or None
        Of a fit with ``covariance="low-rank"``: its leave-one-out log loss, nats a row, and what the variance of
        latents is multiplied by where y is predicted.
    undone : tuple of str
        What integrals over levels' effects left undone.
    """

    LAYOUT = """
        subspace? items 2; subspace[0]? (c) f >0; subspace[1]? (c,r) f; nodes? Nodes; places dict
        shapes? SpectralPrior; shapes.squares? (r) f >0
        group_scales? LogScales; only_target (…) f; one_sided_rows flag
        covariance text where it in ('full', 'low-rank'); loo? number; temperature? number >=0
    """

    subspace: tuple[Array, Array] | None = None
    nodes: Nodes | None = None
    places: Mapping[str, list[int]] = field(default_factory=dict)
    group_scales: Any = None
    only_target: Array = field(default_factory=lambda: np.empty(0))
    one_sided_rows: bool = False
    covariance: str = "full"
    loo: float | None = None
    temperature: float | None = None
    shapes: SpectralPrior | None = None
    undone: tuple[str, ...] = ()

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


class RowsAt(NamedTuple):
    """E log p of rows under weights, nats, the message about weights that they give there, and these weights."""

    value: float
    message: Any
    block: Any


class Looked:
    """Looks at all rows of a fit for other parameters of its likelihood, whose weights follow.

    Parameters
    ----------
    problem, state : Problem and State
        Of a finished fit.
    """

    def __init__(self, problem: Problem, state: State) -> None:
        self.problem, self.state = with_fixed_hyper(problem, expect=problem.exact, messages=DIRECT), state
        self.model = cast(LinearModel, problem.model)
        self.prior = self.model.prior(state.q)["weights"]
        block = state.q["weights"]
        self.block = block if block.natural_coordinates else block.natural_form()
        self.evaluated: dict[bytes, RowsAt] = {}

    def at(self, state: State) -> Looked:
        """Looks with other blocks than those that the fit ended at."""
        return Looked(self.problem, state)

    def __call__(self, theta: Array) -> RowsAt:
        """What the rows say at parameters and at the best weights there, under the prior of the fit."""
        key = theta.tobytes()
        if key not in self.evaluated:
            self.evaluated[key] = self._settled(theta)
        return self.evaluated[key]

    def look(self, theta: Array, block: Any) -> RowsAt:
        """What the rows say at parameters and weights."""
        model = self.model.with_likelihood(self.model.likelihood.replace(theta))
        q = {name: own for name, own in self.state.q.items() if name != "likelihood"} | {"weights": block}
        problem = replace(self.problem, model=model)
        with np.errstate(over="ignore", invalid="ignore"):  # where rows have no density
            gradient, value = evaluate(problem, replace(self.state, q=q), whole(problem))
            return RowsAt(value, block.message_from_gradient(gradient["weights"]), block)

    def _settled(self, theta: Array) -> RowsAt:
        """Natural steps of the weights from those of the fit, shorter where one leads too far.

        With the message that these weights have themselves the evidence is their bound, however near they have come.
        """
        here, share = self.look(theta, self.block), 1.0
        own, bound = here.block.over(self.prior), here.value - here.block.kl(self.prior)
        for _ in range(MOST_LOOKS):
            try:
                block = self.prior.times(own.plus(here.message.plus(own, -1.0), share))
            except NotPositiveDefinite:
                share *= 0.5
                continue
            if block.kl(here.block) < SETTLED:
                break
            there = self.look(theta, block)
            if (higher := there.value - block.kl(self.prior)) > bound:
                here, own, bound, share = there, block.over(self.prior), higher, min(1.0, 2.0 * share)
            else:
                share *= 0.5
        return RowsAt(here.value, own, here.block)


class Extrapolated:
    """What rows of a fit say at other parameters of its likelihood, from looks at a sample to either side of its own.

    Their second derivatives and those across weights are sums over rows, which a sample of many tells.

    Parameters
    ----------
    problem, state : Problem and State
        Of a finished fit.
    """

    def __init__(self, problem: Problem, state: State) -> None:
        self.problem, rows = problem, Looked(problem, state)
        if len(problem.data) > MOST_ROWS:
            part, total = problem.data.portion(MOST_ROWS, state.seed), rows.problem.scale * problem.data.total_weight
            rows.problem = replace(rows.problem, data=part, total=total)
        point, rule = state.q["likelihood"], cast(Newton, rows.model.hyper["likelihood"])
        gradient = evaluate(rows.problem, state, whole(rows.problem))[0]
        self.theta, self.block, self.bend = point.value, rows.block, gradient["likelihood"][1]
        # The fit is at its highest density.
        self.slope = -rule.with_density(state.q, (np.zeros(point.value.size), np.zeros(())))[0]
        self.look, self.message = rows.look, rows.block.over(rows.prior)
        moves = BESIDE * np.eye(len(self.theta))
        looks = [[rows.look(self.theta + sign * move, rows.block).message for sign in (0.5, -0.5)] for move in moves]
        self.turns = [high.plus(low, -1.0).faded(1.0 / BESIDE) for high, low in looks]

    def at(self, state: State) -> Extrapolated:
        """Looks with other blocks than those that the fit ended at."""
        return Extrapolated(self.problem, state)

    def __call__(self, theta: Array) -> RowsAt:
        """E log p of the rows over that of the fit, and their message, at parameters and at the weights of the fit."""
        moved, message = theta - self.theta, self.message
        for move, turn in zip(moved, self.turns, strict=True):
            message = message.plus(turn, float(move))
        return RowsAt(float(moved @ self.slope + 0.5 * moved @ self.bend @ moved), message, self.block)


def integrates(estimator: Any) -> bool:
    """Whether hyperparameters get nodes: of a target at one end of what it may be they would be the prior's."""
    point = estimator.hyperparameters == "point" or covariance_of(estimator) == "low-rank"
    return not point and not estimator._record.one_sided


def nearly_fits_rows(problem: Problem, state: State) -> bool:
    """Whether weights may fit rows of learned Gaussian noise all but exactly, and one pass finds the best for it."""
    block, likelihood = state.q["weights"], cast(LinearModel, problem.model).likelihood
    learned = "likelihood" in state.q and few_for_noise(likelihood, problem.data.total_weight, block.mean.size)
    judged = state.converged and isinstance(state.progress, LineSearchState)
    return learned and judged and block.full and block.natural_coordinates


def few_for_noise(likelihood: Any, n: float, size: int) -> bool:
    """Whether rows of this weight are so few that as many weights may leave no Gaussian noise."""
    return likelihood.noise_variance is not None and n <= 2.0 * size


def rows_for_nodes(estimator: Any, problem: Problem, state: State, entire: bool = True) -> Looked | Extrapolated | None:
    """What nodes of the likelihood's parameters need rows for; None where these stay a point.

    `entire`: whether these are all rows of the fit, of which q is the best, not a sample.
    """
    model, q = cast(LinearModel, problem.model), state.q
    learned = "likelihood" in q and "likelihood" not in problem.frozen and model.likelihood.noise_variance is None
    # A level without rows has half a row at the mode.
    empty = model.likelihood.scales.collinear and model.likelihood.scales.prior() is not None
    enough = entire or problem.data.total_weight >= LEAST_SAMPLED
    if not (learned and state.converged and integrates(estimator)) or empty or not enough:
        return None
    # Differences that place the nodes take as many looks as the parameters have pairs.
    few = len(problem.data) * q["likelihood"].value.size ** 2 <= MOST_ROWS
    return Looked(problem, state) if entire and few else Extrapolated(problem, state)


def integrated(
    estimator: Any, model: Any, state: State, view: Any, looks: Any, along: Any, levels: Any
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
    levels : IntegratedLevels or None
        Then: where effects of levels are integrated.
    """
    posterior, nodes = None, None
    fitted = replace(estimator._fitted, nodes=None, places={}, loo=None, temperature=None)
    if integrates(estimator) and state.finished:
        counted = estimator.total_samples or state.counted or estimator.n_samples_seen_
        posterior = LinearHyperposterior(model, dict(state.shown), float(state.bound), float(counted), looks, levels)
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


def sites_of_weights(estimator: Any, problem: Problem, bound: float | None) -> SiteFit:
    """A fit as messages of its rows, under every node; `bound`: the one that it ended at.

    Raises
    ------
    TypeError
        Where q has no covariance of all weights, or one that the rows' likelihood does not say, or two latents a row.
    """
    check_densities(estimator)
    if estimator._encoding.second is not None:
        raise TypeError(
            f"{estimator._encoding.second.kind}_features give each row two latents, of which its message cannot be "
            "taken out: use kfold."
        )
    if estimator.covariance == "diag" or covariance_of(estimator) == "low-rank":
        more = "" if estimator._fitted.loo is None else "; loo_ is the mean leave-one-out log loss that the fit found"
        structure = covariance_of(estimator) if estimator.covariance == "auto" else estimator.covariance
        raise TypeError(
            f"covariance={structure!r} leaves no covariance of all weights, of which a row could be taken out{more}: "
            "use kfold, or covariance='full'."
        )
    view, nodes = estimator._weights_view, []
    if isinstance(view, NodeMixture):
        blocks, fits = view.node_blocks, node_fits(estimator)
        for fit, share, precision in zip(fits, blocks.information, blocks.precisions, strict=True):
            prior = gaussian(blocks.prior_mean, precision)
            follows = blocks.found is not None and "likelihood" in estimator._fitted.places
            own = fit.block if follows else None
            nodes.append(NodePrior(fit.weight, fit.likelihood, float(share), prior, own))
    sites = linear_sites(
        problem, estimator.state_.shown, nodes, bound, lambda m, v, own: estimator._distribution(m, v, own)
    )
    return replace(sites, caution=_caution(estimator))


def _caution(estimator: Any) -> str:
    """What the messages of rows do not tell of a prior that was learned from them."""
    if estimator._prior_kind == "ard":
        return 'prior_precision="ard" has a precision of each column, which stay without the row'
    d, n = len(estimator._encoding.columns.scale), estimator.n_samples_seen_
    if estimator._prior_kind == "auto" and d > MANY_COLUMNS * n:
        return f"the scale of the prior is learned, and {n:g} rows are few for {d} columns"
    return ""


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
    moved = np.exp(own - estimator.state_.q["prior_precision"].value)[kinds]
    return precision * np.where(encoding.learned, moved, 1.0)


# ---- predictions: latents of new rows under each node, mixtures and draws of them
def latents_at_nodes(
    estimator: Any, X: Any, offset: Any, temperature: float | None = None
) -> list[tuple[NodeFit, Array, Array]]:
    """Mean and variance of f under every node; of a block that is `tempered`, where there is a temperature."""
    given, X = X, estimator._validated(X)
    offset = checked_offset(estimator, offset, given)
    fits = node_fits(estimator)
    if temperature is not None:
        fits = [replace(fit, block=fit.block.tempered(temperature)) for fit in fits]
    models = [estimator._predicting(X, fit) for fit in fits]
    size = max(parallel.chunk_rows(X.shape[1], False), 512)
    size = size if not models[0].joint else max(64, size // 4)

    def one(rows: slice) -> list[tuple[Array, Array]]:
        part = estimator._encoding.in_units(X[rows])
        own = None if offset is None else offset[rows]
        return [model.predict_latent(fit.block, part, own) for fit, model in zip(fits, models, strict=True)]

    with parallel.working():
        for fit in fits:
            fit.block.prepare()
        parts = list(parallel.in_order(one, parallel.slices(X.shape[0], size), parallel.n_threads(estimator.n_jobs)))
    found = []
    for fit, blocks in zip(fits, zip(*parts, strict=True), strict=True):
        m, v = (np.concatenate(part) for part in zip(*blocks, strict=True))
        check_latents(m, v, X.dtype, not estimator.likelihood_.traits.additive)
        found.append((fit, m.astype(X.dtype, copy=False), v.astype(X.dtype, copy=False)))
    return found


def latent_means(estimator: Any, X: Any, offset: Any) -> Array:
    """Means of the first latent of each row over the nodes: those of the mean weights."""
    given, X = X, estimator._validated(X)
    offset, fits = checked_offset(estimator, offset, given), node_fits(estimator)
    model = estimator._predicting(X, fits[0])
    weights = np.asarray(sum(fit.weight * fit.block.mean for fit in fits))[None]
    parts = [np.empty(0)]
    for rows in parallel.slices(X.shape[0], max(parallel.chunk_rows(X.shape[1], False), 512)):
        f = model.latents_at(weights, estimator._encoding.in_units(X[rows]))[0][:, 0]
        f = model.with_offset(f, None if offset is None else offset[rows])
        parts.append(f.reshape(len(f), -1)[:, 0])
    m = np.concatenate(parts)
    check_latents(m, np.zeros_like(m), X.dtype, not estimator.likelihood_.traits.additive)
    return m.astype(X.dtype, copy=False)


def mixed_latents(estimator: Any, X: Any, offset: Any) -> tuple[Array, Array]:
    """Moments of f over the nodes."""
    parts = latents_at_nodes(estimator, X, offset)
    if len(parts) == 1:
        return parts[0][1:]
    weights = np.array([fit.weight for fit, _, _ in parts])
    m, v = mixed_moments([m for _, m, _ in parts], [v for _, _, v in parts], weights)
    return m.astype(parts[0][1].dtype, copy=False), v.astype(parts[0][1].dtype, copy=False)


def predictive_mixture(estimator: Any, X: Any, offset: Any) -> Any:
    """Predictive distribution of y, a mixture over nodes."""
    parts = latents_at_nodes(estimator, X, offset, estimator._fitted.temperature)
    means, variances = [m for _, m, _ in parts], [v for _, _, v in parts]
    likelihoods = [fit.likelihood for fit, _, _ in parts]
    weights = np.array([fit.weight for fit, _, _ in parts])
    if len(parts) > 1 and "likelihood" not in estimator._fitted.places:
        # By the weights' own spread: what is said of a row is the same whatever rows stand beside it.
        spreads = [float(np.mean(fit.block.variance)) for fit, _, _ in parts]
        means, variances, weights = merged(means, variances, weights, spreads)
    found = [estimator._distribution(*part) for part in zip(means, variances, likelihoods)]
    return found[0] if len(found) == 1 else MixturePredictive(found, weights)


def latent_draws(
    estimator: Any, X: Any, n_draws: int, seed: int, offset: Any, effect: Array | None = None
) -> Iterator[tuple[slice, Array, Array]]:
    """Blocks of rows in turn: their slice, draws of f, and the variance that a row's latent has besides.

    `effect`: coefficients of which draws are under a weak prior of their own.
    """
    given, X = X, estimator._validated(X)
    offset = checked_offset(estimator, offset, given)
    fits, rng = node_fits(estimator), check_random_state(seed)
    shares = np.array([fit.weight for fit in fits])
    counts = [n_draws] if len(fits) == 1 else rng.multinomial(n_draws, shares / shares.sum())
    used = [(fit, estimator._predicting(X, fit), int(c)) for fit, c in zip(fits, counts, strict=True) if c]
    draws = [
        (model, own_draws(estimator, fit, fit.block.sample(c, rng), effect), c / n_draws) for fit, model, c in used
    ]
    size = sum(part[..., 0].size for _, part, _ in draws)
    for rows in parallel.slices(X.shape[0], max(1, MOST // size)):
        design = estimator._encoding.in_units(X[rows])
        found = [(*model.latents_at(part, design), share) for model, part, share in draws]
        f = np.concatenate([part for part, _, _ in found], axis=1)
        left = np.asarray(sum(share * own for _, own, share in found))
        yield rows, used[0][1].with_offset(f, None if offset is None else offset[rows]), left


def moved_effect(estimator: Any, low: Any, high: Any) -> Array | None:
    """Coefficients in which rows differ, with the other levels of their columns; None: under the joint prior."""
    whole = estimator._fitted.subspace is None and covariance_of(estimator) == "full"
    if not own_by_default(estimator) or not whole:
        return None
    low, high = (estimator._encoding.fixed_part(estimator._validated(part)) for part in (low, high))
    off = abs(low - high)
    moved = np.flatnonzero(np.asarray(off.max(axis=0).todense() if hasattr(off, "todense") else off.max(axis=0)))
    categories = estimator._encoding.categorical
    return moved if categories is None else categories.with_other_levels(moved)


def own_draws(estimator: Any, fit: NodeFit, draws: Array, effect: Array | None) -> Array:
    """Draws of all weights with an effect under its own prior, the others following as they do under q."""
    if effect is None or not len(effect):
        return draws
    d, scale = len(estimator._encoding.columns.scale), estimator._encoding.columns.scale
    prior, own = prior_at(estimator, fit) / np.square(scale), own_precision(estimator, "own") / np.square(scale)
    block = getattr(fit.block, "joint", fit.block)
    flat = draws.reshape(len(draws), -1)
    k = estimator.likelihood_.n_latents
    at = (np.arange(k)[:, None] * (flat.shape[1] // k) + effect).ravel()
    units = np.zeros((len(at), flat.shape[1]))
    units[np.arange(len(at)), at] = 1.0
    across = block.coloured(block.uncoloured(units))
    S, m = across[:, at], np.ravel(block.mean)[at]
    mean, cov = own_sets(m, S, np.tile(prior[:d][effect], k), np.tile(own[effect], k))
    standard = np.linalg.solve(np.linalg.cholesky(S), (flat[:, at] - m).T)
    moved = mean + (np.linalg.cholesky(cov) @ standard).T - flat[:, at]
    return (flat + moved @ np.linalg.solve(S, across)).reshape(draws.shape)
