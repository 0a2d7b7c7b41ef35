"""Factors of rows in partitions: the same fit as of the same rows in memory."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from sklearn.base import clone

import sksvi
from sksvi import BetaProcessFA, GammaFactorModel, GammaPoissonFactorization, GammaProcessNMF
from sksvi.decomposition import _gamma_fit
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


def holes(X, rows):
    """X with missing cells, among them a column that some partitions have nothing of."""
    X = X.copy()
    X[::11, 3] = np.nan
    X[:rows, 5] = np.nan
    return X


NMF = {"n_components": 5, "batch_size": None, "max_iter": 4, "random_state": 0}
BPFA = {"n_components": 5, "batch_size": None, "max_iter": 5, "random_state": 0, "algorithm": "cvi"}


def same(model, here, apart, score=True):
    found, wanted = clone(model).fit(apart), clone(model).fit(here)
    np.testing.assert_allclose(found.lower_bounds_, wanted.lower_bounds_, rtol=1e-9)
    np.testing.assert_allclose(found.components_, wanted.components_, rtol=1e-6, atol=1e-9)
    np.testing.assert_allclose(found.transform(apart).compute(), wanted.transform(here), rtol=1e-5, atol=1e-8)
    assert found.score(apart) == pytest.approx(wanted.score(here), rel=1e-8)
    return found


@pytest.mark.costly
@pytest.mark.parametrize(
    "model",
    [GammaProcessNMF(**NMF), GammaPoissonFactorization(**NMF), GammaPoissonFactorization(**{**NMF, "init": "rows"})],
    ids=["process", "poisson", "rows"],
)
def test_same_fit_of_counts(model, counts, monkeypatch):
    same(model, holes(counts, 60), chunked(holes(counts, 60)))
    starts = {name: (start, 30) for name, (start, _) in _gamma_fit.STARTS.items()}  # few rows of many
    monkeypatch.setattr(_gamma_fit, "STARTS", starts)
    same(clone(model).set_params(max_iter=2), counts, chunked(counts))


def test_same_fit_of_sparse_counts(counts):
    model = GammaProcessNMF(**{**NMF, "init": "random", "prior_mean": 2.0})
    same(model, sp.csr_matrix(counts), chunked(counts).map_blocks(sp.csr_matrix))


def test_given_components(counts):
    init = np.random.default_rng(2).gamma(1.0, 1.0, (5, 12))
    same(GammaProcessNMF(**{**NMF, "init": init}), counts, chunked(counts))


def test_tight_bound_is_drawn_from_the_same_numbers(counts):
    model = GammaPoissonFactorization(3, bound="tight", batch_size=None, max_iter=8, tol=1e-1, random_state=0)
    one = model.fit(chunked(counts)).components_
    with dask.config.set(scheduler="threads", num_workers=2):
        np.testing.assert_array_equal(model.fit(chunked(counts)).components_, one)


@pytest.mark.parametrize(("local_step", "init"), [("mean-field", "random"), ("spike-slab", "data")])
def test_same_fit_of_sparse_factors(measured, local_step, init):
    model = BetaProcessFA(**{**BPFA, "local_step": local_step, "init": init, "noise": "columns"})
    found = same(model, holes(measured, 60), chunked(holes(measured, 60)))
    wanted = clone(model).fit(holes(measured, 60))
    np.testing.assert_allclose(found.mean_, wanted.mean_, rtol=1e-12)
    assert found.scale_ == pytest.approx(wanted.scale_, rel=1e-12)


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


@pytest.mark.parametrize("batch_size", [None, 30])
@pytest.mark.parametrize(
    "model", [BetaProcessFA(5, max_iter=2, random_state=0), GammaProcessNMF(5, max_iter=2, random_state=0)]
)
def test_draws_are_the_same_bits_for_any_scheduler(model, counts, batch_size):
    model = clone(model).set_params(algorithm="mc-ssvi", batch_size=batch_size)
    one = model.fit(chunked(counts)).components_
    with dask.config.set(scheduler="threads", num_workers=2):
        np.testing.assert_array_equal(model.fit(chunked(counts)).components_, one)


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


def test_partitions_are_a_stream(counts, measured):
    models = [GammaProcessNMF(4, random_state=0), GammaPoissonFactorization(4, random_state=0)]
    models += [BetaProcessFA(4, random_state=0), GammaFactorModel(2, noise_variance="auto", random_state=0)]
    for model in models:
        X = counts if "Gamma" in type(model).__name__ and not hasattr(model, "fit_mean") else measured
        here, apart = clone(model).partial_fit(X[:75]).partial_fit(X[75:]), clone(model).partial_fit(chunked(X, 75))
        np.testing.assert_array_equal(apart.components_, here.components_)
        assert apart.n_samples_seen_ == 150


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
