"""Posterior blocks: moments, divergences, gradients, draws and the policy on positive definiteness."""

from __future__ import annotations

import inspect
from dataclasses import replace

import numpy as np
import pytest

from sksvi import families
from sksvi.algorithms.steps import adam_step, natural_step
from sksvi.families import (
    Beta,
    ClassGaussian,
    DiagonalGaussian,
    Dirichlet,
    Free,
    Gamma,
    Gaussian,
    GaussianPlates,
    InUnits,
    Marginal,
    NotPositiveDefinite,
    Point,
    Population,
    ProjectedGaussian,
    Rayleigh,
    RegressedPopulation,
    Simplex,
    StandardGaussian,
)
from sksvi.families.base import Family
from sksvi.families.gaussian.arrow import ArrowGaussian, ArrowMatrix
from sksvi.families.gaussian.chain import Chain, ChainGaussian
from sksvi.families.gaussian.dense import gaussian
from sksvi.families.gaussian.dual import SiteGaussian
from sksvi.families.gaussian.level_blocks import LevelBlocks, LevelEffects, LevelGaussian
from sksvi.families.gaussian.low_rank import LowRankGaussian
from sksvi.families.gaussian.mixture import NodeBlocks, NodeMixture
from sksvi.families.gaussian.views import ChosenRows
from sksvi.testing import check_family

SHAPES = [(1,), (4,), (3, 2), (2, 3, 2)]


def precision_matrix(shape, rng):
    factor = rng.standard_normal((*shape, shape[-1]))
    return factor @ np.swapaxes(factor, -1, -2) + 0.3 * np.eye(shape[-1])


def full(shape, seed):
    rng = np.random.default_rng(seed)
    return Gaussian(rng.standard_normal(shape), precision_matrix(shape, rng))


def diagonal(shape, seed):
    rng = np.random.default_rng(seed)
    return DiagonalGaussian(rng.standard_normal(shape), rng.uniform(0.2, 4.0, shape))


def projected(shape, seed, d=6):
    """Rank 4, and one coordinate more: the intercept."""
    rng = np.random.default_rng(seed)
    basis = np.linalg.qr(rng.standard_normal((d, 4)))[0]
    return ProjectedGaussian(rng.uniform(0.5, 2.0, d), basis, full((*shape[:-1], 5), seed), 0.7)


def in_units(shape, seed):
    """Columns with a centre and a scale, and the intercept."""
    rng = np.random.default_rng(seed)
    return InUnits(full(shape, seed), rng.standard_normal(shape[-1] - 1), rng.uniform(0.5, 2.0, shape[-1] - 1))


BLOCKS = {
    "Gaussian": full,
    "DiagonalGaussian": diagonal,
    "StandardGaussian": lambda shape, seed: full(shape, seed).standard(),
    "StandardGaussian, diagonal": lambda shape, seed: diagonal(shape, seed).standard(),
    "ProjectedGaussian": projected,
    "ClassGaussian": lambda shape, seed: ClassGaussian(full((3 * shape[-1],), seed), 3),
    "InUnits": in_units,
    "Marginal": lambda shape, seed: Marginal(full((shape[-1] + 2,), seed), np.arange(1, shape[-1] + 1)),
    "Point": lambda shape, seed: Point(np.arange(float(shape[-1])), np.ones(shape[-1]), 2.0 * np.eye(shape[-1])),
}


def uniform(shape, seed):
    return np.random.default_rng(seed).uniform(0.4, 5.0, shape)


def regressed(seed, n):
    """Two log odds of n members on one covariate."""
    rows = np.column_stack([np.ones(n), np.random.default_rng(seed).standard_normal((n, 3))])
    return RegressedPopulation(rows.T @ rows, 1)


def population(seed, n):
    factor = np.random.default_rng(seed).standard_normal((3, 5))
    return Population.of(n, np.arange(3.0), factor @ factor.T)


def packed(seed, is_full):
    block = (full if is_full else diagonal)((4, 3), seed)
    return GaussianPlates.of(block)


def arrow_matrix(seed):
    """Five levels of two coordinates, two others."""
    rng = np.random.default_rng(seed)
    diag = precision_matrix((5, 2), rng) + 2.0 * np.eye(2)
    return ArrowMatrix(diag, 0.1 * rng.standard_normal((2, 10)), precision_matrix((2,), rng) + 2.0 * np.eye(2), 1)


def level_blocks(seed):
    """Five levels of two coordinates, after one other and before another."""
    block = precision_matrix((2,), np.random.default_rng(seed))
    diag = np.concatenate([[2.0], np.tile(np.diagonal(block), 5), [3.0]])
    return LevelGaussian(uniform(12, seed), LevelBlocks(diag, ((1, 5),), (block,)))


def kernel(seed):
    x = np.sort(uniform(5, seed))
    return np.exp(-0.5 * np.square(x[:, None] - x))


def sites(seed):
    return SiteGaussian(kernel(seed), np.random.default_rng(seed).standard_normal(5), uniform(5, seed + 1))


def states(seed):
    """A level and the coefficient of a column, over five points in time."""
    none, X = np.zeros(0, int), np.random.default_rng(seed).standard_normal((5, 1))
    return Chain(
        X, np.ones(1), none, np.zeros(1, int), none, np.zeros(0), np.array([0.3, 0.0]), np.zeros(2), np.eye(2), none
    )


#: Every other family with a prior for it.
OTHERS = {
    "Beta": lambda seed: (Beta(uniform(4, seed), uniform(4, seed + 1)), Beta(np.ones(4), uniform(4, seed + 2))),
    "Gamma": lambda seed: (Gamma(uniform(4, seed), uniform(4, seed + 1)), Gamma(np.ones(4), uniform(4, seed + 2))),
    "Gamma, plates": lambda seed: (
        Gamma(uniform((3, 2), seed), uniform((3, 2), seed + 1)),
        Gamma(np.ones(2), np.ones(2)),
    ),
    "Dirichlet": lambda seed: (Dirichlet(uniform((3, 4), seed)), Dirichlet(np.full((3, 4), 0.7))),
    "Dirichlet, one prior": lambda seed: (Dirichlet(uniform((3, 4), seed)), Dirichlet(np.full(4, 0.7))),
    "Simplex": lambda seed: (Simplex(uniform((3, 4), seed)), Simplex(np.full((3, 4), 0.7))),
    "Simplex, by gradient": lambda seed: (Simplex(uniform(4, seed), True), Simplex(np.full(4, 0.7), True)),
    "Population": lambda seed: (population(seed, 7.0), population(seed + 1, 2.0)),
    "RegressedPopulation": lambda seed: (regressed(seed, 9), regressed(seed + 1, 7)),
    "Rayleigh": lambda seed: (Rayleigh(2.0), Rayleigh(5.0)),
    "GaussianPlates": lambda seed: (packed(seed, True), diagonal((4, 3), seed + 1)),
    "GaussianPlates, diagonal": lambda seed: (packed(seed, False), diagonal((4, 3), seed + 1)),
    "ArrowGaussian": lambda seed: (ArrowGaussian(uniform(12, seed), arrow_matrix(seed)), diagonal((12,), seed + 1)),
    "Gaussian, blocks by level": lambda seed: (full((12,), seed), level_blocks(seed + 1)),
    "SiteGaussian": lambda seed: (sites(seed), SiteGaussian(kernel(seed))),
    "ChainGaussian": lambda seed: (
        ChainGaussian(states(seed), np.random.default_rng(seed).standard_normal(5), uniform(5, seed + 1)),
        ChainGaussian(states(seed)),
    ),
    "LowRankGaussian": lambda seed: (low_rank(seed), None),
    "ChosenRows": lambda seed: (ChosenRows(sites(seed), np.array([3, 0, 3])), None),
    "MixedGaussian": lambda seed: (mixed(seed)._mixed, None),
    "NodeMixture": lambda seed: (mixed(seed), None),
    "LevelEffects": lambda seed: (level_effects(seed), None),
}


def low_rank(seed):
    """Two classes with six weights along two directions, and an intercept."""
    rng = np.random.default_rng(seed)
    basis = np.linalg.qr(rng.standard_normal((6, 2)))[0]
    inner = np.linalg.inv(precision_matrix((2, 3), rng))
    return LowRankGaussian(rng.standard_normal((2, 7)), rng.uniform(0.2, 4.0, (2, 6)), basis, inner)


def level_effects(seed):
    """Intercepts and slopes of five levels, of a fit about the mean of the slopes' column."""
    lift = LevelBlocks(np.tile([1.0, 0.5], 5), ((0, 5),), (np.array([[1.0, -3.0], [0.0, 0.5]]),))
    return LevelEffects(Marginal(full((12,), seed), np.arange(1, 11)), lift)


def mixed(seed):
    """A Gaussian of two weights under the priors of two nodes."""
    rng = np.random.default_rng(seed)
    block = Gaussian(rng.standard_normal(2), np.array([[4.0, 0.5], [0.5, 3.0]]))
    precisions, weights = np.array([[1.0, 1.0], [2.0, 2.0]]), np.array([0.4, 0.6])
    return NodeMixture(block, NodeBlocks(block, np.zeros(2), np.ones(2), precisions, np.ones(2), weights))


def classes_of(base):
    return {base} | {cls for child in base.__subclasses__() for cls in classes_of(child)}


def test_registry_is_complete():
    """Every family of the package, public or not, is checked here; bases have no constructor of their own."""
    bases = {"Family", "Flat", "PointMass", "Normal", "PreciseGaussian", "MessageGaussian"}
    bases |= {"LevelGaussian"}  # a prior alone, of "Gaussian, blocks by level"
    bases |= {"SquaredDeviation"}  # a prior alone, in tests/models/mixed/test_noise_prior.py
    found = {cls.__name__ for cls in classes_of(Family) if cls.__module__.startswith("sksvi.")}
    assert found - bases == {name.partition(",")[0] for name in (*BLOCKS, *OTHERS)}
    public = {cls.__name__ for name in families.__all__ if inspect.isclass(cls := getattr(families, name))}
    assert public - found == {"Draw", "Message", "NotPositiveDefinite"}


@pytest.mark.parametrize("name", OTHERS)
def test_check_other_families(name, global_random_seed):
    check_family(*OTHERS[name](global_random_seed), seed=global_random_seed)


@pytest.mark.parametrize("make", [full, diagonal], ids=["dense", "diagonal"])
def test_the_structure_of_the_precision_picks_the_class(make):
    q = make((2, 3), 0)
    assert type(gaussian(q.mean, q.precision)) is type(q)
    assert type(gaussian(np.zeros(12), arrow_matrix(0))) is ArrowGaussian


MISTAKES = {
    "corrected": lambda right, q, *args: tuple(-part for part in right(q, *args)),
    "of_slopes": lambda right, q, *args: tuple(-part for part in right(q, *args)),
    "over": lambda right, q, prior: replace(said := right(q, prior), parts=tuple(1.1 * part for part in said.parts)),
    "times": lambda right, prior, said: right(prior, replace(said, parts=tuple(1.1 * part for part in said.parts))),
    "drawn": lambda right, q, rng: replace(draw := right(q, rng), value=1.2 * draw.value),
    "nodes": lambda right, q: replace(nodes := right(q), value=1.2 * nodes.value),
    "of_values": lambda right, q, nodes, values: tuple(1.1 * part for part in right(q, nodes, values)),
    "put": lambda right, q, plates, other: right(q, plates + 1, other),
}


@pytest.mark.parametrize("wrong", MISTAKES)
@pytest.mark.parametrize("name", ["Gamma", "Dirichlet", "GaussianPlates"])
def test_check_family_finds_a_mistake_in_draws_and_messages(name, wrong, monkeypatch):
    q, prior = OTHERS[name](0)
    owner = type(prior if wrong == "times" else q)
    right = getattr(owner, wrong)
    if right in (Family.nodes, Family.of_values) or (name, wrong) == ("Dirichlet", "of_values"):
        return  # a Dirichlet has no rule of nodes
    monkeypatch.setattr(owner, wrong, lambda self, *args: MISTAKES[wrong](right, self, *args))
    if (name, wrong) == ("GaussianPlates", "corrected"):
        check_family(q, prior)  # whose V is 1
        return
    with pytest.raises(AssertionError):
        check_family(q, prior)


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("name", BLOCKS)
def test_check_family(name, shape, global_random_seed):
    q = BLOCKS[name](shape, global_random_seed)
    if name in ("Point", "ClassGaussian", "Marginal"):
        check_family(q, seed=global_random_seed)
        return
    if q.mean.ndim > 2:  # check_family indexes one plate
        q = q[0]
    check_family(q, diagonal(q.mean.shape, global_random_seed + 1), seed=global_random_seed)


@pytest.mark.parametrize("name", ["Gaussian", "StandardGaussian"])
def test_full_prior(name, global_random_seed):
    check_family(BLOCKS[name]((3,), global_random_seed), full((3,), global_random_seed + 1), seed=global_random_seed)


@pytest.mark.parametrize("wrong", ["cov", "sample", "standard_gradient", "natural_gradient", "kl"])
def test_check_family_finds_a_mistake(wrong, monkeypatch):
    q, prior = full((3,), 0), diagonal((3,), 1)
    owner = StandardGaussian if wrong == "standard_gradient" else Gaussian
    right = getattr(owner, wrong)
    if wrong == "cov":
        monkeypatch.setattr(owner, wrong, property(lambda self: 1.01 * right.fget(self)))
    elif wrong == "natural_gradient":
        monkeypatch.setattr(owner, wrong, staticmethod(lambda gradient: (gradient[0], -gradient[1])))
    elif wrong == "standard_gradient":
        monkeypatch.setattr(owner, wrong, lambda self, *a: (right(self, *a)[0], 1.01 * right(self, *a)[1]))
    else:
        monkeypatch.setattr(owner, wrong, lambda self, *a: 1.1 * right(self, *a))
    with pytest.raises(AssertionError):
        check_family(q, prior)


@pytest.mark.parametrize(
    "make", [full, diagonal, lambda shape, seed: ArrowGaussian(uniform(12, seed), arrow_matrix(seed))]
)
def test_a_block_with_a_precision_is_narrowed(make, global_random_seed):
    """The same mean and class, and a quarter of every variance."""
    q = make((4,), global_random_seed)
    narrower = q.narrowed(4.0)
    assert type(narrower) is type(q)
    np.testing.assert_array_equal(narrower.mean, q.mean)
    np.testing.assert_allclose(narrower.variance, q.variance / 4.0, rtol=1e-12)


def test_other_blocks_are_not_narrowed():
    """Those of gradient steps, of messages and of other families: who would narrow them is told that nothing came."""
    blocks = [make(SHAPES[1], 0) for name, make in BLOCKS.items() if name not in ("Gaussian", "DiagonalGaussian")]
    blocks += [make(0)[0] for name, make in OTHERS.items() if not name.startswith(("ArrowGaussian", "Gaussian,"))]
    assert [type(block).__name__ for block in blocks if block.narrowed(4.0) is not None] == []


@pytest.mark.parametrize("make", [full, diagonal])
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_divergence_from_itself_is_zero(make, shape, global_random_seed):
    q = make(shape, global_random_seed)
    assert q.kl(q) == pytest.approx(0.0, abs=1e-10)
    assert q.standard().kl(q) == pytest.approx(0.0, abs=1e-10)


@pytest.mark.parametrize("name", [name for name in BLOCKS if name not in ("Point", "ClassGaussian", "Marginal")])
def test_divergence_against_monte_carlo(name, global_random_seed):
    q = BLOCKS[name]((2, 3), global_random_seed)
    prior = diagonal(q.mean.shape, global_random_seed + 1)
    draws = q.sample(20000, global_random_seed)
    cov = np.broadcast_to(q.cov, (*q.mean.shape, q.mean.shape[-1]))
    delta = draws - q.mean
    log_q = -0.5 * np.einsum("npi,pij,npj->n", delta, np.linalg.inv(cov), delta)
    log_q -= 0.5 * np.linalg.slogdet(cov)[1].sum()
    log_p = -0.5 * (np.square(draws - prior.mean) * prior.precision).sum((1, 2)) + 0.5 * np.log(prior.precision).sum()
    difference = log_q - log_p
    assert abs(difference.mean() - q.kl(prior)) <= 4 * difference.std() / np.sqrt(len(draws))


@pytest.mark.parametrize("make", [full, diagonal])
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_coordinates_round_trip(make, shape, global_random_seed):
    q = make(shape, global_random_seed)
    for other in (q.replace(q.natural(q)), q.standard().natural_form(), q.standard().standard().natural_form()):
        np.testing.assert_allclose(other.mean, q.mean, rtol=1e-10)
        np.testing.assert_allclose(other.precision, q.precision, rtol=1e-8, atol=1e-10)
        np.testing.assert_allclose(other.cov, q.cov, rtol=1e-8, atol=1e-10)
    x = np.random.default_rng(global_random_seed).standard_normal(shape)
    np.testing.assert_allclose(q.solve(q.dot(x)), x, rtol=1e-8)
    np.testing.assert_allclose(q.coloured(q.uncoloured(x)), q.solve(x), rtol=1e-8, atol=1e-12)
    assert q.log_det_precision() == pytest.approx(-q.log_det_cov())


def test_natural_step_with_rate_one_is_the_conjugate_posterior(global_random_seed):
    """Prior N(mu, 1/P0), one Gaussian observation of every coordinate: whatever q was before."""
    rng = np.random.default_rng(global_random_seed)
    prior, y, noise = diagonal((3,), global_random_seed), rng.standard_normal(3), 0.5
    q = full((3,), global_random_seed + 1)
    new = natural_step(q, prior, ((y - q.mean) / noise, -0.5 * np.eye(3) / noise), 1.0)
    precision = prior.precision + 1 / noise
    np.testing.assert_allclose(new.precision, np.diag(precision), atol=1e-12)
    np.testing.assert_allclose(new.mean, (prior.precision * prior.mean + y / noise) / precision, rtol=1e-10)


def test_natural_step_keeps_its_digits_at_a_large_mean():
    prior = DiagonalGaussian(np.array([1e8, 1e8]), np.full(2, 1e6))
    q = Gaussian(np.array([1e8, 1e8 + 1.0]), np.array([[1e6, 2e5], [2e5, 1e6]]))
    new = natural_step(q, prior, (np.zeros(2), np.zeros((2, 2))), 1.0)
    np.testing.assert_allclose(new.mean - 1e8, 0.0, atol=3e-8)


@pytest.mark.parametrize("shape", [(5,), (3, 5)], ids=str)
def test_projected_equals_dense(shape, global_random_seed):
    q = projected(shape, global_random_seed, d=9)
    dense = q.dense()
    rng = np.random.default_rng(global_random_seed)
    # From the definition: w = scale (B z + (I - B Bᵀ) u), independent of `dense`.
    d, r = q.basis.shape
    lift = np.zeros((d + 1, r + 1))
    lift[:d, :r], lift[d, r] = q.scale[:, None] * q.basis, 1.0
    off = np.zeros((d + 1, d + 1))
    off[:d, :d] = q.off_std**2 * q.scale[:, None] * (np.eye(d) - q.basis @ q.basis.T) * q.scale
    cov = lift @ q.inner.cov @ lift.T + off
    np.testing.assert_allclose(q.mean, q.inner.mean @ lift.T, rtol=1e-12)
    for block in (q, dense):
        np.testing.assert_allclose(block.mean, q.mean, rtol=1e-12)
        np.testing.assert_allclose(block.cov, cov, rtol=1e-8, atol=1e-10)
        np.testing.assert_allclose(block.variance, np.diagonal(cov, axis1=-2, axis2=-1), rtol=1e-8)
    rows = rng.standard_normal((4, d + 1))
    for plate in range(shape[0]) if len(shape) > 1 else [None]:
        one, matrix = (q, cov) if plate is None else (q[plate], cov[plate])
        np.testing.assert_allclose(one.spread(rows), np.einsum("ij,jk,ik->i", rows, matrix, rows), rtol=1e-8)
    assert q.sample(2, 0).shape == (2, *q.mean.shape)


def test_views_of_an_ill_conditioned_block_need_no_inverse_of_its_covariance(global_random_seed):
    """Two coordinates of which only the difference is known, one of 1e-9: S of both has lost what tells them apart."""
    sd = np.array([1e-9, 1.0, 1e9])
    q = Gaussian(np.zeros(3), np.array([[1.0, 0.3, 0.2], [0.3, 1.0, -0.4], [0.2, -0.4, 1.0]]) / np.outer(sd, sd))
    near = np.array([[1.0, 0.0, 0.0], [1.0, 1e-9, 0.0], [0.0, 0.0, 1.0]])
    joint = StandardGaussian(np.zeros(3), q.root @ near.T)
    rows = np.array([[1.0, -1.0, 0.0], [0.0, 1.0, 1.0]])
    exact = q.spread(rows @ near)
    centre = np.random.default_rng(global_random_seed).standard_normal(2)
    for view in (Marginal(joint, np.arange(3)), InUnits(Marginal(joint, np.arange(3)), 0.0 * centre, np.ones(2))):
        np.testing.assert_allclose(view.spread(rows), exact, rtol=1e-6)
        np.testing.assert_allclose(np.square(view.root @ rows[1]).sum(), exact[1], rtol=1e-6)
        np.testing.assert_allclose(np.triu(view.root, 1), 0.0, atol=0.0)
        np.testing.assert_allclose(view.root.T @ view.root, view.cov, rtol=1e-9)


def test_classes_share_one_joint_gaussian(global_random_seed):
    joint = full((6,), global_random_seed)
    q = ClassGaussian(joint, 3)
    np.testing.assert_array_equal(q.mean.ravel(), joint.mean)
    np.testing.assert_allclose(q.cov[1], joint.cov[2:4, 2:4])
    np.testing.assert_allclose(q.cov_blocks[0, 2], joint.cov[:2, 4:])
    np.testing.assert_allclose(np.swapaxes(q.root, -1, -2) @ q.root, q.cov, rtol=1e-8)
    np.testing.assert_array_equal(q.sample(4, 7).reshape(4, 6), joint.sample(4, 7))
    less = np.hstack([np.eye(2), np.zeros((2, 2)), -np.eye(2)])
    np.testing.assert_allclose(q.contrast(0, 2).mean, less @ joint.mean)
    np.testing.assert_allclose(q.contrast(0, 2).cov, less @ joint.cov @ less.T)


def test_a_contrast_of_independent_plates_adds_variances(global_random_seed):
    q = diagonal((3, 2), global_random_seed)
    less = q.contrast(2, 0)
    np.testing.assert_array_equal(less.mean, q.mean[2] - q.mean[0])
    np.testing.assert_allclose(less.variance, q.variance[2] + q.variance[0])


def test_draws_are_reproducible_and_shaped():
    q = full((3, 2), 0)
    assert q.sample().shape == (1, 3, 2)
    np.testing.assert_array_equal(q.sample(4, 7), q.sample(4, 7))
    assert q.draws(1, np.random.default_rng(0)).value.shape == (1, 3, 2)
    np.testing.assert_array_equal(Point(np.ones(2)).sample(3), np.ones((3, 2)))


# ---- the policy on positive definiteness
@pytest.mark.parametrize(
    ("precision", "text", "coordinate"),
    [
        (np.diag([1.0, -1.0, 1.0]), "not positive definite at coordinate 1", 1),
        (np.diag([1.0, 0.0, 1.0]), "coordinate 1", 1),
        (np.diag([1.0, np.nan, 1.0]), "not finite", -1),
        (np.diag([1.0, np.inf, 1.0]), "not finite", -1),
        (np.ones((3, 3)) + np.diag([1.0, 0.0, 0.0]), "coordinate 2", 2),
    ],
    ids=["negative", "zero", "nan", "inf", "singular"],
)
def test_a_bad_precision_is_named(precision, text, coordinate):
    q = Gaussian(np.zeros(3), precision)
    with pytest.raises(NotPositiveDefinite, match=text) as caught:
        q.variance  # noqa: B018
    assert caught.value.coordinate == coordinate


def test_rounding_in_a_pivot_is_not_taken_for_information():
    x = np.array([1.0, 1.0 + 1e-9])
    with pytest.raises(NotPositiveDefinite, match="coordinate 1"):
        Gaussian(np.zeros(2), 1e12 * np.outer(x, x) + 1e-6 * np.eye(2)).prepare()


def test_bad_diagonals_are_named():
    with pytest.raises(NotPositiveDefinite, match="coordinate 1") as caught:
        DiagonalGaussian(np.zeros(2), np.array([1.0, -2.0])).std  # noqa: B018
    assert caught.value.coordinate == 1
    with pytest.raises(NotPositiveDefinite, match="not positive"):
        DiagonalGaussian(np.zeros(2), np.array([1.0, np.nan])).prepare()
    for root in (np.array([1.0, 0.0]), np.diag([1.0, -1.0]), np.array([np.nan, 1.0])):
        with pytest.raises(NotPositiveDefinite, match="not positive"):
            StandardGaussian(np.zeros(2), root)


def test_not_positive_definite_is_a_value_error():
    assert issubclass(NotPositiveDefinite, ValueError)
    assert NotPositiveDefinite("text").coordinate == -1


# ---- points
def test_newton_solves_a_quadratic_and_respects_memory():
    hessian, g = -np.array([[2.0, 0.5], [0.5, 1.0]]), np.array([0.3, -0.2])
    fresh = Point(np.zeros(2))
    np.testing.assert_allclose(fresh.newton((g, hessian)), np.linalg.solve(-hessian, g), rtol=1e-12)
    held = fresh.absorbed(hessian)
    # The same data again: half way from what is remembered.
    np.testing.assert_allclose(held.newton((g, hessian)), 0.5 * np.linalg.solve(-hessian, g), rtol=1e-12)
    assert held.forgotten().penalty() == 0.0


def test_newton_climbs_where_the_function_is_convex():
    point = Point(np.zeros(2))
    step = point.newton((np.array([0.3, -0.2]), np.diag([4.0, -1.0])))
    assert step[0] > 0 > step[1]
    flat = point.newton((np.array([0.3, 0.0]), np.zeros((2, 2))))
    assert np.all(np.isfinite(flat))
    assert flat[0] > 0


def test_a_point_moves_within_its_trust_radius():
    assert np.max(np.abs(Point(np.zeros(2)).moved(np.array([50.0, -3.0]), 1.0).value)) == 2.0
    np.testing.assert_array_equal(Point(np.ones(2)).moved(np.zeros(2), 1.0).value, np.ones(2))


def test_absorbed_ignores_directions_without_information():
    held = Point(np.zeros(2)).absorbed(np.diag([-3.0, 5.0]))
    np.testing.assert_allclose(held.information, np.diag([3.0, 0.0]), atol=1e-12)


def test_blended_is_a_weighted_mean():
    a, b = full((2,), 0), full((2,), 1)
    np.testing.assert_allclose(a.blended(b, 0.25).precision, 0.75 * a.precision + 0.25 * b.precision)
    np.testing.assert_allclose(Point(np.zeros(1)).blended(Point(np.ones(1)), 0.25).value, [0.25])


@pytest.mark.parametrize("scale", [0.05, 1.0, 40.0])
def test_rayleigh(scale, global_random_seed):
    q, prior = Rayleigh(scale), Rayleigh(5.0)
    check_family(q, prior, seed=global_random_seed)
    x = np.linspace(1e-9, 12 * scale, 200001)
    log_q, log_p = (np.log(x / s**2) - 0.5 * (x / s) ** 2 for s in (scale, 5.0))
    density = np.exp(log_q) * (x[1] - x[0])
    assert q.kl(prior) == pytest.approx(float(density @ (log_q - log_p)), rel=1e-6, abs=1e-8)
    assert q.mean[0] == pytest.approx(float(density @ x), rel=1e-6)
    with pytest.raises(NotPositiveDefinite, match="not negative"):
        natural_step(q, prior, (np.array([1.0]),), 1.0)


def test_free_blocks_move_uphill(global_random_seed):
    """Adam finds the maximum of a quadratic."""
    target = np.random.default_rng(global_random_seed).standard_normal((2, 3))
    block, memory = Free(np.zeros((2, 3))), None
    for _ in range(400):
        block, memory = adam_step(block, target - block.value, memory)
    np.testing.assert_allclose(block.value, target, atol=0.05)
    assert np.all(block.std == 0) and block.sample(2).shape == (2, 2, 3)
