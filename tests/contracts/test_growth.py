"""Fits that go on with many more rows than those that they began among."""

from __future__ import annotations

import warnings

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone

from sksvi import BernoulliMixture, GeneralizedPMF
from sksvi.decomposition import BetaProcessFA, GammaFactorModel, GammaPoissonFactorization, GammaProcessNMF
from sksvi.mixture import CategoricalMixture

pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")

N, FEW = 400, 20


def bits(rng):
    means = rng.beta(0.3, 0.3, (6, 15))
    return (rng.random((N, 15)) < means[rng.integers(6, size=N)]).astype(float)


def factors(rng):
    loadings = rng.gamma(0.5, 1.0, (4, 12))
    return rng.standard_normal((N, 4)) @ loadings + 0.5 * rng.standard_normal((N, 12))


def counts(rng):
    return rng.poisson(rng.gamma(0.5, 1.0, (N, 4)) @ rng.gamma(0.5, 2.0, (4, 12))).astype(float)


#: Estimators whose components begin among rows, and their rows.
BEGIN = {
    "BernoulliMixture": (BernoulliMixture(20, random_state=0), bits),
    "CategoricalMixture": (
        CategoricalMixture(20, random_state=0),
        lambda rng: pd.DataFrame(bits(rng)).astype(int).astype("category"),
    ),
    "GammaPoissonFactorization": (GammaPoissonFactorization(5, random_state=0), counts),
    "GammaProcessNMF": (GammaProcessNMF(8, random_state=0), counts),
    "BetaProcessFA": (BetaProcessFA(8, max_iter=30, random_state=0), factors),
    "GammaFactorModel": (GammaFactorModel(4, noise_variance="auto", random_state=0), factors),
}


@pytest.mark.costly
@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=[pytest.mark.exhaustive] * (name in ("CategoricalMixture", "GammaProcessNMF")))
        for name in BEGIN
    ],
)
def test_a_warm_fit_to_many_more_rows_begins_anew(name, global_random_seed):
    """What began among twenty rows stayed there, far below a fresh fit, as converged."""
    estimator, rows = BEGIN[name]
    X = rows(np.random.default_rng(global_random_seed))
    warm = clone(estimator).set_params(warm_start=True).fit(X[:FEW])
    passes = warm.n_iter_
    warm.fit(X[:FEW])
    assert warm.n_iter_ >= passes and warm._record.began_among == FEW  # as many rows: it goes on
    warm.fit(X)
    assert warm._record.began_among == N and warm.lower_bound_ == clone(estimator).fit(X).lower_bound_
    # From there on little by little: what counts are the rows that it began among.
    passes = warm.n_iter_
    warm.fit(np.concatenate([X, X[:10]]) if isinstance(X, np.ndarray) else pd.concat([X, X[:10]]))
    assert warm._record.began_among == N and warm.n_iter_ >= passes


@pytest.mark.costly
def test_weights_are_rows_of_what_a_fit_began_among(global_random_seed):
    X = bits(np.random.default_rng(global_random_seed))[:60]
    twice, copies = (BernoulliMixture(8, random_state=0, warm_start=True) for _ in range(2))
    twice.fit(X, sample_weight=np.full(60, 2.0)).fit(X, sample_weight=np.full(60, 5.0))
    copies.fit(np.concatenate([X] * 2)).fit(np.concatenate([X] * 5))
    assert twice._record.began_among == copies._record.began_among == 300


@pytest.mark.costly
def test_a_warm_fit_to_more_ratings_finds_factors_that_fewer_had_lost(global_random_seed):
    """Zero times zero stayed, whatever came, thousands of nats below a fresh fit, as converged."""
    rng = np.random.default_rng(global_random_seed)
    n, left, right = 6000, rng.standard_normal((120, 4)), rng.standard_normal((80, 4))
    X = np.column_stack([rng.integers(0, 120, n), rng.integers(0, 80, n)])
    y = np.sum(left[X[:, 0]] * right[X[:, 1]], axis=1) + 0.7 * rng.standard_normal(n)
    fresh = GeneralizedPMF(8, random_state=0).fit(X[:5000], y[:5000])
    warm = GeneralizedPMF(8, random_state=0, warm_start=True).fit(X[:400], y[:400])
    assert np.abs(warm.item_factors_).max() < 0.5 * np.abs(right).mean()
    warm.fit(X[:5000], y[:5000])
    assert warm.score(X[5000:], y[5000:]) > fresh.score(X[5000:], y[5000:]) - 0.02
    assert warm.lower_bound_ > fresh.lower_bound_ - 0.005 * abs(fresh.lower_bound_)
    # Factors that were found stay where they are, and the ratings of before bring none back.
    found = warm.item_factors_
    warm.fit(X[:5000], y[:5000])
    np.testing.assert_allclose(np.abs(warm.item_factors_), np.abs(found), atol=0.05)


@pytest.mark.costly
def test_a_mixture_says_that_its_stream_makes_no_components_beyond_a_fit_to_few_rows(global_random_seed):
    X = bits(np.random.default_rng(global_random_seed))[:140]
    model = BernoulliMixture(20, random_state=0).fit(X[:FEW])
    told = []
    for first in range(FEW, len(X), 10):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            model.partial_fit(X[first : first + 10])
        told.append([str(w.message) for w in caught])
    assert [bool(texts) for texts in told] == [number == 1 for number in range(len(told))]
    assert "began among the 20 rows of a fit" in told[1][0] and "warm_start=True" in told[1][0]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        stream = BernoulliMixture(20, random_state=0)
        for first in range(0, len(X), 20):
            stream.partial_fit(X[first : first + 20])
