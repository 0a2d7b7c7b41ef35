"""A sparse process in the place of a full one: what the messages of its rows say, at inducing points between them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from sksvi._typing.arrays import RandomState
from sksvi.estimators.checks import check_count, check_seed
from sksvi.estimators.refit import FitRecord, fixed_choices
from sksvi.families.gaussian.dual import SiteGaussian
from sksvi.gaussian_process._encoding import LabelProcessEncoding
from sksvi.gaussian_process._sparse import SparseGPClassifier, SparseGPRegressor
from sksvi.gaussian_process._start import AT_ROW
from sksvi.models.gp.inducing import choose

Array = np.ndarray

#: Inducing points when the user leaves them to us: half of the different rows, and at most so many.
MOST = 200
#: Tolerance of the regression on messages, whose steps cost little: finer than a fit's own.
TOL = 1e-6
#: Attributes of the regression on messages that the classifier does not take over.
OF_REGRESSION = {"likelihood_", "noise_variance_", "posterior_", "lower_bound_", "lower_bounds_"}


class _OfMessages(SparseGPRegressor):
    """A regression on Gaussian messages, without warnings: these would be about no data of a user's."""

    def _fit_warnings(self, problem: Any, state: Any) -> Iterator[str]:
        return iter(())


def sparsened(model: Any, n_inducing: int | None, random_state: RandomState) -> SparseGPClassifier:
    """The sparse process q_s that minimises KL(q_s ‖ q) to the full one's q, its kernel as it is.

    The full q is its prior times Gaussian messages exp(λ_i f_i - W_i f_i² / 2), so that it is the posterior of a
    regression on λ_i / W_i with noise variance 1 / W_i, and q_s that of Titsias (2009) for the same.

    Raises
    ------
    ValueError
        Inducing points for every row, which would be the rows.
    """
    check_is_fitted(model)
    rows, block = model.X_train_, model.posterior_["latents"].block
    n_inducing = min(MOST, max(1, len(rows) // 2)) if n_inducing is None else n_inducing
    if check_count(n_inducing, "n_inducing") >= len(rows):
        raise ValueError(
            f"n_inducing={n_inducing} must be below the number of different rows, which is {len(rows)}: points for "
            "every row would be the rows."
        )
    linear, weights = block.over(SiteGaussian(block.prior_cov)).added()
    informative = weights > 0
    seed = int(check_seed(random_state).randint(np.iinfo(np.int32).max))
    regression = _OfMessages(
        kernel=model.kernel_,
        noise_variance=1.0,
        optimize_hyperparameters=False,
        inducing=between(rows, n_inducing, seed),
        tol=TOL,
        random_state=seed,
        n_jobs=model.n_jobs,
    ).fit(rows[informative], linear[informative] / weights[informative], sample_weight=weights[informative])
    lost = _evidence(block, linear[informative], weights[informative]) - regression.lower_bound_
    return _classifier(model, regression, n_inducing, random_state, float(model.lower_bounds_[-1]) - lost)


def between(rows: Array, n_inducing: int, seed: int) -> Array:
    """Centres of k-means, (n_inducing, D); one that is a row goes half the way to the row that is nearest to it.

    No other row lies there: it would be nearer.
    """
    from scipy.spatial import cKDTree

    spread = rows.std(axis=0)
    unit = np.where(spread > 0, spread, 1.0)
    points, among = choose(rows, None, n_inducing, "kmeans", unit, seed) / unit, rows / unit
    distance, nearest = map(np.asarray, cKDTree(among).query(points, k=2))
    alone = distance[:, 0] <= AT_ROW * distance[:, 1]
    points[alone] = 0.5 * (among[nearest[alone, 0]] + among[nearest[alone, 1]])
    return points * unit


def _evidence(block: Any, linear: Array, weights: Array) -> float:
    """Log evidence of the regression under the full process, nats."""
    squares = np.square(linear) / weights
    return float(block.log_evidence()) - 0.5 * float(squares.sum() + np.log(2.0 * np.pi) * weights.sum())


def _classifier(
    model: Any, regression: SparseGPRegressor, n_inducing: int, random_state: RandomState, bound: float
) -> SparseGPClassifier:
    shared = {name: getattr(model, name) for name in ("likelihood", "class_weight", "n_jobs", "verbose")}
    new = SparseGPClassifier(
        kernel=model.kernel_, n_inducing=n_inducing, optimize_hyperparameters=False, random_state=random_state, **shared
    )
    parameters = new.get_params(deep=False)
    for name, value in vars(regression).items():
        if name not in parameters and name not in OF_REGRESSION:
            setattr(new, name, value)
    for name in ("classes_", "feature_names_in_", "target_name_", "n_samples_seen_"):
        if hasattr(model, name):
            setattr(new, name, getattr(model, name))
    new.likelihood_, new.noise_variance_ = model.likelihood_, model.likelihood_.scales.noise
    new.posterior_ = regression.posterior_
    new._process = replace(regression._process, likelihood=new.likelihood_)
    units = regression._encoding
    new._encoding = LabelProcessEncoding(
        model._encoding.target, units.seed, units.unit, units.target_unit, units.mean, units.kernel
    )
    new.lower_bound_, new.lower_bounds_ = bound, np.array([bound])
    state = regression.state_.without_rows
    new.state_ = replace(state, bound=bound, bounds=[bound], history=[{**state.history[-1], "bound": bound}])
    new._record = FitRecord(choices=fixed_choices(new), had_offset=model._record.had_offset)
    return new
