"""Scales of a likelihood at an end of their range, where the bound hardly slopes, and rows that want them elsewhere."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone

from sksvi import BayesianGLMRegressor, DynamicGLM, GeneralizedPMF, GMERegressor, SparseGPRegressor
from sksvi.likelihoods import NAMES, NegativeBinomial, StudentT, resolve

N = 600

#: Estimators and what they read of rows: columns, groups, pairs, time.
ESTIMATORS = {
    "BayesianGLMRegressor": (BayesianGLMRegressor(random_state=0), lambda X, ids: X),
    "SparseGPRegressor": (
        SparseGPRegressor(n_inducing=10, max_iter=500, random_state=0),
        lambda X, ids: X,
    ),
    "GMERegressor": (
        GMERegressor(groups=["g"], random_state=0),
        lambda X, ids: pd.DataFrame({"x": X[:, 0], "g": ids[:, 0]}),
    ),
    "GeneralizedPMF": (GeneralizedPMF(2, random_state=0), lambda X, ids: ids),
    "DynamicGLM": (DynamicGLM(), lambda X, ids: np.arange(float(len(X)))[:, None]),
}


def rows(rng, likelihood, wide, n=N):
    """Columns, ids, and y that is less spread than any member of the likelihood's family, or as wide as one."""
    X, ids = rng.standard_normal((n, 2)), rng.integers(0, 12, (n, 2))
    f = 0.3 + 0.4 * X[:, 0]
    if likelihood == "negative-binomial":
        y = rng.poisson(np.exp(f) * rng.gamma(2.0, 0.5, n)) if wide else np.round(np.exp(f))
    else:
        y = f + 0.5 * (rng.standard_t(3.0, n) if wide else rng.uniform(-1.0, 1.0, n))
    return X, ids, y.astype(float)


@pytest.mark.costly
@pytest.mark.filterwarnings("ignore:y varies far less than counts do:UserWarning")  # that is what it is about
@pytest.mark.parametrize("likelihood", ["negative-binomial", "student-t"])
@pytest.mark.parametrize("name", ESTIMATORS)
def test_a_warm_fit_to_wider_rows_is_a_fresh_one(name, likelihood, global_random_seed):
    """It had kept dispersion 1e-5, or 4e4 degrees of freedom, hundreds of nats low and as converged."""
    estimator, asked = ESTIMATORS[name]
    rng = np.random.default_rng(global_random_seed)
    (X, ids, y), (X2, ids2, y2) = (rows(rng, likelihood, wide) for wide in (False, True))
    model = clone(estimator).set_params(likelihood=likelihood)
    fresh = clone(model).fit(asked(X2, ids2), y2)
    warm = clone(model).set_params(warm_start=True).fit(asked(X, ids), y).fit(asked(X2, ids2), y2)
    # What else goes on (a column's unit, an inducing point, a start of factors) makes a nat or few.
    assert warm.converged_ and warm.lower_bound_ > fresh.lower_bound_ - 0.01 * abs(fresh.lower_bound_)
    one, other = (m.likelihood_.reported for m in (warm, fresh))
    assert np.log(list(one.values())) == pytest.approx(np.log(list(other.values())), abs=0.3)


@pytest.mark.costly
@pytest.mark.parametrize("size", [100, pytest.param(1000, marks=pytest.mark.exhaustive)])
@pytest.mark.parametrize(
    "name",
    [
        "BayesianGLMRegressor",
        *(pytest.param(name, marks=pytest.mark.exhaustive) for name in ("SparseGPRegressor", "GMERegressor")),
    ],
)
def test_a_stream_of_counts_learns_a_dispersion_after_narrow_ones(name, size, global_random_seed):
    """Dispersion went to 1e-15 and stayed, or to 5e110, or ended in an OverflowError."""
    estimator, asked = ESTIMATORS[name]
    rng = np.random.default_rng(global_random_seed)
    parts = [rows(rng, "negative-binomial", wide, n) for wide, n in ((False, 2000), (True, 4000))]
    X, ids, y = (np.concatenate(part) for part in zip(*parts, strict=True))
    model = clone(estimator).set_params(likelihood="negative-binomial")
    fit, rated = clone(model).fit(asked(X, ids), y), asked(X, ids)
    for first in range(0, len(y), size):
        part = slice(first, first + size)
        model.partial_fit(rated[part], y[part])
        assert np.isfinite(model.likelihood_.dispersion)
        if part.stop == 1000:
            assert model.likelihood_.dispersion < 1e-3
    # Past rows that a sample of 2,000 stands for: a share of 0.05 or so is its error.
    assert model.likelihood_.dispersion == pytest.approx(fit.likelihood_.dispersion, rel=0.25)


@pytest.mark.parametrize("likelihood", [NegativeBinomial(), StudentT(), StudentT(scale=1.0)])
def test_what_frees_a_scale_leaves_one_that_data_move(likelihood, global_random_seed):
    rng = np.random.default_rng(global_random_seed)
    y = rows(rng, "negative-binomial", True)[2]
    started = likelihood.start(y)
    assert started.scales.moved_off_limits().reported == started.reported
    far, end = started.unconstrained.copy(), {"dispersion": -12.0, "df": 12.0}
    (k,) = (k for k, name in enumerate(started.learned) if name in end)
    far[k] = end[started.learned[k]]
    freed = started.replace(far).scales.moved_off_limits()
    assert freed.scales.moved_off_limits().reported == freed.reported != started.replace(far).reported
    slope, there = (np.sum(one.d_parameters(y, np.log1p(y))[0][k]) for one in (freed, started.replace(far)))
    assert abs(slope) > 100 * abs(there)


@pytest.mark.parametrize("name", sorted(NAMES))
def test_fixed_scales_are_not_freed(name):
    likelihood = resolve(name, 3)
    fixed = likelihood._replaced({}, ())
    assert fixed.scales.moved_off_limits() is fixed
