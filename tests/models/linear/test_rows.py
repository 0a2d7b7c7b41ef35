"""f = A w + e: dense and sparse rows against naive formulas, and the subspace of wide designs."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp

from sksvi._runtime import parallel
from sksvi.families import DiagonalGaussian, Gaussian, ProjectedGaussian
from sksvi.models.data import Table
from sksvi.models.linear.rows import (
    DenseRows,
    SparseRows,
    design,
    informed_subspace,
    project,
    project_mean,
    pull_back,
    row_slices,
    stays_sparse,
)
from tests.cases import data_for, flat_moments, latent_moments, model_for, rows_of

INTERCEPT = pytest.mark.parametrize("intercept", [True, False], ids=["intercept", "no intercept"])
FULL = pytest.mark.parametrize("full", [True, False], ids=["full", "diag"])
ROWS = {
    "dense": (DenseRows, np.float64),
    "dense, float32": (DenseRows, np.float32),
    "dense from sparse": (lambda X, intercept: DenseRows(sp.csr_array(X), intercept), np.float64),
    "sparse": (lambda X, intercept: SparseRows(sp.csr_array(X), intercept), np.float64),
    "sparse matrix": (lambda X, intercept: SparseRows(sp.csr_matrix(X), intercept), np.float64),
    "sparse, float32": (lambda X, intercept: SparseRows(sp.csr_array(X), intercept), np.float32),
}
FORMS = pytest.mark.parametrize("form", ROWS)


def sparse_like(n, d, seed):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, d)) * (rng.random((n, d)) < 0.4)
    X[3] = 0.0  # an empty row
    X[:, 2] = 0.0  # an empty column
    return X


def block(shape, full, seed):
    rng = np.random.default_rng(seed)
    if not full:
        return DiagonalGaussian(rng.standard_normal(shape), rng.uniform(0.5, 3.0, shape))
    factor = rng.standard_normal((*shape, shape[-1]))
    return Gaussian(rng.standard_normal(shape), factor @ np.swapaxes(factor, -1, -2) + np.eye(shape[-1]))


def setting(form, intercept, seed, n=23, d=6):
    """Rows in this form, the same rows as a float64 array, and what rounding allows."""
    make, dtype = ROWS[form]
    X = sparse_like(n, d, seed).astype(dtype)
    A = np.column_stack([X, np.ones(n)]) if intercept else X
    return make(X, intercept), A.astype(float), 1e-10 if dtype == np.float64 else 2e-5


@FORMS
@INTERCEPT
@FULL
@pytest.mark.parametrize("plates", [(), (3,)], ids=["one", "plates"])
def test_project_against_naive(form, intercept, full, plates, global_random_seed):
    rows, A, tolerance = setting(form, intercept, global_random_seed)
    for q in (block((*plates, A.shape[1]), full, global_random_seed), block((*plates, A.shape[1]), full, 1).standard()):
        m, v = project(rows, q)
        np.testing.assert_allclose(m, A @ q.mean.T, rtol=tolerance, atol=10 * tolerance)
        wanted = np.einsum("ij,...jk,ik->i...", A, q.cov, A)
        np.testing.assert_allclose(v, wanted, rtol=10 * tolerance, atol=tolerance)
        np.testing.assert_array_equal(m, project_mean(rows, q.mean))


@FORMS
@INTERCEPT
def test_many_weights_at_once(form, intercept, global_random_seed):
    """In double precision, whatever the rows are in."""
    rows, A, _ = setting(form, intercept, global_random_seed)
    W = np.random.default_rng(global_random_seed).standard_normal((5, A.shape[1]))
    np.testing.assert_allclose(rows.dots(W), A @ W.T, rtol=1e-12, atol=1e-12)


@FORMS
@INTERCEPT
@FULL
@pytest.mark.parametrize("sign", ["negative", "positive", "mixed", "zero"])
@pytest.mark.parametrize("plates", [(), (3,)], ids=["one", "plates"])
def test_pull_back_against_naive(form, intercept, full, sign, plates, global_random_seed):
    rows, A, tolerance = setting(form, intercept, global_random_seed)
    rng = np.random.default_rng(global_random_seed)
    alpha, gamma = rng.standard_normal((2, len(A), *plates))
    gamma = {"negative": -np.abs(gamma), "positive": np.abs(gamma), "mixed": gamma, "zero": 0 * gamma}[sign]
    g, h = pull_back(rows, alpha, gamma, full)
    assert g.dtype == h.dtype == np.float64
    wanted = np.einsum("n...,nj->...j", alpha, A)
    np.testing.assert_allclose(g, wanted, rtol=tolerance, atol=10 * tolerance)
    wanted = np.einsum("n...,nj,nk->...jk", gamma, A, A)
    wanted = wanted if full else np.diagonal(wanted, axis1=-2, axis2=-1)
    np.testing.assert_allclose(h, wanted, rtol=tolerance, atol=20 * tolerance)
    if full:
        np.testing.assert_array_equal(h, np.swapaxes(h, -1, -2))


@FORMS
def test_rows_leave_their_input_alone(form, global_random_seed):
    rows, A, _ = setting(form, True, global_random_seed)
    q = block((A.shape[1],), True, 0)
    first = project(rows, q)
    pull_back(rows, np.ones(len(A)), -np.ones(len(A)), True)
    for a, b in zip(first, project(rows, q), strict=True):
        np.testing.assert_array_equal(a, b)


def test_when_a_design_stays_sparse():
    thin, thick = (sp.random(50, 400, density=share, random_state=0) for share in (0.01, 0.5))
    assert stays_sparse(thin.tocsr(), True)
    assert not stays_sparse(thick.tocsr(), True)
    assert stays_sparse(thick.tocsr(), False)
    assert not stays_sparse(thin.toarray(), False)
    assert isinstance(design(thin.tocsr(), True, True), SparseRows)
    assert isinstance(design(thin.tocsr(), True, False), DenseRows)


@pytest.mark.parametrize("full", [True, False])
@pytest.mark.parametrize("sparse", [True, False])
def test_row_slices_cover_a_segment(full, sparse):
    data = Table(np.zeros((20_000, 100)), np.zeros(20_000))
    whole = row_slices(slice(0, 20_000), data, 100, sparse, full)
    np.testing.assert_array_equal(np.concatenate([np.arange(20_000)[part] for part in whole]), np.arange(20_000))
    rows = np.sort(np.random.default_rng(0).permutation(20_000)[:9000])
    np.testing.assert_array_equal(np.concatenate(row_slices(rows, data, 100, sparse, full)), rows)
    if not sparse:
        assert len(whole) == -(-20_000 // parallel.chunk_rows(100, full))


# ---- wide designs
@pytest.mark.parametrize("form", ["dense", "sparse"])
@pytest.mark.parametrize("twins", [False, True], ids=["full rank", "repeated rows"])
def test_informed_subspace_reproduces_f(form, twins, global_random_seed):
    rng = np.random.default_rng(global_random_seed)
    X = sparse_like(12, 30, global_random_seed) + (0.0 if form == "sparse" else 1.0)
    if twins:
        X[6:] = X[:6]
    scale = rng.uniform(0.3, 2.0, 30)
    L, B = informed_subspace(sp.csr_array(X) if form == "sparse" else X, scale)
    np.testing.assert_allclose(L.shape[1], np.linalg.matrix_rank(X * scale))
    np.testing.assert_allclose(B.T @ B, np.eye(B.shape[1]), atol=1e-6 if form == "sparse" else 1e-10)
    u = rng.standard_normal((30, 5))
    np.testing.assert_allclose(L @ (B.T @ u), X @ (scale[:, None] * u), atol=1e-6 if form == "sparse" else 1e-10)


def test_informed_subspace_of_nothing_but_zeros():
    L, B = informed_subspace(np.zeros((3, 5)), np.ones(5))
    assert L.shape == (3, 0)
    assert B.shape == (5, 0)


@INTERCEPT
@pytest.mark.parametrize("form", ["dense", "sparse"])
def test_rows_see_a_projected_block_as_its_dense_twin(intercept, form, global_random_seed):
    rows, A, _ = setting(form, intercept, global_random_seed, n=9, d=20)
    scale = np.random.default_rng(0).uniform(0.5, 2.0, 20)
    _, basis = informed_subspace(A[:4, :20], scale)
    q = ProjectedGaussian(scale, basis, block((basis.shape[1] + intercept,), True, 3), 0.7)
    m, v = project(rows, q)
    wanted = latent_moments(q.dense().mean, q.dense().cov, A)
    np.testing.assert_allclose(m, wanted[0], atol=1e-9)
    np.testing.assert_allclose(v, wanted[1], atol=1e-9)


# ---- the model's own use of it
@FULL
@pytest.mark.parametrize("name", ["poisson", "softmax"])
def test_terms_and_predictions_agree(name, full):
    data = data_for(name, offset=True)
    model = model_for(name, data, full)
    q = model.begin(data, None)
    weights = model.exposed(q["weights"])
    m, v = latent_moments(*flat_moments(weights), rows_of(model, data), data.offset)
    if v.ndim == 3 and not full:  # classes are independent: their variances say it all
        np.testing.assert_allclose(v, v * np.eye(v.shape[1]), atol=1e-12)
        v = np.einsum("nkk->nk", v)
    found = model.predict_latent(weights, data.X, data.offset)
    np.testing.assert_allclose(found[0], m, rtol=1e-10, atol=1e-12)
    np.testing.assert_allclose(found[1], v, rtol=1e-8, atol=1e-12)
    batch = model.batch(data, np.array([5, 1, 7]))
    np.testing.assert_allclose(model.latent_variance(q, batch), v[[5, 1, 7]], rtol=1e-8, atol=1e-12)


@pytest.mark.parametrize("share", [0.0, 0.3, 0.7, 1.0])
def test_the_gram_matrix_of_rows_that_count_by_either_sign(share, global_random_seed):
    rng = np.random.default_rng(global_random_seed)
    A, gamma = rng.standard_normal((50, 4)), rng.uniform(0.1, 2.0, 50)
    gamma[rng.permutation(50)[: int(50 * (1.0 - share))]] *= -1.0
    np.testing.assert_allclose(DenseRows.of(A).gram(gamma, True), (A.T * gamma) @ A, atol=1e-12)
