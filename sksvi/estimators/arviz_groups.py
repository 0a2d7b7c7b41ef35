"""Draws of a fit in the containers of ArviZ."""

from __future__ import annotations

from collections.abc import Mapping
from numbers import Integral
from typing import Any

import numpy as np
from sklearn.base import is_classifier
from sklearn.utils.validation import check_is_fitted

from sksvi._names import own_name
from sksvi._typing.arrays import WHOLE, MatrixLike, PerRow, RandomState, is_sparse
from sksvi.estimators.checks import check_numbers
from sksvi.estimators.draws import PosteriorDraws, Variable, drawn_from_prior, draws_of_y, log_densities
from sksvi.estimators.levels import are_numbers
from sksvi.estimators.offsets import with_exposure
from sksvi.estimators.tables import framed

Array = np.ndarray

#: Columns beyond which X is no constant data: nobody reads so many variables.
MOST_COLUMNS = 100
ROW = "row"


def to_arviz(
    estimator: Any,
    X: MatrixLike | int | None = None,
    y: PerRow | RandomState = None,
    *,
    n_samples: int = 1000,
    random_state: RandomState = None,
    offset: PerRow | None = None,
    exposure: PerRow | None = None,
    prior: bool = False,
) -> Any:
    """Independent draws from the posterior of a fitted estimator, and of y, for ArviZ.

    Parameters
    ----------
    estimator : fitted estimator
        Any of this package.
    X : {array-like, DataFrame, sparse matrix} of shape (n, D), default=None
        The rows of the fit; None: `posterior` alone, of a `DynamicGLM`, which has its series, everything. A whole
        number, as ``to_arviz(estimator, n_samples, random_state)`` once had it, is the number of draws.
    y : array-like of shape (n,), binomial (n, 2), default=None
        Their targets; None of estimators without.
    n_samples : int, default=1000
        Number of draws, at least 1; they form one chain.
    random_state : int, RandomState instance or None, default=None
        Seed of the draws; an int makes them the same each time.
    offset, exposure : array-like of shape (n,), default=None
        As in `fit`.
    prior : bool, default=False
        Whether to add ``prior`` and ``prior_predictive``: as many draws by `sample_prior` for these rows.

    Returns
    -------
    data : arviz.InferenceData (ArviZ 0.x) or xarray.DataTree (ArviZ 1.x)
        ``posterior``: blocks, hyperparameters and learned parameters of the likelihood, each of shape
        (1, n_samples, ...), axes labelled by columns, classes, levels, ids, words, components, times. Its attributes
        say whether draws of blocks belong together. With rows besides ``posterior_predictive``, ``log_likelihood`` (of
        one copy of each row, nats; not of topics and components, whose rows have latents of their own),
        ``observed_data`` and ``constant_data``: labels and named levels by their position in ``classes_`` or
        ``levels_``, of binomial targets the successes.

    Raises
    ------
    ImportError
        If ArviZ is not installed.
    NotFittedError
        If the estimator is not fitted.
    TypeError, ValueError
        For rows without targets, and where there is no prior to draw from (as `sample_prior`).

    Notes
    -----
    Draws from a variational posterior are independent and come from an approximation: diagnostics of chains (R-hat,
    effective sample size) say nothing about how good it is, but `sksvi.inspection.check_posterior` does.
    Hyperparameters with nodes are drawn together with the blocks of their node: half of their variance is between
    nodes, half normal about each (Liu and West 2001), so that draws have the nodes' mean and covariance and no gaps.
    ``az.loo`` weighs draws of all rows; `sksvi.inspection.loo` takes rows out of their messages.

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> from sksvi import BayesianGLMRegressor
    >>> X, y = load_diabetes(return_X_y=True, as_frame=True)
    >>> data = BayesianGLMRegressor().fit(X, y).to_arviz(X, y, random_state=0)  # doctest: +SKIP
    >>> az.loo(data)  # doctest: +SKIP
    """
    if isinstance(X, Integral):
        n_samples, random_state, X, y = int(X), random_state if y is None else y, None, None
    if isinstance(n_samples, bool) or not isinstance(n_samples, Integral) or n_samples < 1:
        raise ValueError(f"n_samples must be an integer of at least 1; found {n_samples!r}.")
    check_is_fitted(estimator, "posterior_")
    try:
        import arviz
    except ImportError as error:
        raise ImportError("to_arviz needs ArviZ. Install it with: pip install 'sksvi[arviz]'") from error
    from sklearn.utils import check_random_state

    rng, n = check_random_state(random_state), int(n_samples)
    draws = estimator._posterior_draws(n, rng)
    groups: dict[str, dict[str, Variable]] = {"posterior": draws.variables}
    if X is not None or _holds_rows(estimator):
        groups |= _row_groups(estimator, draws, X, y, with_exposure(estimator, offset, exposure, X, y=y), rng)
    elif y is not None or prior:
        raise ValueError(f"{'y' if y is not None else 'prior=True'} without X: give the rows of the fit.")
    if prior:
        offset = with_exposure(estimator, offset, exposure, X, y=y)
        found, values = drawn_from_prior(estimator, X, n, rng, offset)
        groups["prior"] = found.variables
        if found.nodes:
            axis = _row_axis(X, values.shape[1])
            groups["prior_predictive"] = {"y": Variable(_numbers(estimator, values), axis)}
    return _container(arviz, groups, _attributes(estimator, draws))


def _attributes(estimator: Any, draws: PosteriorDraws) -> dict[str, Any]:
    """Attributes of groups: what the draws of a fit are of."""
    joint = bool(draws.nodes) or len(draws.variables) == 1
    together = "of the joint posterior" if joint else "of each block by itself, as q factorizes"
    found: dict[str, Any] = {
        "inference_library": "sksvi",
        "estimator": type(estimator).__name__,
        "draws": f"independent, {together}, from a variational approximation",
    }
    if hasattr(estimator, "classes_"):
        found["classes"] = [str(label) for label in estimator.classes_]
    if getattr(estimator, "_named_levels", False):
        found["levels"] = [str(level) for level in estimator.levels_]
    return found


# ---- rows
def _holds_rows(estimator: Any) -> bool:
    return hasattr(estimator, "_series")


def _row_axis(X: Any, n: int) -> dict[str, Any]:
    index = getattr(framed(X), "index", None)
    return {ROW: np.arange(n) if index is None else np.asarray(index)}


def _row_groups(
    estimator: Any, draws: PosteriorDraws, X: Any, y: Any, offset: Any, rng: Any
) -> dict[str, dict[str, Variable]]:
    """Groups that rows of the fit add to the posterior."""
    targets = y is not None or estimator.__sklearn_tags__().target_tags.required
    if not draws.nodes or not (targets or _holds_rows(estimator)):
        own = {"X": Variable(np.asarray(X, float))} if X is not None and not is_sparse(X) else {}
        if draws.log_density is None:
            return {"observed_data": own}
        return {"observed_data": own, "log_likelihood": {"X": Variable(draws.log_density(X), _row_axis(X, len(X)))}}
    if _holds_rows(estimator):
        series = estimator._series
        codes, axis = series.series.y[series.observed], {"time": np.asarray(series.index)[series.observed]}
        constant = (
            {} if series.series.offset is None else {"offset": Variable(series.series.offset[series.observed], axis)}
        )
    else:
        if y is None:
            raise ValueError("y is missing: give the targets of the rows, as the fit had them.")
        codes = estimator._check_y(X, y) if hasattr(estimator, "_check_y") else check_numbers(y, "y")
        axis = _row_axis(X, len(codes))
        constant = _constant(X, offset, axis)
    likelihood = draws.nodes[0].likelihood
    trials = None
    shown = _shown(estimator, codes)
    if likelihood.traits.paired:
        successes, failures = likelihood.outcomes(codes)
        trials, shown = np.asarray(successes + failures, int), successes
        constant["trials"] = Variable(trials, axis)
    values = draws_of_y(estimator, draws, X, len(codes), offset, rng, trials)
    return {
        "posterior_predictive": {"y": Variable(_shown(estimator, values), axis)},
        "log_likelihood": {"y": Variable(log_densities(estimator, draws, X, codes, offset), axis)},
        "observed_data": {"y": Variable(shown, axis)},
        "constant_data": constant,
    }


def _numbers(estimator: Any, values: Array) -> Array:
    """Labels as their positions."""
    return np.searchsorted(estimator.classes_, values) if is_classifier(estimator) else values


def _shown(estimator: Any, codes: Array) -> Array:
    """Values of y for what the likelihood has: levels that are numbers, else positions of labels and of levels."""
    likelihood = estimator.likelihood_ if hasattr(estimator, "likelihood_") else None
    if (
        is_classifier(estimator)
        or likelihood is None
        or not likelihood.traits.ordered
        or not are_numbers(estimator.levels_)
    ):
        return codes.astype(int) if is_classifier(estimator) else codes
    return np.asarray(estimator.levels_)[codes.astype(int)]


def _constant(X: Any, offset: Any, axis: dict[str, Any]) -> dict[str, Variable]:
    """The columns of rows, as they were given, and their offset."""
    found = {} if offset is None else {"offset": Variable(np.asarray(offset, float), axis)}
    if is_sparse(X):
        return found
    table = framed(X)
    if not hasattr(table, "columns"):
        values = np.asarray(X)
        return found | {"X": Variable(values, axis | {"X_column": [f"x{j}" for j in range(values.shape[1])]})}
    if len(table.columns) > MOST_COLUMNS:
        return found
    for name in table.columns:
        values = np.asarray(table[name])
        numbers = values.dtype.kind in WHOLE + "fb"
        found[own_name(str(name), axis)] = Variable(values if numbers else values.astype(str), axis)
    return found


# ---- containers
def _container(arviz: Any, groups: dict[str, dict[str, Variable]], attributes: Mapping[str, Any]) -> Any:
    """InferenceData of ArviZ 0.x, or the DataTree of 1.x."""
    coords: dict[str, Any] = {}
    dims: dict[str, list[str]] = {}
    content: dict[str, dict[str, Array]] = {}
    for group, variables in groups.items():
        if not variables:
            continue
        chains = group not in ("observed_data", "constant_data")
        content[group] = {name: each.values[None] if chains else each.values for name, each in variables.items()}
        for name, each in variables.items():
            if each.axes:
                dims[name] = list(each.axes)
                coords.update(each.axes)
    if int(arviz.__version__.split(".")[0]) >= 1:
        data = arviz.from_dict(content, coords=coords, dims=dims)
    else:
        data = arviz.from_dict(**content, coords=coords, dims=dims)
    for group in ("posterior", "posterior_predictive", "log_likelihood"):
        if group in content:
            data[group].attrs.update(attributes)
    return data
