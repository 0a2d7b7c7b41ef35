"""Categorical columns of a collection: levels that the type declares, one for missing values where any row has one."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone

from sksvi import BayesianGLMClassifier, BayesianGLMRegressor, GMERegressor

dask = pytest.importorskip("dask", reason="needs the extra dask")
dd = pytest.importorskip("dask.dataframe", reason="needs the extra dask")
#: Where partitions end: of very different sizes, one without rows.
CUTS = [0, 4, 120, 120, 290, 300]
N = 300


def parts(values, cuts=CUTS):
    rows = [dask.delayed(values.iloc[a:b]) for a, b in pairwise(cuts)]
    return dd.from_delayed(rows, meta=values.iloc[:0], verify_meta=False)


def table(seed, missing):
    """A level that no row has, in the first partitions no "c", and in one of them rows without a level."""
    rng = np.random.default_rng(seed)
    city = rng.choice(list("abc"), N).astype(object)
    city[:120][city[:120] == "c"] = "a"
    if missing:
        city[[130, 131, 200]] = None
    X = pd.DataFrame({"w": rng.standard_normal(N), "city": pd.Categorical(city, categories=list("abc"))})
    X["kind"] = pd.Categorical(rng.choice(["x", "y"], N))
    X["year"] = 2000.0 + rng.integers(0, 20, N)
    return X, pd.Series(X["w"] + (city == "c") + 0.1 * X["year"] + 0.3 * rng.standard_normal(N))


def close(found, wanted, rtol=1e-8):
    np.testing.assert_allclose(found, wanted, rtol=rtol, atol=rtol * np.max(np.abs(wanted)))


@pytest.mark.costly
@pytest.mark.parametrize("missing", [True, False])
@pytest.mark.parametrize("prior", ["auto", "flat"])
def test_as_in_memory(prior, missing, global_random_seed):
    X, y = table(global_random_seed, missing)
    model = BayesianGLMRegressor(prior_precision=prior, tol=1e-9)  # roundings decide where a fit ends within its tol
    apart = clone(model).fit(parts(X), parts(y))
    model.fit(X, y)
    assert apart.summary().index.tolist() == model.summary().index.tolist()
    assert ("city_nan" in apart.summary().index) == missing and "city_a" not in apart.summary().index
    every = apart.summary(effects="joint", contrasts="none").index
    assert ("city_nan" in every) == missing and ("city_a" in every) == (prior == "auto")
    close(apart.posterior_["weights"].mean, model.posterior_["weights"].mean)
    close(apart.posterior_["weights"].std, model.posterior_["weights"].std)
    close(apart.lower_bound_, model.lower_bound_)
    close(apart.predict(parts(X)).compute(), model.predict(X))


@pytest.mark.costly
def test_sparse_designs_labels_streams_and_groups(global_random_seed):
    X, y = table(global_random_seed, True)
    many = X.assign(shop=pd.Categorical(np.arange(N) % 25))
    for model, frame, target in (
        (BayesianGLMRegressor(), many, y),
        (BayesianGLMClassifier(), many, y > y.median()),
        (GMERegressor(groups="kind", random_slopes="w", max_iter=20), X, y),
    ):
        for hyperparameters in ("point", "integrated"):
            model.set_params(hyperparameters=hyperparameters)
            apart = clone(model).fit(parts(frame), parts(target))
            model.fit(frame, target)
            assert apart.summary().index.tolist() == model.summary().index.tolist()
            # Axes of two scales of nearly one curvature turn by roundings, and nodes with them.
            close(apart.coef_, model.coef_, 1e-6 if hyperparameters == "point" else 1e-4)
    model, weight = BayesianGLMRegressor(warm_start=True), pd.Series(1.0 + np.arange(N) % 2)
    model.fit(parts(X), parts(y), sample_weight=parts(weight))
    begun = model.predict(X)
    close(model.fit(parts(X), parts(y), sample_weight=parts(weight)).predict(X), begun, 1e-4)
    X, y = table(global_random_seed, False)
    stream, chunks = BayesianGLMRegressor().partial_fit(parts(X), parts(y)), BayesianGLMRegressor()
    for a, b in pairwise(sorted(set(CUTS))):
        chunks.partial_fit(X.iloc[a:b], y.iloc[a:b])
    np.testing.assert_array_equal(stream.coef_, chunks.coef_)


def test_levels_that_are_not_known_are_an_error(global_random_seed):
    X, y = table(global_random_seed, True)
    for given in (X.assign(city=X["city"].astype(object)), X.assign(zone=np.arange(N) % 3)):
        model = BayesianGLMRegressor(categorical_features=["zone"] if "zone" in given else "from_dtype")
        with pytest.raises(ValueError, match=r"column '(city|zone)' of X has levels .*X\.categorize"):
            model.fit(parts(given), parts(y))
        assert not hasattr(model, "coef_")
    own = [X.iloc[a:b].assign(city=X["city"].iloc[a:b].cat.remove_unused_categories()) for a, b in pairwise(CUTS)]
    open_end = dd.from_delayed([dask.delayed(part) for part in own], meta=X.iloc[:0], verify_meta=False)
    with pytest.raises(ValueError, match=r"partitions of X have categorical columns.*X\.categorize"):
        BayesianGLMRegressor().fit(open_end, parts(y))
    text = dd.from_pandas(X.assign(city=X["city"].astype(str)), npartitions=3).categorize(columns=["city"])
    known = BayesianGLMRegressor().fit(text, dd.from_pandas(y, npartitions=3))
    assert "city_c" in known.summary().index
