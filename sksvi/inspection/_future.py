"""Leave-future-out: each point of a series predicted from those before it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
from scipy.special import logsumexp
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from sksvi._typing.arrays import DataFrame
from sksvi.estimators.checks import check_count
from sksvi.inspection._loo import ElpdResult, summed
from sksvi.predictive.wrappers import unwrapped

Array = np.ndarray

#: Points beside as many as there are states, from which a series is predicted first.
FIRST = 10


def leave_future_out(model: BaseEstimator, start: int | None = None) -> ElpdResult:
    """Expected log density of the next point of a series: of each point given those before it, without a fit anew.

    Given the hyperparameters these are the densities of the filter. Over the nodes of their posterior each point has
    the weights that the points before it give: those of the whole series, divided by the density of what comes later.

    Parameters
    ----------
    model : fitted DynamicGLM
        Or a Pipeline or search around one; of several series each for itself.
    start : int, default=None
        Points that are not predicted, at the beginning of each series. None: as many as it has states, and ten. Models
        compare from the same start.

    Returns
    -------
    ElpdResult
        As of `loo`, rows are points in time; without p_loo and k_hat.

    Raises
    ------
    TypeError
        For another estimator.
    ValueError
        For a series that is no longer than `start`.

    Notes
    -----
    Nodes lie about the hyperparameters of the whole series, which the first points may find others than (Bürkner, Gabry
    and Vehtari 2020 fit anew where that matters). Behind a likelihood other than the Gaussian the filter's messages are
    those of each point given the ones before it.

    Examples
    --------
    >>> import numpy as np
    >>> from sksvi import DynamicGLM
    >>> from sksvi.inspection import leave_future_out
    >>> y = np.random.default_rng(0).poisson(5.0, 60)
    >>> found = leave_future_out(DynamicGLM(likelihood="poisson", level="walk").fit(None, y))
    >>> print(f"{found.elpd_loo:.0f} ± {found.se:.0f}")
    -107 ± 4
    """
    inner: Any = unwrapped(model)[0]
    if not hasattr(inner, "_predicted"):
        raise TypeError(f"{type(inner).__name__} has no points in time: use loo, or kfold.")
    check_is_fitted(inner)
    start = check_count(start, "start") if start is not None else start
    if inner.groups is None:
        return summed(_points(inner, start), "Leave-future-out")
    frames = {name: _points(one, start) for name, one in inner.series_.items()}
    return summed(pd.concat(frames, names=[str(inner.groups)]), "Leave-future-out")


def _points(model: Any, start: int | None) -> DataFrame:
    """Log densities of the points of one series, and P(Y < y), P(Y <= y)."""
    series = model._series
    predicted, y = model._predicted(), series.series.y
    parts, weights = getattr(predicted, "components", [predicted]), getattr(predicted, "weights", np.ones(1))
    there = np.flatnonzero(series.observed)
    first = series.dynamics.n_states + FIRST if start is None else start
    if len(there) <= first:
        raise ValueError(f"the series has {len(there)} observations, and start={first} of them are not predicted.")
    logs = np.array([part.log_prob(y) for part in parts])[:, there]
    later = np.cumsum(logs[:, ::-1], axis=1)[:, ::-1]  # of this point and all that follow
    share = np.log(weights)[:, None] - later
    share -= logsumexp(share, axis=0)
    steps = [part.cdf_steps(y) for part in parts]
    lower, upper = (np.sum(np.exp(share) * np.array([step[k] for step in steps])[:, there], axis=0) for k in (0, 1))
    columns = {"elpd": logsumexp(share + logs, axis=0), "pit_lower": lower, "pit_upper": upper}
    index = series.stored_index("leave_future_out")[there]
    return pd.DataFrame(columns, index=index).iloc[first:]
