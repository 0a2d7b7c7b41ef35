"""Linear models against long NUTS runs, stored as moments by benchmarks/glm/reference.py."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

from benchmarks._lib.tables import RESULTS
from benchmarks.glm.reference import DATA, INTERCEPT_PRECISION
from sksvi.linear_model import BayesianGLMClassifier, BayesianGLMRegressor

REFERENCE = json.loads((RESULTS / "glm" / "reference.json").read_text())
# The rentals vary more than a Poisson lets them; compared is the posterior under it.
pytestmark = pytest.mark.filterwarnings("ignore:y varies .* times as much as:UserWarning")
MODELS = ["logistic", "poisson", "ordinal"]


def fitted(name: str, covariance: str = "full") -> Any:
    common = {
        "prior_precision": 1.0,
        "intercept_precision": INTERCEPT_PRECISION,
        "algorithm": "cvi",
        "expectation": "quadrature",
        "covariance": covariance,
        "tol": 1e-8,
        "max_iter": 1000,
        "random_state": 0,
    }
    if name == "logistic":
        return BayesianGLMClassifier(**common).fit(*DATA[name]())
    return BayesianGLMRegressor(likelihood=name, fit_intercept=name == "poisson", **common).fit(*DATA[name]())


def standardised_difference(model: Any, name: str) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Mean difference in posterior sd, its Monte Carlo error, ratio of sds, its error."""
    mean, sd, mean_error, sd_error = (np.array(REFERENCE[name][k]) for k in ("mean", "sd", "mean_error", "sd_error"))
    weights = model.posterior_["weights"]
    difference = (np.ravel(weights.mean) - mean) / sd
    return difference, mean_error / sd, np.ravel(weights.std) / sd, sd_error / sd


@pytest.mark.parametrize("name", MODELS)
def test_the_stored_runs_are_good(name: str) -> None:
    run = REFERENCE[name]
    assert run["rows"] >= 20 * len(run["mean"])
    assert np.max(run["r_hat"]) < 1.01
    assert np.min(run["ess"]) > 1000
    assert run["divergences"] == 0


@pytest.mark.parametrize("name", MODELS)
def test_full_covariance_agrees_with_nuts(name: str) -> None:
    difference, difference_error, ratio, ratio_error = standardised_difference(fitted(name), name)
    assert np.all(np.abs(difference) <= 0.1 + 4 * difference_error), difference
    assert np.all(ratio >= 0.9 - 4 * ratio_error), ratio
    assert np.all(ratio <= 1.1 + 4 * ratio_error), ratio


@pytest.mark.parametrize("name", MODELS)
def test_diagonal_covariance_shrinks_the_sd_and_keeps_the_mean(name: str) -> None:
    """A diagonal q has the precision's diagonal: no sd exceeds the marginal one, smaller where columns correlate."""
    diagonal, full = fitted(name, "diag"), fitted(name)
    difference, difference_error, ratio, ratio_error = standardised_difference(diagonal, name)
    assert np.all(ratio <= 1.02 + 4 * ratio_error), ratio
    assert np.min(ratio) < 0.9
    assert np.all(np.abs(difference) <= 0.2 + 4 * difference_error), difference
    assert diagonal.lower_bound_ < full.lower_bound_


def test_ordinal_cut_points_agree_with_nuts() -> None:
    """They are point estimates: compared in the posterior sd of the run, without an sd of their own."""
    run = REFERENCE["ordinal"]["cut_points"]
    cut_points = np.asarray(fitted("ordinal").likelihood_.cut_points, dtype=float)
    difference = (cut_points - np.array(run["mean"])) / np.array(run["sd"])
    assert np.all(np.abs(difference) <= 0.2 + 4 * np.array(run["mean_error"]) / np.array(run["sd"])), difference
