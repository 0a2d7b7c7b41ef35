"""Designs with effects per level against the dense design that they stand for."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.special import expit

from sksvi._runtime import parallel
from sksvi.algorithms import resolve
from sksvi.algorithms.steps import natural_step
from sksvi.expectations import Auto
from sksvi.families import DiagonalGaussian, Gaussian, ProjectedGaussian
from sksvi.families.gaussian.arrow import ArrowGaussian, ArrowMatrix
from sksvi.inference import plan
from sksvi.inference.start import first_state
from sksvi.likelihoods import Bernoulli
from sksvi.models.data import Table
from sksvi.models.linear.glm import LinearModel
from sksvi.models.linear.rows import DenseRows, design, project, pull_back, row_slices, stays_sparse
from sksvi.models.mixed.levels import GROUPED_ROWS, GroupedDesign, GroupedRows

N = 61
#: Fixed columns, their form, levels, coordinates per level (0: no values given), the arrow's factor.
CASES = {
    "one factor": (2, "dense", (7,), (0,), 0),
    "one factor, no arrow": (2, "dense", (7,), (0,), None),
    "crossed, arrow first": (2, "dense", (9, 5, 3), (0, 0, 1), 0),
    "crossed, arrow in the middle": (1, "dense", (4, 9, 3), (0, 0, 0), 1),
    "crossed, arrow last": (3, "dense", (4, 3, 8), (0, 1, 0), 2),
    "slopes on the arrow": (2, "dense", (8, 5), (2, 0), 0),
    "slopes on both": (2, "dense", (5, 8), (3, 2), 1),
    "slopes, no arrow": (2, "dense", (5, 6), (2, 0), None),
    "no fixed columns": (0, "dense", (6, 3), (0, 2), 0),
    "sparse columns": (40, "sparse", (8, 5), (2, 0), 0),
    "sparse columns, no arrow": (40, "sparse", (8, 5), (2, 0), None),
    "many non-zeros": (6, "thick", (4, 7), (0, 2), 1),
    "float32": (3, "float32", (8, 5), (2, 0), 0),
}
CASE = pytest.mark.parametrize("case", CASES)
INTERCEPT = pytest.mark.parametrize("intercept", [True, False], ids=["intercept", "no intercept"])


def fixed_columns(d, form, rng):
    X = rng.standard_normal((N, d))
    if form == "float32":
        return X.astype(np.float32)
    if form == "dense":
        return X
    return sp.csr_array(X * (rng.random((N, d)) < (0.03 if form == "sparse" else 0.7)))


def naive(X, codes, values, levels, intercept):
    """The design matrix, entry by entry."""
    columns = [X.toarray() if sp.issparse(X) else X]
    for f, n_levels in enumerate(levels):
        value = np.ones((len(codes), 1)) if values[f] is None else values[f]
        block = np.zeros((len(codes), n_levels * value.shape[1]))
        for i, level in enumerate(codes[:, f]):
            for k in range(value.shape[1]):
                if level >= 0:
                    block[i, level * value.shape[1] + k] = value[i, k]
        columns.append(block)
    return np.column_stack([*columns, *([np.ones(len(codes))] if intercept else [])]).astype(float)


def setting(case, seed, intercept=True):
    """The design, the same as an array, and what rounding allows."""
    d, form, levels, effects, arrow = CASES[case]
    rng = np.random.default_rng(seed)
    X = fixed_columns(d, form, rng)
    codes = np.column_stack([rng.integers(-1, count, N) for count in levels]).astype(np.int32)
    codes[:3] = -1  # rows without any level
    values = tuple(rng.standard_normal((N, r)) if r else None for r in effects)
    tolerance = 2e-5 if form == "float32" else 1e-10
    design = GroupedDesign(X, codes, values, levels, arrow, expanded=False)
    return design, naive(X, codes, values, levels, intercept), tolerance


def dense_of(matrix):
    return matrix.dense() if isinstance(matrix, ArrowMatrix) else matrix


def arrow_block(rows, A, seed):
    """A posterior that data with this design could have."""
    rng = np.random.default_rng(seed)
    like = rows.gram(-rng.uniform(0.1, 1.0, len(A)), True)
    p = A.shape[1]
    return ArrowGaussian(rng.standard_normal(p), ArrowMatrix.of_diagonal(rng.uniform(0.5, 2.0, p), like) - 2.0 * like)


def blocks_for(rows, A, seed):
    """A q of each kind that rows meet."""
    rng = np.random.default_rng(seed)
    p = A.shape[1]
    factor = rng.standard_normal((p, p))
    full = Gaussian(rng.standard_normal(p), factor @ factor.T / p + np.eye(p))
    diagonal = DiagonalGaussian(rng.standard_normal(p), rng.uniform(0.5, 3.0, p))
    arrow = [arrow_block(rows, A, seed)] if rows.design.arrow is not None else []
    return [full, full.standard(), diagonal, diagonal.standard(), *arrow]


@pytest.mark.parametrize("case", [name for name, setting in CASES.items() if setting[4] is None])
def test_small_designs_are_expanded(case, global_random_seed):
    """With a column per level the verbs say the same, and rows of a design are treated as the whole is."""
    X, A, tolerance = setting(case, global_random_seed)
    small = GroupedDesign(X.X, X.codes, X.values, X.levels)
    assert isinstance(small.rows(True), DenseRows) and isinstance(small[:5].rows(True), DenseRows)
    assert isinstance(X[:5].rows(True), GroupedRows)
    gamma = np.random.default_rng(global_random_seed).standard_normal(N)
    q = blocks_for(X.rows(True), A, global_random_seed)[0]
    np.testing.assert_allclose(small.rows(True).gram(gamma, True), X.rows(True).gram(gamma, True), atol=tolerance * 1e3)
    np.testing.assert_allclose(small.rows(True).spread(q), X.rows(True).spread(q), rtol=tolerance * 1e3)


@CASE
@INTERCEPT
def test_many_weights_at_once(case, intercept, global_random_seed):
    X, A, _ = setting(case, global_random_seed, intercept)
    W = np.random.default_rng(global_random_seed).standard_normal((5, A.shape[1]))
    np.testing.assert_allclose(X.rows(intercept).dots(W), A @ W.T, rtol=1e-12, atol=1e-12)


@CASE
@INTERCEPT
def test_design_against_naive(case, intercept, global_random_seed):
    X, A, _ = setting(case, global_random_seed, intercept)
    assert X.shape == (N, A.shape[1] - intercept)
    assert len(X) == N
    np.testing.assert_array_equal(X.rows(intercept).dense(), A)
    for rows in (slice(5, 20), slice(0, None, 7), np.array([30, 2, 2, 59])):
        np.testing.assert_array_equal(X[rows].rows(intercept).dense(), A[rows])
        assert X[rows].shape == (len(A[rows]), X.shape[1])
        assert X[rows].sparse == X.sparse
    assert X.starts[0] == CASES[case][0]
    assert X.starts[-1] == X.shape[1]


@CASE
@INTERCEPT
def test_project_against_naive(case, intercept, global_random_seed):
    X, A, tolerance = setting(case, global_random_seed, intercept)
    rows = X.rows(intercept)
    for q in blocks_for(rows, A, global_random_seed):
        m, v = project(rows, q)
        np.testing.assert_allclose(m, A @ q.mean, rtol=tolerance, atol=10 * tolerance)
        np.testing.assert_allclose(v, np.einsum("ij,jk,ik->i", A, q.cov, A), rtol=10 * tolerance, atol=tolerance)
        assert v.dtype == np.float64
    S = np.random.default_rng(0).standard_normal((A.shape[1],) * 2)
    S = S + S.T
    np.testing.assert_allclose(rows.form(S), np.einsum("ij,jk,ik->i", A, S, A), rtol=1e-4, atol=100 * tolerance)


@CASE
@INTERCEPT
@pytest.mark.parametrize("sign", ["negative", "mixed", "zero"])
def test_pull_back_against_naive(case, intercept, sign, global_random_seed):
    X, A, tolerance = setting(case, global_random_seed, intercept)
    rows = X.rows(intercept)
    rng = np.random.default_rng(global_random_seed)
    alpha, gamma = rng.standard_normal((2, N))
    gamma = {"negative": -np.abs(gamma), "mixed": gamma, "zero": 0 * gamma}[sign]
    wanted = (A.T * gamma) @ A
    g, curvature = pull_back(rows, alpha, gamma, True)
    assert isinstance(curvature, ArrowMatrix) == (X.arrow is not None)
    np.testing.assert_allclose(g, alpha @ A, rtol=tolerance, atol=10 * tolerance)
    found = dense_of(curvature)
    np.testing.assert_allclose(found, wanted, rtol=tolerance, atol=20 * tolerance)
    np.testing.assert_array_equal(found, found.T)
    g, diagonal = pull_back(rows, alpha, gamma, False)
    np.testing.assert_allclose(diagonal, np.diagonal(wanted), rtol=tolerance, atol=20 * tolerance)
    assert g.dtype == diagonal.dtype == found.dtype == np.float64


@CASE
def test_rows_leave_their_input_alone(case, global_random_seed):
    X, A, _ = setting(case, global_random_seed)
    rows = X.rows(True)
    q = blocks_for(rows, A, 0)[-1]
    first = project(rows, q)
    pull_back(rows, np.ones(N), -np.ones(N), True)
    for a, b in zip(first, project(rows, q), strict=True):
        np.testing.assert_array_equal(a, b)
    np.testing.assert_array_equal(X.rows(True).dense(), A)


def test_rows_see_a_projected_block_as_its_dense_twin(global_random_seed):
    X, A, _ = setting("crossed, arrow first", global_random_seed)
    rng = np.random.default_rng(0)
    d = A.shape[1] - 1
    basis = np.linalg.qr(rng.standard_normal((d, 4)))[0]
    inner = Gaussian(rng.standard_normal(5), np.diag(rng.uniform(1.0, 2.0, 5)))
    q = ProjectedGaussian(rng.uniform(0.5, 2.0, d), basis, inner, 0.7)
    m, v = project(X.rows(True), q)
    np.testing.assert_allclose(m, A @ q.mean, atol=1e-10)
    np.testing.assert_allclose(v, np.einsum("ij,jk,ik->i", A, q.cov, A), atol=1e-10)


def test_classes_see_the_same_rows(global_random_seed):
    X, A, _ = setting("slopes on the arrow", global_random_seed)
    rng = np.random.default_rng(global_random_seed)
    p = A.shape[1]
    factor = rng.standard_normal((2 * p, 2 * p))
    cov = (factor @ factor.T).reshape(2, p, 2, p).transpose(0, 2, 1, 3)
    mean = rng.standard_normal((2, p))
    m, v = X.rows(True).classes(mean, cov)
    np.testing.assert_allclose(m, A @ mean.T, atol=1e-10)
    np.testing.assert_allclose(v, np.einsum("ij,kljm,im->ikl", A, cov, A), rtol=1e-9, atol=1e-9)


def test_a_posterior_of_another_layout_is_refused(global_random_seed):
    X, A, _ = setting("crossed, arrow first", global_random_seed)
    q = arrow_block(X.rows(True), A, 0)
    other = GroupedDesign(X.X, X.codes, X.values, X.levels, 1)
    with pytest.raises(ValueError, match="does not fit a design"):
        other.rows(True).spread(q)


def test_a_code_beyond_the_levels_is_refused():
    with pytest.raises(ValueError, match="factor 1 go up to 3, beyond its 3 levels"):
        GroupedDesign(np.ones((2, 1)), np.array([[0, 3], [1, 2]], np.int32), (None, None), (2, 3))


# ---- where the library meets it
def test_dispatch(global_random_seed):
    X, A, _ = setting("crossed, arrow first", global_random_seed)
    assert not stays_sparse(X, True)
    assert isinstance(design(X, True, False), GroupedRows)
    part = Table(X, np.zeros(N)).take(slice(3, 9))
    np.testing.assert_array_equal(design(part.X, True, False).dense(), A[3:9])
    assert len(part) == 6


@pytest.mark.parametrize("levels", [(30,), (2000, 600)], ids=["small", "large"])
def test_row_slices_cover_a_segment(levels):
    n = 40_000
    X = GroupedDesign(np.ones((n, 1)), np.zeros((n, len(levels)), np.int32), (None,) * len(levels), levels, 0)
    data = Table(X, np.zeros(n))
    parts = row_slices(slice(0, n), data, X.shape[1] + 1, False, True)
    np.testing.assert_array_equal(np.concatenate([np.arange(n)[part] for part in parts]), np.arange(n))
    assert parts[0].stop == GROUPED_ROWS * (1 if len(levels) == 1 else 2)
    rows = np.sort(np.random.default_rng(0).permutation(n)[:30_000])
    np.testing.assert_array_equal(np.concatenate(row_slices(rows, data, 31, False, True)), rows)


def test_blocks_add_up_to_the_same_bits_for_any_number_of_threads(global_random_seed):
    X, A, _ = setting("slopes on the arrow", global_random_seed)
    gamma = -np.random.default_rng(global_random_seed).uniform(0.1, 1.0, N)

    def gram(threads):
        one = parallel.in_order(lambda part: X[part].rows(True).gram(gamma[part], True), parallel.slices(N, 8), threads)
        return parallel.tree_sum(one)

    once, twice = gram(1), gram(3)
    np.testing.assert_array_equal(once.dense(), twice.dense())
    np.testing.assert_allclose(once.dense(), (A.T * gamma) @ A, rtol=1e-10, atol=1e-10)


def fitted(rows, y, q, prior, n_steps=8):
    """Natural steps of a logistic model with a crude rule: derivatives at the mean of each latent."""
    for _ in range(n_steps):
        m, v = project(rows, q)
        slope = 1.0 / np.sqrt(1.0 + np.pi * v / 8.0)
        p = expit(slope * m)
        q = natural_step(q, prior, pull_back(rows, y - p, -0.5 * slope * p * (1 - p), q.full), 0.7)
    return q


@pytest.mark.parametrize("case", [case for case in CASES if CASES[case][4] is not None and case != "float32"])
def test_a_fit_with_the_arrow_is_the_dense_fit(case, global_random_seed):
    X, A, _ = setting(case, global_random_seed)
    dense = GroupedDesign(X.X, X.codes, X.values, X.levels, expanded=False)
    y = (np.random.default_rng(global_random_seed).random(N) < 0.5).astype(float)
    p = A.shape[1]
    prior = DiagonalGaussian(np.zeros(p), np.full(p, 0.7))
    start = ArrowMatrix.of_diagonal(np.ones(p), X.rows(True).gram(np.zeros(N), True))
    found = fitted(X.rows(True), y, ArrowGaussian(np.zeros(p), start), prior)
    wanted = fitted(dense.rows(True), y, Gaussian(np.zeros(p), np.eye(p)), prior)
    assert isinstance(found, ArrowGaussian)
    np.testing.assert_allclose(found.mean, wanted.mean, rtol=1e-8, atol=1e-9)
    np.testing.assert_allclose(found.std, wanted.std, rtol=1e-8)
    assert found.kl(prior) == pytest.approx(wanted.kl(prior))


@pytest.mark.parametrize(("algorithm", "batch_size"), [("mc-ssvi", None), ("fp", None), ("cvi", 50), ("mc-ssvi", 50)])
@pytest.mark.parametrize("arrow", [0, 1, None])
def test_the_engine_fits_it_as_the_dense_design(algorithm, batch_size, arrow, global_random_seed):
    rng = np.random.default_rng(global_random_seed)
    n, levels = 200, (12, 7)
    codes = np.column_stack([rng.integers(-1, count, n) for count in levels]).astype(np.int32)
    values = (np.column_stack([np.ones(n), rng.standard_normal(n)]), None)
    grouped = GroupedDesign(rng.standard_normal((n, 2)), codes, values, levels, arrow, expanded=False)
    dense = grouped.rows(False).dense()
    y = (rng.random(n) < expit(dense @ rng.standard_normal(dense.shape[1]))).astype(float)
    p = dense.shape[1]
    options = {"intercept_precision": 0.1, "n_features": p, "fit_intercept": True, "full": True}
    model = LinearModel(Bernoulli(), prior_precision=rng.uniform(0.5, 2.0, p), **options)

    def fit(X):
        problem = plan.problem(model, Table(X, y), resolve(algorithm), Auto(), batch_size=batch_size)
        return plan.run(problem, first_state(problem, 0), 10, 1e-8, lambda state: False)

    found, wanted = fit(grouped), fit(dense)
    q, twin = found.q["weights"], wanted.q["weights"]
    assert isinstance(q, ArrowGaussian if arrow is not None else Gaussian)
    assert found.bound == pytest.approx(wanted.bound, rel=1e-9)
    # L-BFGS within `fp` stops at a gradient of 1e-5 in other coordinates.
    tolerance = 1e-3 if algorithm == "fp" else 1e-6
    assert np.all(np.abs(q.mean - twin.mean) <= tolerance * twin.std)
    np.testing.assert_allclose(q.std, twin.std, rtol=tolerance)
    m, v = model.predict_latent(q, grouped[:5])
    wanted_m, wanted_v = model.predict_latent(twin, dense[:5])
    assert np.all(np.abs(m - wanted_m) <= 3 * tolerance * np.sqrt(wanted_v))
    np.testing.assert_allclose(v, wanted_v, rtol=3 * tolerance)


def test_a_gaussian_likelihood_gives_the_exact_posterior_in_one_step(global_random_seed):
    X, A, _ = setting("slopes on both", global_random_seed)
    rng = np.random.default_rng(global_random_seed)
    p, noise, y = A.shape[1], 0.3, rng.standard_normal(N)
    prior = DiagonalGaussian(rng.standard_normal(p), rng.uniform(0.5, 2.0, p))
    q = arrow_block(X.rows(True), A, global_random_seed)
    g = pull_back(X.rows(True), (y - A @ q.mean) / noise, np.full(N, -0.5 / noise), True)
    new = natural_step(q, prior, g, 1.0)
    precision = np.diag(prior.precision) + A.T @ A / noise
    np.testing.assert_allclose(new.precision.dense(), precision, rtol=1e-9, atol=1e-10)
    wanted = np.linalg.solve(precision, prior.precision * prior.mean + A.T @ y / noise)
    np.testing.assert_allclose(new.mean, wanted, rtol=1e-8, atol=1e-10)


def test_thousands_of_crossed_levels(shared_data):
    """Ratings of 1,128 lecturers by 2,972 students of 14 departments: a joint posterior in a few border sizes."""
    import pandas as pd

    table = pd.read_csv(shared_data / "tabular" / "counts" / "lme4_InstEval.csv.xz")
    codes = np.column_stack([pd.factorize(table[name])[0] for name in ("s", "d", "dept")]).astype(np.int32)
    levels = tuple(int(column.max()) + 1 for column in codes.T)
    assert levels == (2972, 1128, 14)
    fixed = np.column_stack([table["service"] == 1, table["studage"] / 8.0]).astype(float)
    X = GroupedDesign(fixed, codes, (None,) * 3, levels, 0)
    n, p = len(table), X.shape[1] + 1
    y = table["y"].to_numpy(float) - table["y"].mean()
    data = Table(X, y)
    prior = DiagonalGaussian(np.zeros(p), np.ones(p))

    def pulled(part):
        return pull_back(X[part].rows(True), y[part], np.full(len(y[part]), -0.5), True)

    X[:1].rows(True).gram(np.ones(1), True)  # compile
    tracemalloc.start()
    with parallel.working():
        gradient = parallel.tree_sum(map(pulled, row_slices(slice(0, n), data, p, False, True)))
        blank = ArrowGaussian(np.zeros(p), ArrowMatrix.of_diagonal(prior.precision, gradient[1]))
        q = natural_step(blank, prior, gradient, 1.0)
        m, v = (
            np.concatenate(parts) for parts in zip(*(project(X[s].rows(True), q) for s in parallel.slices(n, 2**14)))
        )
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 600e6
    # Gaussian noise of variance one: E|y - f|² under q, and what the trace of A S Aᵀ must be.
    np.testing.assert_allclose(pull_back(X.rows(True), y - m, np.zeros(n), False)[0], q.mean, rtol=1e-6, atol=1e-6)
    assert v.sum() == pytest.approx(p - np.sum(q.variance), rel=1e-8)
    assert np.var(y - m) < 0.75 * np.var(y)
