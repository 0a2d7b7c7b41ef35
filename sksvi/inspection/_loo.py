"""Leave-one-out from the messages of one fit: how well rows are predicted by the others, and how far to trust it."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pandas as pd
from scipy.special import logsumexp
from sklearn.base import BaseEstimator

from sksvi._runtime import parallel
from sksvi._typing.arrays import Columns, DataFrame, Index, MatrixLike, PerRow
from sksvi.estimators.sites import STEP, SiteFit, SiteNode
from sksvi.estimators.tables import framed
from sksvi.inspection._cavities import LeaveOut
from sksvi.inspection._fitted_rows import FittedRows
from sksvi.inspection._second_look import Folds, Without

Array = np.ndarray

#: k-hat above which a row's number is not to be trusted (Vehtari, Simpson, Gelman, Yao and Gabry 2024).
TRUSTED = 0.7
#: Share of the nodes of the hyperparameters that has weight without a row, below which their posterior is elsewhere.
LEAST_EFFECTIVE = 0.25
#: Largest move of an unconstrained parameter of the likelihood that one step is right for.
LARGEST_MOVE = 0.25
#: The same where nodes spread it, in standard deviations given all else: what lies beyond the outermost node.
FARTHEST = 2.5
#: Rows that a text names at most.
NAMED = 5
SUPPORTED = (
    "linear models, mixed effects and Gaussian processes have; a DynamicGLM is for leave_future_out(model), and "
    "kfold(model, X, y) fits any estimator with log_predictive_density anew"
)


@dataclass(frozen=True)
class ElpdResult:
    """What `loo` and `kfold` found: the expected log density of new rows, and what it rests on.

    Parameters
    ----------
    elpd_loo : float
        Sum over rows of the log density of y given the rows that are not left out with it, nats. A row of weight k is k
        rows.
    se : float
        Its standard error, nats: of independent rows, or of independent groups where these are left out.
    p_loo : float
        Effective number of parameters: by how much rows are predicted better with themselves among the rows, nats.
    pointwise : DataFrame
        A row per row of X, with its index: ``elpd`` and ``p_loo``, of one copy, nats; ``k_hat``; ``pit_lower`` and
        ``pit_upper``, P(Y < y) and P(Y <= y) without the row, where y has an order; ``weight`` and ``group`` where
        there are some.
    method : str
        What was left out.
    caution : str
        Why `elpd_loo` may be too high although no k-hat tells; empty where there is no reason.
    """

    elpd_loo: float
    se: float
    p_loo: float
    pointwise: DataFrame = field(repr=False)
    method: str = "leave-one-out"
    caution: str = ""

    @property
    def k_hat(self) -> Array:
        """Tail of the weights of every row, (n,)."""
        return (
            self.pointwise["k_hat"].to_numpy() if "k_hat" in self.pointwise else np.full(len(self.pointwise), -np.inf)
        )

    @property
    def untrusted(self) -> Index:
        """Index of the rows whose k-hat is above 0.7; rows of no weight are not among them."""
        there = self.pointwise["weight"].to_numpy() > 0 if "weight" in self.pointwise else True
        return self.pointwise.index[~(self.k_hat <= TRUSTED) & there]

    def __str__(self) -> str:
        n = len(self.pointwise)
        start = (
            f"{self.method}: elpd {self.elpd_loo:.1f} ± {self.se:.1f} nats (standard error) over {n} rows"
            f"{'' if np.isnan(self.p_loo) else f', p_loo {self.p_loo:.1f}'}."
        )
        if "k_hat" not in self.pointwise:
            return start
        rows = self.untrusted
        if not len(rows) and self.caution:
            return (
                f"{start} No k-hat is above {TRUSTED}, but {self.caution}: elpd may be too high, by up to about half a "
                "standard error. kfold(model, X, y) learns it anew."
            )
        if not len(rows):
            return f"{start} Every k-hat is at most {TRUSTED}: these numbers can be trusted."
        named = ", ".join(map(repr, rows[:NAMED].tolist())) + (", ..." if len(rows) > NAMED else "")
        return (
            f"{start} k-hat is above {TRUSTED} in {len(rows)} of them ({named}): without such a row the posterior is "
            "another one, and its density cannot be trusted. kfold(model, X, y) fits without it."
        )


def loo(
    model: BaseEstimator,
    X: MatrixLike,
    y: PerRow | None = None,
    *,
    sample_weight: PerRow | None = None,
    offset: PerRow | None = None,
    exposure: PerRow | None = None,
    groups: Columns | PerRow | None = None,
) -> ElpdResult:
    """Expected log density of new rows by leaving each row out, without a fit anew.

    In a fit every row has a message, and q without row i is q divided by it, the cavity of the row. Where a row moves
    the messages of others, as in few rows a coefficient, these are found anew. Each node of the hyperparameters has
    cavities of its own, and weighs without the row what it weighs with it, divided by the row's density there.

    Parameters
    ----------
    model : fitted estimator
        A linear model, one with mixed effects or a Gaussian process; or a Pipeline or search around one.
    X : {DataFrame, array-like, sparse matrix} of shape (n, D)
        The rows of the fit, in their order; of a stream all chunks together.
    y : array-like of shape (n,), binomial (n, 2), default=None
        Their targets.
    sample_weight, offset, exposure : array-like of shape (n,), default=None
        As the fit had them. A row of weight k is k rows, of which one is left out at a time.
    groups : str, int or array-like of shape (n,), default=None
        Column of X, or labels of rows, whose rows are left out together: each row is predicted from the rows of all
        other groups, as one of a new level.

    Returns
    -------
    ElpdResult
        With elpd_loo, se, p_loo and pointwise.

    Raises
    ------
    TypeError
        If there is no estimator inside whose rows have messages, or a target's transformer around it; where q has no
        covariance of all weights; for Dask collections.
    ValueError
        For rows that are not those of the fit.

    Warns
    -----
    UserWarning
        Where the bound at these rows is not the one that the fit ended at.

    See Also
    --------
    kfold : The same by fits without the rows.
    leave_future_out : Points of a series by those before them.
    compare : Several models side by side.

    Notes
    -----
    Under Gaussian noise cavities are exact given the hyperparameters. Else ``k_hat`` is the shape of the tail of the
    weights that lead from q without the row to the posterior without it, along the direction in which the row pushes;
    -inf where these are level, as where it moves no other row by more than a fifth of the width of the likelihood, NaN
    where rows times coefficients are too many (beyond 67 million) to say how good a cavity that moves others is; inf
    where the posterior of the hyperparameters without the row lies off their nodes. Learned parameters of a likelihood
    take one step of Newton's without the row in directions in which no nodes spread them, as all of cut points, and
    k-hat is inf where that is long (0.25 in their logarithms), or leads 2.5 standard deviations off where nodes do.
    Other points, as precisions of ``"ard"`` and inducing points, stay.

    Cavities are those of Opper and Winther (2000), as estimates of leave-one-out those of Vehtari, Mononen, Tolvanen,
    Sivula and Winther (2016); k-hat is that of Vehtari, Gelman and Gabry (2017).

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> from sksvi import BayesianGLMRegressor
    >>> from sksvi.inspection import loo
    >>> X, y = load_diabetes(return_X_y=True, as_frame=True)
    >>> found = loo(BayesianGLMRegressor().fit(X, y), X, y)
    >>> print(f"{found.elpd_loo:.0f} ± {found.se:.0f}, {found.p_loo:.0f} parameters")
    -2398 ± 14, 11 parameters
    """
    given = FittedRows(model, X, y, sample_weight, offset, exposure)
    given.require("_sites", "has no messages of single rows", SUPPORTED)
    with parallel.working():
        fit = given.call("_sites")
        if sample_weight is not None and fit.place is None:
            own = np.asarray(sample_weight, float)  # rows without any have no message
            fit = replace(fit, place=np.where(own > 0, np.cumsum(own > 0) - 1, -1), copies=own)
        copies = fit.weight if fit.copies is None else fit.copies
        labels = None if groups is None else group_labels(X, groups, len(copies))
        frame = _pointwise(fit, *_folds(fit, labels))
    weight = None if sample_weight is None and np.all(copies == 1.0) else copies
    method = "Leave-one-out" if labels is None else "Leave-one-group-out"
    return replace(summed(indexed_by_rows(frame, X, weight, labels), method), caution=fit.caution)


def group_labels(X: Any, groups: Any, n: int) -> Array:
    """Label of each row, of a column of X or as given.

    Raises
    ------
    ValueError
        For an unknown column, or another number of labels.
    """
    if isinstance(groups, str | int | np.integer) and not isinstance(groups, bool):
        table = framed(X)
        if isinstance(table, pd.DataFrame) and groups in table.columns:
            return table[groups].to_numpy()
        if isinstance(groups, str) or not hasattr(X, "shape") or not 0 <= groups < X.shape[1]:
            raise ValueError(f"groups={groups!r} is no column of X: give a column, or a label for each row.")
        return np.asarray(X[:, groups].todense() if hasattr(X, "todense") else X[:, groups]).ravel()
    labels = np.asarray(groups)
    if labels.shape != (n,):
        raise ValueError(f"groups has shape {labels.shape}, and X has {n} rows: give a column, or a label for each.")
    return labels


def indexed_by_rows(frame: DataFrame, X: Any, weight: Array | None, labels: Array | None) -> DataFrame:
    """A table with the index of X, and with weights and groups of its rows where there are any."""
    index, beside = getattr(framed(X), "index", None), {"weight": weight, "group": labels}
    frame.index = index if isinstance(index, pd.Index) else pd.RangeIndex(len(frame))
    return frame.assign(**{name: values for name, values in beside.items() if values is not None})


def summed(frame: DataFrame, method: str) -> ElpdResult:
    """The result of numbers of rows: their sum, and the standard error of it."""
    totals = {name: float(np.sum(_weighted(frame, frame[name].to_numpy()))) for name in frame.columns[:2]}
    se = std_error(frame, frame["elpd"].to_numpy())
    return ElpdResult(totals["elpd"], se, totals.get("p_loo", np.nan), frame, method)


def _weighted(frame: DataFrame, values: Array) -> Array:
    """Numbers of rows times their weights; rows that do not count have none."""
    if "weight" not in frame:
        return values
    weight = frame["weight"].to_numpy()
    return np.multiply(weight, values, out=np.zeros(len(values)), where=weight > 0)


def std_error(frame: DataFrame, values: Array) -> float:
    """Standard error of the sum of numbers of rows, or of what the groups of rows sum to."""
    weight = frame["weight"].to_numpy() if "weight" in frame else np.ones(len(frame))
    if "group" in frame:
        codes = pd.factorize(frame["group"], use_na_sentinel=False)[0]
        values, weight = np.bincount(codes, _weighted(frame, values)), np.ones(codes.max() + 1)
    values, weight = values[weight > 0], weight[weight > 0]
    n = float(weight.sum())
    if not n > 1:
        return float("nan")
    mean = weight @ values / n
    return float(np.sqrt(n / (n - 1.0) * (weight @ np.square(values - mean))))


def _folds(fit: SiteFit, labels: Array | None) -> tuple[Folds, Array]:
    """Rows that are left out together, and where each row as given is among them, -1: nowhere."""
    place = np.arange(len(fit.y)) if fit.place is None else fit.place
    if labels is None:
        return Folds([np.array([i]) for i in range(len(fit.y))], [np.minimum(w, 1.0)[None] for w in fit.weight]), place
    copies = fit.weight if fit.copies is None else fit.copies
    codes = pd.factorize(labels, use_na_sentinel=False)[0]
    rows, left, entry, start = [], [], np.full(len(place), -1), 0
    for code in range(codes.max() + 1):
        own = np.flatnonzero((codes == code) & (place >= 0))
        if len(own):
            found, at = np.unique(place[own], return_inverse=True)
            rows.append(found)
            left.append(np.bincount(at, copies[own]))
            entry[own], start = start + at, start + len(found)
    return Folds(rows, left), entry


def _pointwise(fit: SiteFit, folds: Folds, entry: Array) -> DataFrame:
    """Log densities of rows without their fold, mixed over the nodes; `entry`: where they are among those of folds."""
    cavities = LeaveOut(fit, folds)
    cavities.look()
    rows = cavities.rows
    shares = np.log([node.weight for node in fit.nodes])
    learned, moved = fit.learned, cavities.theta[cavities.fold]
    applied = moved if learned is None else moved @ learned.projection.T
    found = [_of_node(fit, node, cavities.under(node), rows) for node in fit.nodes]
    inside, outside, folded, lower, upper = (np.array(part) for part in zip(*found, strict=True))
    if applied.shape[1]:
        outside = outside + _of_parameters(fit, cavities.under(fit.mode), applied, rows)
    # Without its fold a node weighs less by the density that it gave the fold.
    taken = outside if folds.single else folded[:, cavities.fold]
    left = shares[:, None] - taken
    left = left - logsumexp(left, axis=0)
    elpd, full = logsumexp(left + outside, axis=0), logsumexp(shares[:, None] + inside, axis=0)
    effective = np.exp(-logsumexp(2.0 * left - shares[:, None], axis=0))
    lost = (effective < LEAST_EFFECTIVE) | (np.abs(applied).max(axis=1, initial=0.0) > LARGEST_MOVE)
    if learned is not None:
        lost |= np.einsum("mp,pq,mq->m", moved - applied, learned.curvature, moved - applied) > FARTHEST**2
    k_hat = np.where(lost, np.inf, cavities.k_hat[cavities.fold])
    columns = {"elpd": elpd, "p_loo": full - elpd, "k_hat": k_hat}
    if lower.shape[1]:
        mixed = np.exp(left)
        columns |= {"pit_lower": np.sum(mixed * lower, axis=0), "pit_upper": np.sum(mixed * upper, axis=0)}
    return pd.DataFrame({name: np.where(entry >= 0, values[entry], np.nan) for name, values in columns.items()})


def _of_parameters(fit: SiteFit, here: Without, moved: Array, rows: Array) -> Array:
    """What log densities gain where the likelihood's parameters move by `moved` (m, P), to first order, at the mode."""
    node, total, y = fit.mode, np.zeros(len(rows)), fit.y[rows]
    theta, good = node.likelihood.unconstrained, np.isfinite(here.cov).all(axis=(1, 2))
    for move, step in zip(moved[good].T, STEP * np.eye(moved.shape[1]), strict=True):
        ends = (node.likelihood.replace(theta + step), node.likelihood.replace(theta - step))
        high, low = (fit.predictive(node, here.mean[good], here.cov[good], rows[good], end) for end in ends)
        total[good] += move * (high.log_prob(y[good]) - low.log_prob(y[good])) / (2.0 * STEP)
    return total


def _of_node(fit: SiteFit, node: SiteNode, here: Without, rows: Array) -> tuple[Array, ...]:
    """Log densities at a node: of rows with and without their folds, of folds; and P(Y < y), P(Y <= y) without."""
    y, none = fit.y[rows], np.empty(0)
    inside = fit.predictive(node, node.mean[rows], node.cov[rows], rows).log_prob(y)
    good = np.isfinite(here.cov).all(axis=(1, 2))
    outside, lower, upper = np.full((3, len(rows)), np.nan)
    if good.any():
        alone = fit.predictive(node, here.mean[good], here.cov[good], rows[good])
        outside[good] = alone.log_prob(y[good])
        if here.mean.shape[1] > 1:
            return inside, outside, here.log_density, none, none
        lower[good], upper[good] = alone.cdf_steps(y[good])
    return inside, outside, here.log_density, lower, upper
