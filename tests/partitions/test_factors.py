"""Factors of rows in partitions: what all rows say of units and precisions, frames, what is refused."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone

import sksvi
from sksvi import BetaProcessFA, GammaFactorModel, GammaPoissonFactorization, GammaProcessNMF
from sksvi.decomposition._beta_process_encoding import Units

dask = pytest.importorskip("dask", reason="needs the extra dask")
da = pytest.importorskip("dask.array", reason="needs the extra dask")
dd = pytest.importorskip("dask.dataframe", reason="needs the extra dask")

pytestmark = [
    pytest.mark.usefixtures("local_scheduler"),
    pytest.mark.filterwarnings("ignore:.* did not converge in max_iter"),
]


@pytest.fixture(scope="module")
def counts():
    rng = np.random.default_rng(0)
    found = rng.poisson(3.0 * rng.gamma(0.5, 1.0, (150, 3)) @ rng.gamma(0.5, 1.0, (3, 12))).astype(float)
    found[[5, 90]] = 0.0
    return found


@pytest.fixture(scope="module")
def measured():
    rng = np.random.default_rng(1)
    found = rng.standard_normal((150, 3)) @ rng.gamma(0.5, 1.0, (3, 8)) + 0.5 * rng.standard_normal((150, 8)) + 4.0
    return found


def chunked(values, size=60):
    return da.from_array(values, chunks=(size, values.shape[1]))


NMF = {"n_components": 5, "batch_size": None, "max_iter": 4, "random_state": 0}
BPFA = {"n_components": 5, "batch_size": None, "max_iter": 5, "random_state": 0, "algorithm": "cvi"}


@pytest.mark.parametrize(("columns", "precision"), [(40, 1.0), (41, "learned")])
def test_all_rows_say_whether_weights_have_a_known_precision(columns, precision):
    X = np.random.default_rng(0).standard_normal((60, columns))
    fits = [BetaProcessFA(**{**BPFA, "weight_precision": value}).fit(chunked(X)) for value in ("auto", precision)]
    np.testing.assert_array_equal(*(model.components_ for model in fits))


def test_units_add_up():
    """Of rows of any magnitude, and of rows that have nothing."""
    rng = np.random.default_rng(3)
    X = rng.standard_normal((40, 3)) * [1.0, 1e3, 1e-3] + [0.0, 5.0, 1.0]
    X[:10] = np.nan
    X[10:20] = 0.0
    for unit in (1.0, 1e150, 1e-140):
        parts = [Units.of(unit * X[i : i + 10]) for i in range(0, 40, 10)]
        for order in (parts, parts[::-1]):
            merged = order[0]
            for part in order[1:]:
                merged = merged.merged(part)
            mean, scale = merged.of_fit()
            np.testing.assert_allclose(mean / unit, np.nanmean(X, 0), rtol=1e-12)
            assert scale / unit == pytest.approx(np.sqrt(np.nanmean(np.square(X - np.nanmean(X, 0)))), rel=1e-12)


@pytest.mark.parametrize("noise", ["auto", 0.5])
def test_gamma_factors_know_the_scatter_of_all_rows(measured, noise):
    """Their search ends a little elsewhere where the scatter is rounded otherwise, as that of the rows in reverse."""
    model = GammaFactorModel(2, noise_variance=noise, max_iter=10, random_state=0)
    here, apart = clone(model).fit(measured), clone(model).fit(chunked(measured))
    np.testing.assert_allclose(apart.mean_, here.mean_, rtol=1e-13)
    np.testing.assert_allclose(apart.scale_, here.scale_, rtol=1e-12)
    np.testing.assert_allclose(
        apart._encoding.scatter.products, here._encoding.scatter.products, rtol=1e-10, atol=1e-10
    )
    assert apart.n_samples_seen_ == 150
    assert apart.lower_bound_ == pytest.approx(here.lower_bound_, rel=1e-4)
    assert apart.score(chunked(measured)) == pytest.approx(apart.score(measured), rel=1e-12)
    np.testing.assert_array_equal(apart.transform(chunked(measured)).compute(), apart.transform(measured))


def test_frames(counts, tmp_path):
    frame = pd.DataFrame(counts.astype(np.float32), columns=[f"c{j}" for j in range(12)], index=np.arange(150) * 2)
    rows = dd.from_pandas(frame, npartitions=3)
    for model in (GammaProcessNMF(**NMF), GammaPoissonFactorization(**NMF), BetaProcessFA(**BPFA)):
        model.set_params(max_iter=3).fit(rows)
        assert list(model.feature_names_in_) == list(frame.columns) and model.components_.dtype == np.float32
        found = model.transform(rows)
        assert list(found.columns) == list(model.get_feature_names_out())
        assert list(found.compute().index) == list(frame.index)
        np.testing.assert_array_equal(found.compute(), model.transform(frame))
        model.save(tmp_path / "model")
        np.testing.assert_array_equal(sksvi.load(tmp_path / "model").transform(frame), model.transform(frame))


def test_bad_input(counts, measured):
    bad = counts.copy()
    bad[50, 2] = -1.0
    model = GammaProcessNMF()
    with pytest.raises(ValueError, match=r"partition 0: .*column 2 of X has -1 in row 50"):
        model.fit(chunked(bad))
    assert vars(model) == vars(GammaProcessNMF())
    nothing = measured.copy()
    nothing[:, 3] = np.nan
    with pytest.raises(ValueError, match="column 3 of X has no observed entry"):
        BetaProcessFA(3).fit(chunked(nothing))
    with pytest.raises(ValueError, match="algorithm='gibbs' draws for every row in turn"):
        BetaProcessFA(3, algorithm="gibbs").fit(chunked(measured))
    with pytest.raises(ValueError, match=r"partition 2: .*column 3 of X, every row: .*NaN"):
        GammaFactorModel(2).fit(chunked(np.where(np.arange(150)[:, None] < 120, measured, nothing)))
    with pytest.warns(UserWarning, match="X has fractions"):
        GammaPoissonFactorization(3, max_iter=4).fit(chunked(counts / 40.0))
