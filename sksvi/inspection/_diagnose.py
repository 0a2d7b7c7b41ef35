"""Whether a fit can be trusted: one verdict over its posterior, hyperparameters, predictions and rows."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from sksvi._names import all_names
from sksvi._runtime import parallel
from sksvi._typing.arrays import DataFrame, MatrixLike, PerRow, RandomState
from sksvi.estimators.base import drawn_seed
from sksvi.estimators.tables import framed
from sksvi.inspection import _diagnoses as diagnoses
from sksvi.inspection._diagnoses import Finding, absent
from sksvi.inspection._fitted_rows import FittedRows
from sksvi.inspection._hyperparameters import Hyperparameters, hyperparameters
from sksvi.inspection._loo import ElpdResult, loo
from sksvi.inspection._posterior import PosteriorCheck, check_posterior

Array = np.ndarray

#: Draws of q behind k-hat.
DRAWS = 1000
#: Coefficients whose k-hat is looked for, at most, where q has their covariances: draws take cubes of them.
MOST_COEFFICIENTS = 1000
#: Numbers in a table in which a separating plane is looked for, at most.
SEPARATED = 10**6
#: Indices that are time.
DATES = (pd.DatetimeIndex, pd.PeriodIndex, pd.TimedeltaIndex)
IN_TIME = "DynamicGLM, or a lag as a column"
NO_TRANSFORMS = "y has no order, or rows have no messages"


@dataclass(frozen=True)
class Diagnosis:
    """What `diagnose` found: printed, a verdict with the remedy and a line for each part.

    Parameters
    ----------
    verdict : str
        One sentence: the first alarm and what to do about it, or that there is none.
    k_hat : float
        Of q as a whole; NaN where that does not apply.
    parts : DataFrame
        A row per part: ``state``, "alarm", "fine" or "not applicable"; ``found``, ``alarm`` and ``remedy``.
    k_hats : dict of str to ndarray
        k-hat by plate: users and items, documents.
    posterior : PosteriorCheck or None
        What `check_posterior` found.
    loo : ElpdResult or None
        What `loo` found.
    """

    verdict: str
    k_hat: float
    parts: DataFrame = field(repr=False)
    k_hats: dict[str, Array] = field(default_factory=dict, repr=False)
    posterior: PosteriorCheck | None = field(default=None, repr=False)
    loo: ElpdResult | None = field(default=None, repr=False)

    @property
    def alarms(self) -> list[str]:
        """Parts that found something wrong, the most pressing first."""
        return self.parts.index[self.parts["state"] == "alarm"].tolist()

    def __str__(self) -> str:
        marks = {"alarm": "!", "fine": " ", "not applicable": "-"}
        lines = [f" {marks[row.state]} {name}: {row.found}" for name, row in self.parts.iterrows()]
        return "\n".join([self.verdict, *lines])


def diagnose(
    model: BaseEstimator,
    X: MatrixLike | None = None,
    y: PerRow | None = None,
    *,
    sample_weight: PerRow | None = None,
    offset: PerRow | None = None,
    exposure: PerRow | None = None,
    random_state: RandomState = 0,
) -> Diagnosis:
    """Whether a fit can be trusted, in one verdict: its posterior, hyperparameters, predictions and single rows.

    Parameters
    ----------
    model : fitted estimator
        Or a Pipeline or search around one.
    X : {DataFrame, array-like, sparse matrix} of shape (n, D), default=None
        The rows of the fit, in their order; None for a `DynamicGLM`, which holds its series.
    y : array-like of shape (n,), default=None
        Their targets, where the fit had some.
    sample_weight, offset, exposure : array-like of shape (n,), default=None
        As the fit had them.
    random_state : int, RandomState or None, default=0
        Of draws.

    Returns
    -------
    Diagnosis

    Raises
    ------
    TypeError
        For Dask collections, and where no part applies to the estimator.
    ValueError
        For rows that are not those of the fit, by their number or weight.

    Warns
    -----
    UserWarning
        Where the bound at these rows, or their score, is not the one that the fit ended with. Of mixtures, topics and
        factorizations of counts the fit stores neither.

    See Also
    --------
    check_posterior : The k-hat of q alone, with corrected coefficients.
    loo : Leave-one-out.

    Notes
    -----
    A part without an alarm has not found anything wrong, which is no proof that nothing is. Parts that do not apply
    are named with the reason. The reference distribution of the Pearson statistic is that of 400 targets simulated
    from the predictive distribution; transforms are those of left-out rows where `loo` applies. Residuals of neighbours
    are those in the order of the dates of an index, else of the rows; not where rows are sorted by y.

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> from sksvi import BayesianGLMRegressor
    >>> from sksvi.inspection import diagnose
    >>> X, y = load_diabetes(return_X_y=True, as_frame=True)
    >>> found = diagnose(BayesianGLMRegressor().fit(X, y), X, y)
    >>> found.verdict
    'No alarm: nothing that was looked at speaks against this fit.'
    """
    fit = FittedRows(model, X, y, sample_weight, offset, exposure)
    fit.require("fit", "is no estimator", "sksvi's estimators have a diagnosis")
    check_is_fitted(fit.estimator)
    look = _Look(fit, drawn_seed(random_state))
    fit.check_number()
    with parallel.working():
        found = look.parts()
        if look.check is None or not (hasattr(fit.estimator, "lower_bound_") and fit.estimator.state_.finished):
            fit.check_score()  # else the bound at the rows has been compared
    if all(one.state == "not applicable" for one in found):
        raise TypeError(f"{fit.name}: no part of a diagnosis applies: {found[0].text}.")
    found.sort(key=lambda one: (one.state != "alarm", diagnoses.ORDER.index(one.part)))
    columns = {"state": "state", "found": "text", "alarm": "alarm", "remedy": "remedy"}
    table = pd.DataFrame(
        {name: [getattr(one, of) for one in found] for name, of in columns.items()}, index=[one.part for one in found]
    )
    first = found[0]
    verdict = f"{first.alarm}. Remedy: {first.remedy}." if first.alarm else (
        "No alarm: nothing that was looked at speaks against this fit."
    )  # fmt: skip
    k_hat = np.nan if look.check is None else look.check.k_hat
    return Diagnosis(verdict, k_hat, table.rename_axis(index="part"), look.k_hats, look.check, look.left_out)


class _Look:
    """A fit and its rows, looked at part by part."""

    def __init__(self, fit: FittedRows, seed: int) -> None:
        self.inner, self.X, self.y, self.beside, self.index = fit.estimator, fit.X, fit.y, fit.beside, fit.index
        self.rng = np.random.default_rng(seed)
        self.seed = seed
        self.check: PosteriorCheck | None = None
        self.left_out: ElpdResult | None = None
        self.k_hats: dict[str, Array] = {}

    def parts(self) -> list[Finding]:
        """All of them."""
        return [
            self.posterior(), self.plates(), self.influence(), self.autocorrelation(), self.calibration(),
            self.dispersion(), self.separation(), self.hyperparameters(), diagnoses.convergence(self.inner),
        ]  # fmt: skip

    def posterior(self) -> Finding:
        """k-hat of q."""
        diagonal, size = getattr(self.inner, "covariance", None) == "diag", np.size(getattr(self.inner, "coef_", ()))
        if size > MOST_COEFFICIENTS and not diagonal:
            return absent("posterior", f"k-hat of {size} coefficients together says little of each")
        try:
            self.check = check_posterior(
                self.inner, self.X, self.y, n_draws=DRAWS, random_state=self.seed, **self.beside
            )
        except TypeError as error:
            return absent("posterior", _reason(error))
        return diagnoses.posterior(self.check, diagonal)

    def plates(self) -> Finding:
        """k-hat by plate, or groups of a mixture."""
        inner = self.inner
        if hasattr(inner, "proportion_k_hat"):
            self.k_hats = {"documents": inner.proportion_k_hat(self.X)}
            if getattr(inner, "uncertainty", None) == "corrected":
                return Finding("plates", _share(self.k_hats) + "; proportions are of a chain that begins at q")
            return diagnoses.plates(self.k_hats, {}, inner.n_components)
        k_hats = getattr(getattr(inner, "draws_", None), "k_hats", None)
        if k_hats:
            self.k_hats = dict(k_hats)
            X = np.asarray(self.X) if not hasattr(self.X, "tocsr") else np.empty((0, 0))
            if X.ndim == 2 and X.shape[1] == 2 and set(k_hats) == {"users", "items"}:
                cells = {s: np.unique(X[:, at], return_counts=True)[1] for at, s in enumerate(("users", "items"))}
                return diagnoses.plates(self.k_hats, cells, inner.n_components)
            return Finding("plates", _share(self.k_hats) + "; variances are of a chain that begins at q")
        if hasattr(inner, "weights_") and hasattr(inner, "predict_proba"):
            return diagnoses.groups(inner.predict_proba(self.X))
        return absent("plates", "there are no plates with draws of their own")

    def influence(self) -> Finding:
        """Rows left out."""
        if not hasattr(self.inner, "_sites"):
            return absent("influence", "rows have no messages")
        try:
            self.left_out = loo(self.inner, self.X, self.y, **self.beside)
        except TypeError as error:
            return absent("influence", _reason(error))
        return diagnoses.influence(self.left_out)

    def _predictive(self) -> Any:
        """Distribution of y at the rows of the fit; None where there is none with a mean."""
        if hasattr(self.inner, "_steps_ahead") or not hasattr(self.inner, "sample_y"):
            return None
        return self.inner

    @cached_property
    def pit(self) -> tuple[Array, Array, str]:
        """Probability integral transforms, the rows that have one, and where they are from; none: (0,)."""
        if self.left_out is not None and "pit_lower" in self.left_out.pointwise:
            below, at_most = self.left_out.pointwise[["pit_lower", "pit_upper"]].to_numpy().T
            source = "left-out rows"
        elif hasattr(self.inner, "_steps_ahead"):
            below, at_most = self.inner._steps_ahead()
            source = "points one step ahead"
        else:
            return np.empty(0), np.empty(0, int), ""
        rows = np.flatnonzero(np.isfinite(below))
        below, at_most = below[rows], at_most[rows]
        return below + self.rng.random(len(rows)) * (at_most - below), rows, source

    def calibration(self) -> Finding:
        """Transforms of y, left out where that is to be had."""
        pit, _, source = self.pit
        if not source:
            return absent("calibration", NO_TRANSFORMS)
        return diagnoses.calibration(pit, source, self.inner.likelihood_.traits)

    def autocorrelation(self) -> Finding:
        """Neighbours in time, or in the order of the rows where y is not in order itself."""
        pit, rows, source = self.pit
        if not source:
            return absent("autocorrelation", NO_TRANSFORMS)
        if hasattr(self.inner, "_steps_ahead"):
            return diagnoses.autocorrelation(pit, "time", "a learned level, trend, seasonal or autoregressive=True")
        index = self.index[rows] if isinstance(self.index, DATES) else None
        if index is not None:
            return diagnoses.autocorrelation(pit[np.argsort(index, kind="stable")], "the order of dates", IN_TIME)
        targets = pd.DataFrame(np.asarray(self.y)[rows])  # times beside truth values are objects, without np.unique
        if diagnoses.in_order(targets.groupby(list(targets), dropna=False).ngroup().to_numpy()):
            return absent("autocorrelation", "rows are in the order of y, or of what nearly is y")
        remedy, column = f"a group or column that neighbours share; in time {IN_TIME}", self._sorted_column(rows)
        if column is None:
            return diagnoses.autocorrelation(pit, "the order of rows, as in time", remedy)
        order = f"the order of rows, in which {column!r} rises or falls"
        return diagnoses.autocorrelation(pit, order, f"a bend of {column!r}, or {remedy}")

    def _sorted_column(self, rows: Array) -> str | None:
        """A column of numbers in whose order the rows are."""
        table = framed(self.X)
        if isinstance(table, np.ndarray):
            table = pd.DataFrame(table, columns=all_names(self.inner, None))
        if not isinstance(table, pd.DataFrame):
            return None
        numbers = table.iloc[rows].select_dtypes("number")
        for name, values in numbers.items():
            changes = values[values.diff() != 0].to_numpy()  # of a patient's column its rows have one value
            if values.nunique() > 2 and diagnoses.in_order(changes):
                return str(name)
        return None

    def dispersion(self) -> Finding:
        """Pearson statistic and zeros."""
        inner = self._predictive()
        values = None if self.y is None else np.asarray(self.y)
        if inner is None or values is None or values.ndim > 1 or values.dtype.kind not in "biuf":
            return absent("dispersion", "there is no number per row to simulate")
        beside = {name: self.beside[name] for name in ("offset", "exposure") if self.beside[name] is not None}
        mean, std = inner.predict(self.X, return_std=True, **beside)
        draws = inner.sample_y(self.X, diagnoses.SIMULATED, self.seed, **beside)
        likelihood = getattr(inner, "likelihood_", None)
        count = likelihood is not None and type(likelihood).__name__ in ("Poisson", "NegativeBinomial")
        return diagnoses.dispersion(values.astype(float), mean, std**2, draws, count, type(likelihood).__name__)

    def separation(self) -> Finding:
        """Labels that the columns separate."""
        inner, X = self.inner, self.X
        if not (hasattr(inner, "coef_") and len(getattr(inner, "classes_", ())) == 2):
            return absent("separation", "only linear models of two labels have it")
        table: Array = np.asarray(X) if not hasattr(X, "tocsr") else np.empty(0)
        if table.ndim == 2 and table.shape[1] >= len(table):
            return absent("separation", "as many columns as rows separate any labels")
        if table.dtype.kind not in "biuf" or not 0 < table.size <= SEPARATED or not np.all(np.isfinite(table)):
            return absent("separation", "only looked at in dense columns of numbers, of a million at most")
        return diagnoses.separation(table.astype(float), np.searchsorted(inner.classes_, np.asarray(self.y)))

    def hyperparameters(self) -> Finding:
        """Their posterior, or what a point can say."""
        inner, n = self.inner, int(self.inner.n_samples_seen_)
        table = getattr(inner, "hyperparameter_posterior_", None)
        if table is not None:
            found = Hyperparameters.of_nodes(table)
        elif hasattr(inner, "likelihood_"):
            found = Hyperparameters.of_points(inner, n)
        else:
            return absent("hyperparameters", "they are points: their width is not known")
        lengths = any("length_scale" in name for name in found.centre)
        reach = float(np.ptp(np.asarray(self.X, dtype=float), axis=0).max()) if lengths else np.inf
        y = inner._observed() if hasattr(inner, "_observed") else self.y
        unit = float(np.nanstd(y)) if inner.likelihood_.traits.additive else 1.0
        return hyperparameters(found, reach, n, unit)


def _share(k_hats: dict[str, Array]) -> str:
    """How often k-hat is large, by plate."""
    return "; ".join(f"k-hat of q above 0.7 in {np.mean(k > 0.7):.0%} of {name}" for name, k in k_hats.items())


def _reason(error: Exception) -> str:
    """An error's message as a part of a sentence."""
    return str(error).rstrip(".")
