"""Arrow-shaped precisions against dense ones: algebra, factor, moments, divergences, natural steps."""

from __future__ import annotations

import pickle
import tracemalloc

import numpy as np
import pytest

from sksvi._runtime import parallel
from sksvi.algorithms.steps import natural_step, shortened
from sksvi.families import DiagonalGaussian, Gaussian, NotPositiveDefinite
from sksvi.families.gaussian import arrow
from sksvi.families.gaussian.arrow import ArrowGaussian, ArrowMatrix
from sksvi.testing import check_family

#: (levels, coordinates of a level, other coordinates, start)
LAYOUTS = [(5, 1, 3, 0), (4, 2, 3, 2), (3, 3, 1, 1), (6, 1, 2, 2), (1, 1, 1, 0), (3, 2, 0, 0)]
LAYOUT = pytest.mark.parametrize("layout", LAYOUTS, ids=str)


@pytest.fixture(params=[0.0, 2.0], ids=["dense border", "sparse border"])
def border_form(request, monkeypatch):
    """Force one way of factoring."""
    monkeypatch.setattr(arrow, "SPARSE_SHARE", request.param)


def matrix(layout, seed, definite=True):
    """A random arrow; positive definite as a sum of outer products of rows that touch one level."""
    n_levels, r, n_others, start = layout
    rng = np.random.default_rng(seed)
    size = n_levels * r + n_others
    others = np.setdiff1d(np.arange(size), np.arange(start, start + n_levels * r))
    out = np.zeros((size, size))
    for level in range(n_levels):
        at = np.concatenate([start + level * r + np.arange(r), others])
        rows = rng.standard_normal((size, len(at))) * (rng.random((size, len(at))) < 0.6)
        sign = 1.0 if definite else rng.choice([-1.0, 1.0])
        out[np.ix_(at, at)] += sign * rows.T @ rows
    return ArrowMatrix.of_dense(0.5 * (out + out.T) + 0.3 * np.eye(size), n_levels, r, start)


def gaussian(layout, seed):
    precision = matrix(layout, seed)
    return ArrowGaussian(np.random.default_rng(seed + 1).standard_normal(precision.shape[0]), precision)


def twin(q):
    """The same Gaussian with a dense precision."""
    return Gaussian(q.mean, q.precision.dense())


def prior_for(q, seed):
    rng = np.random.default_rng(seed)
    return DiagonalGaussian(rng.standard_normal(q.mean.shape), rng.uniform(0.2, 4.0, q.mean.shape))


# ---- the matrix
@LAYOUT
def test_elementwise_algebra(layout, global_random_seed):
    a, b = matrix(layout, global_random_seed), matrix(layout, global_random_seed + 1, definite=False)
    for found, wanted in (
        (a + b, a.dense() + b.dense()),
        (a - b, a.dense() - b.dense()),
        (-a, -a.dense()),
        (-2.0 * a, -2.0 * a.dense()),
        (a * np.float64(0.5), 0.5 * a.dense()),
        (np.float64(0.5) * a, 0.5 * a.dense()),
        (a / 3, a.dense() / 3),
        (sum([a, b]), a.dense() + b.dense()),
        (np.abs(b), np.abs(b.dense())),
        (parallel.add(a, b), a.dense() + b.dense()),
        (parallel.add((1.0, a), (2.0, b))[1], a.dense() + b.dense()),
        (parallel.scaled({"weights": (np.ones(1), a)}, 4.0)["weights"][1], 4.0 * a.dense()),
        (a.astype(np.float32), a.dense().astype(np.float32)),
    ):
        assert isinstance(found, ArrowMatrix)
        np.testing.assert_array_equal(found.dense(), wanted)
    assert np.max(np.abs(b)) == np.abs(b.dense()).max()


@LAYOUT
def test_multiples_share_a_border(layout, global_random_seed):
    a, x = matrix(layout, global_random_seed), np.random.default_rng(global_random_seed).standard_normal(4)
    twice = ArrowMatrix.of_diagonal(np.ones(len(a.dense())), a) + 0.5 * (4.0 * a)
    whole = np.eye(len(a.dense())) + 2.0 * a.dense()
    found = [part.across(np.ascontiguousarray) for part in (a, twice)]
    assert a.across(np.copy) is found[0]
    assert twice.border is a.border or not a.border.size  # nothing is shared of no border
    np.testing.assert_array_equal(found[1], 2.0 * found[0])
    np.testing.assert_array_equal(twice.dense(), whole)
    np.testing.assert_allclose(twice.dot(np.resize(x, len(whole))), whole @ np.resize(x, len(whole)), rtol=1e-12)
    assert twice.inner(-a) == pytest.approx(-np.sum(whole * a.dense()))
    np.testing.assert_allclose(
        ArrowGaussian(np.zeros(len(whole)), twice).cov, np.linalg.inv(whole), rtol=1e-9, atol=1e-12
    )
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(twice)).dense(), whole)


@LAYOUT
def test_matrix_against_dense(layout, global_random_seed):
    a, b = matrix(layout, global_random_seed), matrix(layout, global_random_seed + 1)
    dense = a.dense()
    np.testing.assert_array_equal(dense, dense.T)
    assert a.shape == dense.shape
    x = np.random.default_rng(global_random_seed).standard_normal((4, len(dense)))
    np.testing.assert_allclose(a.dot(x[0]), dense @ x[0], rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(a.dot(x), x @ dense, rtol=1e-12, atol=1e-12)
    np.testing.assert_array_equal(a.diagonal(), np.diagonal(dense))
    assert a.inner(b) == pytest.approx(np.sum(dense * b.dense()))
    np.testing.assert_array_equal(ArrowMatrix.of_diagonal(x[0], a).dense(), np.diag(x[0]))
    n_levels, r, _, start = layout
    np.testing.assert_array_equal(ArrowMatrix.of_dense(dense, n_levels, r, start).dense(), dense)


def test_what_leaves_the_pattern_is_refused():
    a, other = matrix(LAYOUTS[0], 0), matrix(LAYOUTS[3], 0)
    for wrong in (lambda: a + 1.0, lambda: a + a.dense(), lambda: a * a, lambda: 1.0 / a, lambda: np.exp(a)):
        with pytest.raises(TypeError):
            wrong()
    with pytest.raises(ValueError, match="different layouts"):
        a + other
    with pytest.raises(TypeError, match="dense"):
        np.asarray(a)


@pytest.mark.parametrize("part", ["diag", "border", "corner"])
@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_isfinite_sees_every_part(part, bad):
    a = matrix(LAYOUTS[1], 0)
    assert np.all(np.isfinite(a))
    assert np.all(np.abs(a) <= 1e300)
    getattr(a, part).flat[-1] = bad
    assert not np.all(np.isfinite(a))
    assert not np.all(np.abs(a) <= 1e300)


# ---- the Gaussian
@LAYOUT
def test_moments_against_dense(layout, border_form, global_random_seed):
    q = gaussian(layout, global_random_seed)
    dense = twin(q)
    q.prepare()
    np.testing.assert_allclose(q.cov, dense.cov, rtol=1e-8, atol=1e-10)
    np.testing.assert_allclose(q.variance, dense.variance, rtol=1e-9)
    np.testing.assert_allclose(q.std, dense.std, rtol=1e-9)
    assert q.log_det_cov() == pytest.approx(dense.log_det_cov())
    assert q.log_det_precision() == pytest.approx(dense.log_det_precision())
    pattern = matrix(layout, 0)
    n_levels, r, _, start = layout
    wanted = ArrowMatrix.of_dense(dense.cov, n_levels, r, start)
    for found, part in zip(q.within.parts, wanted.parts, strict=True):
        np.testing.assert_allclose(found, part, rtol=1e-8, atol=1e-10)
    x = np.random.default_rng(global_random_seed).standard_normal((3, len(q.mean)))
    for vectors in (x, x[0]):
        np.testing.assert_allclose(q.dot(vectors), dense.dot(vectors), rtol=1e-9, atol=1e-10)
        np.testing.assert_allclose(q.solve(vectors), dense.solve(vectors), rtol=1e-8, atol=1e-10)
        np.testing.assert_allclose(q.solve(q.dot(vectors)), vectors, rtol=1e-8, atol=1e-10)
        np.testing.assert_allclose(q.coloured(q.uncoloured(vectors)), q.solve(vectors), rtol=1e-10, atol=1e-12)
        np.testing.assert_allclose(q.spread(vectors), dense.spread(vectors), rtol=1e-8)
    assert pattern.alike(q.within)


@LAYOUT
def test_root_is_an_arrow_with_the_right_product(layout, border_form, global_random_seed):
    """C e_j for every j: S = CᵀC, and C has no entry between two levels."""
    q = gaussian(layout, global_random_seed)
    root = q.uncoloured(np.eye(len(q.mean))).T
    np.testing.assert_allclose(root.T @ root, twin(q).cov, rtol=1e-8, atol=1e-10)
    n_levels, r, _, start = layout
    stop = start + n_levels * r
    levels = np.arange(start, stop)
    others = np.setdiff1d(np.arange(len(root)), levels)
    assert not root[np.ix_(levels, others)].any()
    between = np.kron(np.eye(n_levels), np.ones((r, r))) == 0
    assert not root[start:stop, start:stop][between].any()
    assert not np.triu(root[np.ix_(levels, levels)], 1).any()
    assert not np.triu(root[np.ix_(others, others)], 1).any()


@LAYOUT
def test_check_family(layout, global_random_seed):
    check_family(gaussian(layout, global_random_seed), seed=global_random_seed)


@LAYOUT
def test_divergence_against_dense(layout, border_form, global_random_seed):
    q, other = gaussian(layout, global_random_seed), gaussian(layout, global_random_seed + 7)
    prior = prior_for(q, global_random_seed)
    assert q.kl(prior) == pytest.approx(twin(q).kl(prior))
    assert q.kl(other) == pytest.approx(twin(q).kl(twin(other)))
    assert q.kl(q) == pytest.approx(0.0, abs=1e-9)
    for block in (twin(q), DiagonalGaussian(q.mean, q.precision.diagonal())):
        assert block.kl(other) == pytest.approx(block.kl(twin(other)))


@LAYOUT
@pytest.mark.parametrize("rate", [1.0, 0.3])
def test_natural_step_against_dense(layout, rate, border_form, global_random_seed):
    q, other = gaussian(layout, global_random_seed), gaussian(layout, global_random_seed + 7)
    g = np.random.default_rng(global_random_seed).standard_normal(len(q.mean))
    curvature = -matrix(layout, global_random_seed + 3)
    for prior, dense_prior in ((prior_for(q, 1),) * 2, (other, twin(other))):
        new = natural_step(q, prior, (g, curvature), rate)
        wanted = natural_step(twin(q), dense_prior, (g, curvature.dense()), rate)
        assert isinstance(new, ArrowGaussian)
        np.testing.assert_allclose(new.precision.dense(), wanted.precision, rtol=1e-12, atol=1e-12)
        np.testing.assert_allclose(new.mean, wanted.mean, rtol=1e-8, atol=1e-10)


@LAYOUT
def test_natural_step_is_the_gradient_of_the_bound(layout, global_random_seed):
    """In the mean parameters of the arrow family: m, and S + mmᵀ on the pattern."""
    q = gaussian(layout, global_random_seed)
    rng = np.random.default_rng(global_random_seed)
    prior, g, curvature = prior_for(q, 1), rng.standard_normal(len(q.mean)), -matrix(layout, global_random_seed + 3)
    dm, dp = q.std * rng.standard_normal(len(q.mean)), 0.3 * matrix(layout, global_random_seed + 4, definite=False)

    def moved(share):
        return ArrowGaussian(q.mean + share * dm, q.precision + share * dp)

    def bound(block):
        return g @ block.mean + curvature.inner(block.within) - block.kl(prior)

    def second(block):
        return block.cov + np.outer(block.mean, block.mean)

    new, step = natural_step(q, prior, (g, curvature), 1.0), 1e-5
    linear = new.dot(new.mean) - q.dot(q.mean)
    quadratic = -0.5 * (new.precision - q.precision).dense()
    high, low = moved(step), moved(-step)
    found = linear @ (high.mean - low.mean) + np.sum(quadratic * (second(high) - second(low)))
    assert found / (2 * step) == pytest.approx((bound(high) - bound(low)) / (2 * step), rel=1e-5, abs=1e-5)


def test_natural_coordinates_round_trip(global_random_seed):
    q = gaussian(LAYOUTS[1], global_random_seed)
    back = q.replace(q.natural(q))
    np.testing.assert_allclose(back.mean, q.mean, rtol=1e-10)
    np.testing.assert_array_equal(back.precision.dense(), q.precision.dense())
    assert back.precision is not None
    assert type(q)(q.mean, q.precision, q.root).root is q.root


def test_blended_and_pickled(global_random_seed):
    a, b = gaussian(LAYOUTS[1], global_random_seed), gaussian(LAYOUTS[1], global_random_seed + 1)
    blend = a.blended(b, 0.25)
    np.testing.assert_allclose(blend.mean, 0.75 * a.mean + 0.25 * b.mean)
    np.testing.assert_allclose(blend.precision.dense(), 0.75 * a.precision.dense() + 0.25 * b.precision.dense())
    copy = pickle.loads(pickle.dumps(a))
    np.testing.assert_array_equal(copy.variance, a.variance)
    a.prepare()
    assert len(pickle.dumps(a)) == len(pickle.dumps(copy)) < 4096


def test_forms_of_the_precision():
    q, layout = gaussian(LAYOUTS[1], 0), LAYOUTS[1]
    assert q.precision_like(gaussian(layout, 1)) is q.precision
    np.testing.assert_array_equal(q.precision_like(twin(q)), q.precision.dense())
    diagonal = prior_for(q, 0)
    np.testing.assert_array_equal(q.precision_like(diagonal), q.precision.diagonal())
    for block, wanted in (
        (q, np.diag(diagonal.precision)),
        (twin(q), np.diag(diagonal.precision)),
        (twin(q).standard(), np.diag(diagonal.precision)),
        (diagonal, diagonal.precision),
        (diagonal.standard(), diagonal.precision),
    ):
        found = diagonal.precision_like(block)
        np.testing.assert_array_equal(found.dense() if block is q else found, wanted)


def test_draws_are_reproducible_and_shaped():
    q = gaussian(LAYOUTS[1], 0)
    assert q.sample().shape == (1, len(q.mean))
    np.testing.assert_array_equal(q.sample(4, 7), q.sample(4, 7))


# ---- the policy on positive definiteness
@LAYOUT
@pytest.mark.parametrize("value", [-1.0, 0.0, np.nan, np.inf])
def test_a_bad_diagonal_is_named(layout, value):
    size = layout[0] * layout[1] + layout[2]
    for coordinate in range(size):
        diagonal = np.ones(size)
        diagonal[coordinate] = value
        q = ArrowGaussian(np.zeros(size), ArrowMatrix.of_diagonal(diagonal, matrix(layout, 0)))
        text = f"at coordinate {coordinate}" if np.isfinite(value) else "not finite"
        with pytest.raises(NotPositiveDefinite, match=text) as caught:
            q.prepare()
        assert caught.value.coordinate == (coordinate if np.isfinite(value) else -1)


def test_indefinite_and_singular_blocks_are_named():
    layout = (3, 2, 2, 1)
    good = matrix(layout, 0)
    bent = good.dense()
    bent[3, 4] = bent[4, 3] = 2 * np.sqrt(bent[3, 3] * bent[4, 4])
    with pytest.raises(NotPositiveDefinite, match="not positive definite at coordinate 4"):
        ArrowGaussian(np.zeros(8), ArrowMatrix.of_dense(bent, 3, 2, 1)).prepare()
    row = np.array([0.0, 1.0, 0.0, 0.0, 0.0, 0.0, 0.0, 1.0])  # a level's intercept and the last coordinate are one
    twins = 1e12 * np.outer(row, row) + 1e-6 * np.eye(8)
    with pytest.raises(NotPositiveDefinite, match="coordinate 7"):
        ArrowGaussian(np.zeros(8), ArrowMatrix.of_dense(twins, 3, 2, 1)).prepare()
    row = np.array([0.0, 1.0, 1.0 + 1e-9, 0.0, 0.0, 0.0, 0.0, 0.0])
    twins = 1e12 * np.outer(row, row) + 1e-6 * np.eye(8)
    with pytest.raises(NotPositiveDefinite, match="coordinate 2"):
        ArrowGaussian(np.zeros(8), ArrowMatrix.of_dense(twins, 3, 2, 1)).prepare()
    hidden = good.dense()
    hidden[0, 1] = hidden[1, 0] = np.nan
    with pytest.raises(NotPositiveDefinite):
        ArrowGaussian(np.zeros(8), ArrowMatrix.of_dense(hidden, 3, 2, 1)).prepare()


def test_a_step_out_of_the_cone_is_shortened():
    q = gaussian(LAYOUTS[1], 0)
    shares: list[float] = []
    curvature = 20.0 * q.precision
    g = np.zeros(len(q.mean))

    def step(share):
        shares.append(share)
        return natural_step(q, prior_for(q, 0), (g, curvature), share)

    new = shortened(step)
    assert len(shares) > 1
    assert np.all(new.variance > 0)


def test_no_square_array_is_formed():
    """3,100 coordinates: a P x P array would take 77 MB, the border takes 2.4."""
    n_levels, n_others = 3000, 100
    rng = np.random.default_rng(0)
    tracemalloc.start()
    border = rng.standard_normal((n_levels, n_others)).T
    precision = ArrowMatrix(np.full((n_levels, 1, 1), 200.0), border, 200.0 * np.eye(n_others), 5)
    q = ArrowGaussian(np.zeros(n_levels + n_others), precision)
    prior = DiagonalGaussian(np.zeros(n_levels + n_others), np.ones(n_levels + n_others))
    new = natural_step(q, prior, (np.ones(n_levels + n_others), -0.1 * precision), 0.5)
    new.prepare()
    assert np.isfinite(new.kl(prior))
    assert new.sample(2, 0).shape == (2, 3100)
    assert tracemalloc.get_traced_memory()[1] < 40e6
    tracemalloc.stop()
