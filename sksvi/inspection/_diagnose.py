"""Whether a fit can be trusted: one verdict over its posterior, hyperparameters, predictions and rows."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from sksvi._runtime import parallel
from sksvi._typing.arrays import DataFrame, MatrixLike, PerRow, RandomState
from sksvi.estimators.base import drawn_seed
from sksvi.inspection import _findings as findings
from sksvi.inspection._findings import Finding, absent
from sksvi.inspection._fitted_rows import FittedRows
from sksvi.inspection._loo import ElpdResult, loo
from sksvi.inspection._posterior import PosteriorCheck, check_posterior

Array = np.ndarray

#: Draws of q behind k-hat.
DRAWS = 1000
#: Numbers in a table in which a separating plane is looked for, at most.
SEPARATED = 10**6


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
        For rows that are not those of the fit.

    See Also
    --------
    check_posterior : The k-hat of q alone, with corrected coefficients.
    loo : Leave-one-out.

    Notes
    -----
    A part without an alarm has not found anything wrong, which is no proof that nothing is. Parts that do not apply
    are named with the reason. The reference distribution of the Pearson statistic is that of 400 targets simulated
    from the predictive distribution; transforms are those of left-out rows where `loo` applies.

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
    _check_rows(fit.estimator, fit.X)
    with parallel.working():
        found = look.parts()
    if all(one.state == "not applicable" for one in found):
        raise TypeError(f"{fit.name}: no part of a diagnosis applies: {found[0].text}.")
    found.sort(key=lambda one: (one.state != "alarm", findings.ORDER.index(one.part)))
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


def _check_rows(inner: Any, X: Any) -> None:
    """An error where the fit had another number of rows, for estimators whose bound is not compared."""
    fitted = getattr(inner, "n_samples_seen_", None)
    if not hasattr(inner, "_joint") and fitted is not None and hasattr(X, "shape") and X.shape[0] != fitted:
        raise ValueError(f"X has {X.shape[0]} rows and the fit had {fitted}: give the rows of the fit.")


class _Look:
    """A fit and its rows, looked at part by part."""

    def __init__(self, fit: FittedRows, seed: int) -> None:
        self.inner, self.X, self.y, self.beside = fit.estimator, fit.X, fit.y, fit.beside
        self.rng = np.random.default_rng(seed)
        self.seed = seed
        self.check: PosteriorCheck | None = None
        self.left_out: ElpdResult | None = None
        self.k_hats: dict[str, Array] = {}

    def parts(self) -> list[Finding]:
        """All of them."""
        return [
            self.posterior(), self.plates(), self.influence(), self.calibration(), self.dispersion(),
            self.separation(), self.hyperparameters(), findings.convergence(self.inner),
        ]  # fmt: skip

    def posterior(self) -> Finding:
        """k-hat of q."""
        try:
            self.check = check_posterior(
                self.inner, self.X, self.y, n_draws=DRAWS, random_state=self.seed, **self.beside
            )
        except TypeError as error:
            return absent("posterior", _reason(error))
        return findings.posterior(self.check, getattr(self.inner, "covariance", None) == "diag")

    def plates(self) -> Finding:
        """k-hat by plate, or groups of a mixture."""
        inner = self.inner
        if hasattr(inner, "proportion_k_hat"):
            self.k_hats = {"documents": inner.proportion_k_hat(self.X)}
            if getattr(inner, "uncertainty", None) == "corrected":
                return Finding("plates", _share(self.k_hats) + "; proportions are of a chain that begins at q")
            return findings.plates(self.k_hats, {}, inner.n_components)
        k_hats = getattr(getattr(inner, "draws_", None), "k_hats", None)
        if k_hats:
            self.k_hats = dict(k_hats)
            X = np.asarray(self.X) if not hasattr(self.X, "tocsr") else np.empty((0, 0))
            cells = {}
            if X.ndim == 2 and X.shape[1] == 2 and set(k_hats) == {"users", "items"}:
                sides = ("users", "items")
                cells = {side: np.unique(X[:, at], return_counts=True)[1] for at, side in enumerate(sides)}
            if not cells:
                return Finding("plates", _share(self.k_hats) + "; variances are of a chain that begins at q")
            return findings.plates(self.k_hats, cells, inner.n_components)
        if hasattr(inner, "weights_") and hasattr(inner, "predict_proba"):
            return findings.groups(inner.predict_proba(self.X))
        return absent("plates", "there are no plates with draws of their own")

    def influence(self) -> Finding:
        """Rows left out."""
        if not hasattr(self.inner, "_sites"):
            return absent("influence", "rows have no messages")
        try:
            self.left_out = loo(self.inner, self.X, self.y, **self.beside)
        except TypeError as error:
            return absent("influence", _reason(error))
        return findings.influence(self.left_out)

    def _predictive(self) -> Any:
        """Distribution of y at the rows of the fit; None where there is none with a mean."""
        if hasattr(self.inner, "_steps_ahead") or not hasattr(self.inner, "sample_y"):
            return None
        return self.inner

    def calibration(self) -> Finding:
        """Transforms of y, left out where that is to be had."""
        if self.left_out is not None and "pit_lower" in self.left_out.pointwise:
            frame = self.left_out.pointwise[["pit_lower", "pit_upper"]].dropna()
            below, at_most = frame.to_numpy().T
            return findings.calibration((below, at_most), self.rng, "left-out rows")
        if hasattr(self.inner, "_steps_ahead"):
            return findings.calibration(self.inner._steps_ahead(), self.rng, "points one step ahead")
        return absent("calibration", "y has no order, or rows have no messages")

    def dispersion(self) -> Finding:
        """Pearson statistic and zeros."""
        inner = self._predictive()
        values = None if self.y is None else np.asarray(self.y)
        if inner is None or values is None or values.ndim > 1 or values.dtype.kind not in "biuf":
            return absent("dispersion", "there is no number per row to simulate")
        beside = {name: self.beside[name] for name in ("offset", "exposure") if self.beside[name] is not None}
        mean, std = inner.predict(self.X, return_std=True, **beside)
        draws = inner.sample_y(self.X, findings.SIMULATED, self.seed, **beside)
        likelihood = getattr(inner, "likelihood_", None)
        count = likelihood is not None and type(likelihood).__name__ in ("Poisson", "NegativeBinomial")
        return findings.dispersion(values.astype(float), mean, std**2, draws, count, type(likelihood).__name__)

    def separation(self) -> Finding:
        """Labels that the columns separate."""
        inner, X = self.inner, self.X
        if not (hasattr(inner, "coef_") and len(getattr(inner, "classes_", ())) == 2):
            return absent("separation", "only linear models of two labels have it")
        table = np.asarray(X) if not hasattr(X, "tocsr") else np.empty(0)
        if table.dtype.kind not in "biuf" or not 0 < table.size <= SEPARATED or not np.all(np.isfinite(table)):
            return absent("separation", "only looked at in dense columns of numbers, of a million at most")
        return findings.separation(table.astype(float), np.searchsorted(inner.classes_, np.asarray(self.y)))

    def hyperparameters(self) -> Finding:
        """Their posterior, or what a point can say."""
        table = getattr(self.inner, "hyperparameter_posterior_", None)
        df = getattr(getattr(self.inner, "likelihood_", None), "df", None)
        if table is None and isinstance(df, float) and df > findings.NORMAL_DF:
            return findings.degrees(f"df {df:.3g}")
        if table is None:
            return absent("hyperparameters", "they are points: their width is not known")
        n = int(self.inner.n_samples_seen_)
        lengths = any("length_scale" in str(name) for name in table.columns)
        reach = float(np.ptp(np.asarray(self.X, dtype=float), axis=0).max()) if lengths else np.inf
        return findings.hyperparameters(table, reach, n)


def _share(k_hats: dict[str, Array]) -> str:
    """How often k-hat is large, by plate."""
    return "; ".join(f"k-hat of q above 0.7 in {np.mean(k > 0.7):.0%} of {name}" for name, k in k_hats.items())


def _reason(error: Exception) -> str:
    """An error's message as a part of a sentence."""
    return str(error).rstrip(".")
