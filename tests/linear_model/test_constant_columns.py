"""Columns that do not vary: their coefficient is the prior's, the intercept takes its spread, and a user is told."""

from __future__ import annotations

import warnings
from functools import partial

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer

from sksvi import BayesianGLMClassifier, BayesianGLMRegressor, GMERegressor

N = 60
TOLD = "column 'const' is 3.5 in every row: the data say nothing of the coefficient"


@pytest.fixture
def rng(global_random_seed):
    return np.random.default_rng(global_random_seed)


def rows(rng):
    X = pd.DataFrame(rng.standard_normal((N, 2)), columns=["a", "b"])
    return X, X["a"].to_numpy() + 2.0 + rng.standard_normal(N)


def silent(call):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        return call()


@pytest.mark.parametrize("prior", ["auto", "ard"])
@pytest.mark.parametrize("family", [BayesianGLMRegressor, GMERegressor])
def test_a_column_that_does_not_vary_is_told_and_changes_nothing_else(family, prior, rng):
    X, y = rows(rng)
    family = partial(family, hyperparameters="point")
    without = silent(lambda: family(prior_precision=prior).fit(X, y))
    with pytest.warns(UserWarning, match=TOLD) as caught:
        model = family(prior_precision=prior).fit(X.assign(const=3.5), y)
    assert len(caught) == 1 and "Leave it out" in str(caught[0].message)
    # Its spread is the prior's: that which the other columns learned, under "ard" that of the start, the target's unit.
    own = np.std(y) if prior == "ard" else model.prior_precision_[2] ** -0.5
    assert model.coef_[2] == 0.0 and model.coef_std_[2] == pytest.approx(own, rel=1e-6)
    # Under "ard" a column that adds nothing goes to zero, and how near is rounding.
    np.testing.assert_allclose(model.coef_[:2], without.coef_, atol=1e-6 * without.coef_std_.max())
    assert model.intercept_ == pytest.approx(without.intercept_, rel=1e-6)
    np.testing.assert_allclose(
        model.predict_interval(X.assign(const=3.5)), without.predict_interval(X), rtol=1e-6, atol=1e-8
    )
    table, other = model.summary(), without.summary()
    wide = np.hypot(other.loc["intercept", "std"], 3.5 * table.loc["const", "std"])
    assert table.loc["intercept", "std"] == pytest.approx(wide)


def test_of_several_classes_and_through_a_pipeline(rng):
    X, y = rows(rng)
    with pytest.warns(UserWarning, match=TOLD):
        BayesianGLMClassifier().fit(X.assign(const=3.5), np.digitize(y, [1.0, 3.0]))
    with pytest.warns(UserWarning, match="column 2 is 3.5 in every row"):
        make_pipeline(FunctionTransformer(sp.csr_array), BayesianGLMRegressor()).fit(X.assign(const=3.5), y)


def test_what_leaves_the_intercept_as_it_is_is_not_told(rng):
    X, y = rows(rng)
    silent(lambda: BayesianGLMRegressor().fit(X.assign(const=0.0), y))
    silent(lambda: BayesianGLMRegressor(fit_intercept=False).fit(X.assign(const=3.5), y))
    silent(lambda: BayesianGLMRegressor().fit(X.assign(const=np.where(np.arange(N) == 3, 3.0, 3.5)), y))
    with warnings.catch_warnings(record=True) as caught:  # of one row nothing varies
        warnings.simplefilter("always")
        BayesianGLMRegressor().fit(X.iloc[:1], y[:1])
    assert not any("does not vary" in str(warning.message) for warning in caught)


def test_rows_in_partitions_are_told_too(rng):
    dask_array = pytest.importorskip("dask.array")
    X, y = rows(rng)
    blocks = dask_array.from_array(X.assign(const=3.5).to_numpy(), chunks=(20, 3))
    with pytest.warns(UserWarning, match="column 2 is 3.5 in every row"):
        BayesianGLMRegressor().fit(blocks, dask_array.from_array(y, chunks=20))
