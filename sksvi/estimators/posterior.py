"""The posterior as users see it: blocks by name, its density, bounds row by row, the mean of y given a draw."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from sklearn.utils import check_random_state

from sksvi._runtime import parallel
from sksvi._runtime.user import warn_user
from sksvi._typing.arrays import RandomState
from sksvi.inference.engine import prepare
from sksvi.inference.problem import Problem, divergence
from sksvi.inference.state import State
from sksvi.models.base import Blocks

Array = np.ndarray


class Posterior(Mapping[str, Any]):
    """Read-only blocks of q by name, as items and as attributes.

    Parameters
    ----------
    blocks : dict
    names : list of str, optional
        Of a linear model those of the coefficients, and of the intercept, in the order of ``mean`` and ``cov`` of the
        block "weights"; None of another model.

    Examples
    --------
    >>> import numpy as np
    >>> from sksvi.estimators.posterior import Posterior
    >>> from sksvi.families import DiagonalGaussian
    >>> posterior = Posterior({"weights": DiagonalGaussian(np.zeros(2), np.ones(2))})
    >>> list(posterior), posterior.weights.std
    (['weights'], array([1., 1.]))
    """

    LAYOUT = "_blocks dict; names? items; names[*]? text"

    #: Of the coefficients.
    names: list[str] | None = None

    def __init__(self, blocks: dict[str, Any], names: list[Any] | None = None) -> None:
        self._blocks = dict(blocks)
        if names is not None:
            self.names = [str(name) for name in names]

    def __getitem__(self, name: str) -> Any:
        return self._blocks[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._blocks)

    def __len__(self) -> int:
        return len(self._blocks)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        try:
            return self._blocks[name]
        except KeyError:
            raise AttributeError(f"the posterior has blocks {list(self._blocks)}, not {name!r}") from None

    def __repr__(self) -> str:
        return f"Posterior({', '.join(self._blocks)})"


class DrawnBlock:
    """A block of the posterior by draws of a chain that began at q.

    Parameters
    ----------
    draws : ndarray of shape (S, ...)
    mean : ndarray, default=None
        Mean of the block, where it is known better than by the mean of its draws.
    """

    LAYOUT = "draws (S,…) x; _mean? (…) f"

    _mean: Array | None = None

    def __init__(self, draws: Array, mean: Array | None = None) -> None:
        self.draws = np.asarray(draws, order="C")  # a file keeps no other order, in which sums are rounded otherwise
        self._mean = mean

    @property
    def mean(self) -> Array:
        """Mean of the block."""
        return np.asarray(self.draws.mean(0, dtype=float)) if self._mean is None else self._mean

    @property
    def std(self) -> Array:
        """Standard deviation of the draws."""
        return np.asarray(self.draws.std(0, ddof=1, dtype=float))

    def quantiles(self, p: Any) -> Array:
        """Quantiles of the draws, (len(p), ...): between two of them a further draw falls as often as their p says."""
        return np.quantile(self.draws, p, axis=0, method="weibull")

    def sample(self, n: int = 1, random_state: RandomState = None) -> Array:
        """n of the draws, (n, ...), with repeats: the same ones in every block under the same seed."""
        return np.asarray(self.draws[check_random_state(random_state).randint(len(self.draws), size=n)], float)


# ---- the density that q stands for
#: Relative differences that are no rounding: of the weight of rows, and of the bound at them.
ROUNDING, APART = 1e-6, 1e-3


@dataclass(frozen=True)
class TargetNode:
    """q under one node of the hyperparameters.

    ``weight`` of the node. ``q`` , ``shown`` : as in `PosteriorTarget`. ``log_prior`` : log density of the
    hyperparameters as users see them, nats, up to a constant.
    """

    weight: float
    q: Blocks
    shown: Callable[[Array], Array]
    log_prior: float


@dataclass(frozen=True)
class HyperparameterPoints:
    """Points of the posterior of hyperparameters.

    ``values`` : names to values (k,). ``weights`` (k,): their sum is 1. ``log_ratio`` : powers of prior and likelihood
    to the log of the density under these over that without, (k,), up to a constant.
    """

    values: dict[str, Array]
    weights: Array
    log_ratio: Callable[[float, float], Array]


@dataclass(frozen=True)
class PosteriorTarget:
    """A fit with its rows: q, its problem, and the coordinates of one block as users see them.

    ``block`` : its name in q. ``index`` , ``mean`` , ``std`` (C,): what users call its coordinates, and what they have
    of it. ``shown`` : these coordinates (S, C) of draws of the block. ``final_bound`` : the bound that the fit ended
    at, without the log density of the hyperparameters; None: it is no number to compare with. ``hierarchical`` : which
    coordinates of the block, bool of its shape, have a prior whose scale has one of its own: effects of levels, and
    coefficients under a scale that nodes are of. ``scalars`` : other blocks, of one number, and their names.
    ``nodes`` : of the hyperparameters; none where these are a point. ``hyperparameters`` : points of them, or None.
    """

    problem: Problem
    q: Blocks
    block: str
    index: Any
    mean: Array
    std: Array
    shown: Callable[[Array], Array]
    final_bound: float | None = None
    hierarchical: Array | None = None
    scalars: dict[str, str] = field(default_factory=dict)
    nodes: list[TargetNode] = field(default_factory=list)
    hyperparameters: Callable[[], HyperparameterPoints | None] = lambda: None

    def check_bound(self, found: float) -> None:
        """Warn where the bound at these rows differs from the one that the fit ended at."""
        check_bound(self.final_bound, found)


def check_bound(expected: float | None, found: float) -> None:
    """Warn where the bound that was found at rows differs from the one that the fit ended at; None: do not compare."""
    if expected is not None and abs(found - expected) > APART * (abs(expected) + 1.0):
        warn_user(
            f"the bound of q is {found:.6g} at these rows and was {expected:.6g} where the fit ended: X and y are "
            "not those of the fit, or not as it had them (in a pipeline give the pipeline), or q was changed "
            "since. What follows is about q and these rows."
        )


def final_bound(estimator: Any, paid: float) -> float | None:
    """Bound that a fit ended at, less `paid`; None of a fit that was cut off, and of a stream, which saw no row twice.

    ``paid`` : log density of the hyperparameters, a part of the bound that the fit ended at.
    """
    state = estimator.state_
    return float(state.bound - paid) if state.finished and not state.counted else None


def paid_by(estimator: Any, model: Any) -> float:
    """Log prior density of the hyperparameters of a model, by their rules."""
    return float(sum(rule.log_density(estimator.state_.shown) for rule in model.hyper.values()))


def check_same_rows(estimator: Any, weight: float, offset: Any) -> None:
    """Raise for rows that are not those of the fit, by total weight and offset, or that the fit counts otherwise.

    Parameters
    ----------
    estimator : fitted estimator
    weight : float
        Of the rows that are given, in sum.
    offset : array-like or None
        Theirs.
    """
    name, fitted, state = type(estimator).__name__, estimator.n_samples_seen_, estimator.state_
    if offset is None and estimator._record.had_offset:
        raise ValueError(f"this {name} was fitted with an offset: give the rows theirs (offset=..., or exposure=...).")
    if abs(weight - fitted) > ROUNDING * fitted:
        raise ValueError(
            f"X has rows of a total weight of {weight:g}, and this {name} was fitted to {fitted:g}: give the rows, and "
            "the sample_weight, of the fit (of a stream all of its chunks together)."
        )
    meant = getattr(estimator, "total_samples", None) or state.counted
    if state.counted and abs(meant - fitted) > ROUNDING * fitted:
        raise ValueError(
            f"this {name} counts what its stream said as that of {meant:g} rows, and has seen {fitted:g} "
            "(total_samples, forgetting or half_life): its posterior is not that of rows which count once each."
        )


# ---- bounds on the log evidence at one and the same q of the globals, row by row
@dataclass(frozen=True)
class RowBounds:
    """Terms of rows under several bounds at one q.

    Parameters
    ----------
    fitted : str
        The bound that q was fitted by.
    values : dict
        Bound to the term of every row times its weight, (n,), nats.
    gaps : tuple of (str, str)
        Pairs of bounds, a row's term under the first at least as large as under the second.
    divergence : float
        What every bound takes off the sum of the terms, nats: the divergence of q from the prior, less the log density
        of hyperparameters.
    weight : ndarray of shape (n,)
    sums : dict
        Bound to the data's part of it, nats, where it is no sum over rows.
    groups : dict
        Grouping column to the level of each row.
    """

    fitted: str
    values: dict[str, Array]
    gaps: tuple[tuple[str, str], ...]
    divergence: float
    weight: Array
    sums: dict[str, float] = field(default_factory=dict)
    groups: dict[Any, Array] = field(default_factory=dict)


def row_terms(problem: Problem, q: Blocks) -> Array:
    """Term of every row at q times its weight, (n,), nats, by the integrals that a fit reports its bound with."""
    prepare(q)
    there = problem.for_bound
    model, data = there.model, there.data
    view = there.globals.view(model, q, None)  # type: ignore[arg-type]

    def of_chunk(rows: Any) -> Array:
        return model.terms(view, model.batch(data, rows), there.expect, None).value

    chunks = model.chunks(slice(0, len(data)), data)
    return np.concatenate(list(parallel.in_order(of_chunk, chunks, there.threads)))


def divergence_at(problem: Problem, q: Blocks) -> float:
    """Divergence of q from the prior less the log density of hyperparameters, nats; of a stream's rows as of others."""
    return divergence(problem, State(q, 0), q)


# ---- the mean of y given a draw: averages over rows, slopes and contrasts are made of these
#: Numbers of a block of rows and draws.
MOST = 2_000_000


def response_names(estimator: Any) -> list[Any]:
    """What the mean of y has several of: classes, or levels that are names; one nameless entry of a number."""
    if getattr(estimator, "_named_levels", False):
        return list(estimator.levels_)
    return list(estimator.classes_) if estimator.likelihood_.n_latents > 1 else [None]


def mean_draws(estimator: Any, blocks: Iterable[tuple[slice, Array, Array]]) -> Iterator[tuple[slice, Array]]:
    """Blocks of rows in turn: their slice and means of y, (n, S, number of names).

    Parameters
    ----------
    estimator : estimator
        With ``_distribution(mean, variance)``, the predictive distribution of y for latents of these moments.
    blocks : iterable of tuple
        Of each block of rows its slice, latents of shape (n, S), or (n, S, K) of K classes, and the variance (n,), or
        (n, K), that a row's latents have besides.
    """
    for rows, latents, left in blocks:
        yield rows, means_given(estimator, latents, left)


def means_given(estimator: Any, latents: Array, left: Array) -> Array:
    """Means of y, (n, S, number of names), where latents have a variance `left` of their rows besides."""
    likelihood, (n, s) = estimator.likelihood_, latents.shape[:2]
    flat = latents.reshape(n * s, *latents.shape[2:])
    certain = not estimator.noise_scale_ and not np.any(left)
    variance = None if certain else variance_besides(flat, np.repeat(left, s, axis=0))
    if likelihood.traits.ordered:
        levels = (
            np.moveaxis(likelihood.probabilities(flat), 0, -1)
            if certain
            else estimator._distribution(flat, variance).probabilities()
        )
        values = None if estimator._named_levels else np.asarray(estimator.levels_, float)
        return (levels if values is None else (levels @ values)[:, None]).reshape(n, s, -1)
    if certain:
        return likelihood.mean(flat).reshape(n, s, -1)
    return estimator._distribution(flat, variance).mean().reshape(n, s, -1)


def variance_besides(latents: Array, left: Array) -> Array:
    """Variance (n,) of latents (n,) that their rows have besides; (n, K, K) of K latents, `left` (n,) or (n, K)."""
    return left if latents.ndim == 1 else left.reshape(len(latents), -1, 1) * np.eye(latents.shape[1])
