"""Mixed models against long NUTS runs, stored as moments by benchmarks/mixed/reference.py."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

from benchmarks._lib.tables import RESULTS
from benchmarks.mixed.reference import DATA, GROUPS, INTERCEPT_PRECISION, NOISE_PRIOR_SCALE, PRIOR_PRECISION
from sksvi.mixed_effects import GMEClassifier, GMERegressor

# Of the seizures without noise per row: they do, and the runs are of that model.
pytestmark = pytest.mark.filterwarnings("ignore:y varies .* times as much:UserWarning")
REFERENCE = json.loads((RESULTS / "mixed" / "reference.json").read_text())
PARTS = [(name, part) for name, run in REFERENCE.items() for part, found in run.items() if isinstance(found, dict)]


@pytest.mark.parametrize(("name", "part"), PARTS)
def test_the_stored_runs_are_good(name: str, part: str) -> None:
    run = REFERENCE[name][part]
    assert np.max(run["r_hat"]) < 1.005
    assert np.min(run["ess"]) > 5000
    assert REFERENCE[name]["divergences"] == 0
    # Every posterior sd is known to a few per cent, every mean to a fiftieth of one.
    assert np.max(np.array(run["mean_error"]) / np.array(run["sd"])) < 0.02
    assert np.max(np.array(run["sd_error"]) / np.array(run["sd"])) < 0.05


@pytest.mark.parametrize("name", DATA)
def test_the_data_are_those_of_the_runs(name: str) -> None:
    frame, y = DATA[name]()
    assert len(frame) == len(y) == REFERENCE[name]["rows"]
    assert [*frame.columns.drop(GROUPS[name]), "intercept"] == REFERENCE[name]["columns"]
    for group in GROUPS[name]:
        assert sorted(frame[group].unique()) == REFERENCE[name][f"{group}: effects"]["levels"]


def fitted(name: str, **settings: Any) -> Any:
    frame, y = DATA[name]()
    common: dict[str, Any] = {
        "prior_precision": PRIOR_PRECISION,
        "intercept_precision": INTERCEPT_PRECISION,
        "noise": name == "noise",
        "noise_prior_scale": NOISE_PRIOR_SCALE,
        "groups": GROUPS[name] or None,
        "tol": 1e-8,
        "max_iter": 1000,
        "random_state": 0,
        **settings,
    }
    if name == "salamander":
        return GMEClassifier(**common).fit(frame, y)
    return GMERegressor(likelihood="poisson" if name == "epil" else "poisson-softplus", **common).fit(frame, y)


def weights(model: Any) -> tuple[np.ndarray, np.ndarray]:
    """Means and standard deviations of coefficients and intercept, in the order of the runs."""
    q = model.posterior_["weights"]
    return np.append(np.ravel(model.coef_), model.intercept_), np.append(np.ravel(model.coef_std_), q.std[-1])


@pytest.mark.parametrize("name", ["epil", "salamander"])
def test_fixed_effects_agree_with_nuts(name: str) -> None:
    run = {key: np.array(value) for key, value in REFERENCE[name]["weights"].items()}
    mean, std = weights(fitted(name))
    difference = (mean - run["mean"]) / run["sd"]
    assert np.all(np.abs(difference) <= 0.15 + 4 * run["mean_error"] / run["sd"]), difference
    ratio = std / run["sd"]
    assert np.all(ratio <= 1.1 + 4 * run["sd_error"] / run["sd"]), ratio
    assert np.all(ratio >= 0.85 - 4 * run["sd_error"] / run["sd"]), ratio


@pytest.mark.parametrize("name", ["epil", "salamander"])
def test_group_standard_deviations_agree_with_nuts(name: str) -> None:
    found = fitted(name).group_std_
    for group in GROUPS[name]:
        run = REFERENCE[name][f"{group}: sd"]
        difference = (found.loc[(group, "intercept"), "mean"] - run["mean"][0]) / run["sd"][0]
        assert abs(difference) <= 0.5 + 4 * run["mean_error"][0] / run["sd"][0], (group, difference)


@pytest.mark.parametrize("name", ["epil", "salamander"])
def test_group_effects_agree_with_nuts(name: str) -> None:
    effects = fitted(name).group_effects_
    for group in GROUPS[name]:
        run = {key: np.array(value) for key, value in REFERENCE[name][f"{group}: effects"].items()}
        ours = effects.loc[group].droplevel("effect").loc[run["levels"]]
        difference = (ours["mean"].to_numpy() - run["mean"]) / run["sd"]
        assert np.all(np.abs(difference) <= 0.25 + 4 * run["mean_error"] / run["sd"]), difference
        ratio = ours["std"].to_numpy() / run["sd"]
        assert np.all(np.abs(ratio - 1) <= 0.2 + 4 * run["sd_error"] / run["sd"]), ratio


@pytest.mark.costly
def test_noise_agrees_with_nuts_up_to_the_shape_of_its_posterior() -> None:
    """q(w2) is a Rayleigh, whose sd is 0.52 of its mean where that of the posterior is 0.11: the coefficients move by
    up to half a posterior sd (the intercept, which trades with w2), their sd shrinks by a tenth."""
    run = {key: np.array(value) for key, value in REFERENCE["noise"]["weights"].items()}
    model = fitted("noise", bound="optimal", tol=1e-5)
    mean, std = weights(model)
    difference, ratio = (mean - run["mean"]) / run["sd"], std / run["sd"]
    assert np.all(np.abs(difference) <= 0.5), difference
    assert np.all((ratio >= 0.85) & (ratio <= 1.0)), ratio
    variance = REFERENCE["noise"]["noise variance"]
    assert abs(model.noise_variance_ - variance["mean"][0]) <= variance["sd"][0]
    assert np.all(weights(fitted("noise", bound="mean-field", tol=1e-5))[1] < std)
