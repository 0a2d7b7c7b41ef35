"""Effects under a weak prior of their own: refits of the same rows, contrasts of levels and of classes, coverage."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from sksvi import BayesianGLMClassifier, BayesianGLMRegressor
from sksvi.likelihoods import Gaussian
from sksvi.models.linear.scales import WIDEST, own_effects, own_sets

N, D, NOISE = 60, 4, 1.5


@pytest.fixture
def rng(global_random_seed):
    return np.random.default_rng(global_random_seed)


def rows(rng):
    """Correlated columns in units of their own, the last of two values."""
    X = (rng.standard_normal((N, D)) + 0.8 * rng.standard_normal((N, 1))) * [1.0, 3.0, 0.2, 1.0] + [0.0, 5.0, 1.0, 0.0]
    X[:, -1] = np.where(X[:, -1] > 0.3, 4.0, 1.0)
    return X, X @ [0.4, 0.0, 2.0, 0.2] + 10.0 + np.sqrt(NOISE) * rng.standard_normal(N)


def fitted(X, y, **options):
    return BayesianGLMRegressor(likelihood=Gaussian(variance=NOISE), hyperparameters="point", **options).fit(X, y)


def weak(spread, unit):
    return np.square(spread / (2.0 * WIDEST * unit))


# ---- one effect
def test_a_row_is_a_refit_under_its_own_prior(rng):
    X, y = rows(rng)
    model = fitted(X, y)
    table, learned = model.summary(), model.prior_precision_
    spread = np.append(2.0 * X[:, :-1].std(0), 3.0)  # twice the standard deviation, or the distance of two values
    for j in range(D):
        precision = learned.copy()
        precision[j] = weak(spread[j], y.std())
        other = fitted(X, y, prior_precision=precision)
        assert table["mean"].iloc[j] == pytest.approx(other.coef_[j], rel=1e-6, abs=1e-9)
        assert table["std"].iloc[j] == pytest.approx(other.coef_std_[j], rel=1e-6)
        assert not np.isclose(table["mean"].iloc[j], model.coef_[j], rtol=1e-4)
        other_rows = other.summary()  # of a prior that was given
        assert other_rows["lower"].iloc[j] == pytest.approx(table["lower"].iloc[j], rel=1e-6, abs=1e-7)


def test_joint_rows_are_those_of_the_posterior(rng):
    model = fitted(*rows(rng))
    table = model.summary(effects="joint")
    np.testing.assert_allclose(table["mean"], [*model.coef_, model.intercept_])
    np.testing.assert_allclose(table["std"], model.posterior_["weights"].std)


def test_a_row_is_wider_than_under_the_joint_prior(rng):
    X, y = rows(rng)
    model = BayesianGLMRegressor().fit(X, y)
    own, joint = model.summary(), model.summary(effects="joint")
    assert np.all(own["std"].iloc[:D] > joint["std"].iloc[:D])
    pd.testing.assert_frame_equal(own, model.summary(effects="own"))


def test_a_fixed_number_of_rows_answers_only_for_the_prior_that_was_given(rng):
    X, y = rows(rng)
    for options in ({"prior_precision": 1.0}, {"prior_precision": np.ones(D)}, {"covariance": "diag"}):
        model = fitted(X - X.mean(0), y, **options)
        with pytest.raises(ValueError, match=r"effects='own' replaces a prior that was learned.*found"):
            model.summary(effects="own")
        pd.testing.assert_frame_equal(model.summary(), model.summary(effects="joint"))


# ---- the formula
def random_sets(rng, size=3, n=5):
    root = rng.standard_normal((n, size, size))
    known = root @ np.swapaxes(root, -1, -2)
    precision = rng.uniform(0.1, 2.0, (n, size))
    cov = np.linalg.inv(known + precision[..., None] * np.eye(size))
    return rng.standard_normal((n, size)), cov, precision, rng.uniform(0.001, 0.1, (n, size)), known


def test_sets_are_divided_by_the_old_prior_and_multiplied_by_the_new(rng):
    mean, cov, precision, own, known = random_sets(rng)
    m, S = own_sets(mean, cov, precision, own)
    wanted = np.linalg.inv(known + own[..., None] * np.eye(3))
    np.testing.assert_allclose(S, wanted, rtol=1e-7, atol=1e-9)
    np.testing.assert_allclose(m, (wanted @ np.linalg.solve(cov, mean[..., None]))[..., 0], rtol=1e-7, atol=1e-9)


def test_a_set_of_one_is_an_effect(rng):
    mean, variance = rng.standard_normal(6), rng.uniform(0.1, 1.0, 6)
    precision, own = rng.uniform(0.1, 0.9, 6) / variance, rng.uniform(0.001, 0.1, 6)
    m, v = own_effects(mean, variance, precision, own)
    ms, S = own_sets(mean[:, None], variance[:, None, None], precision[:, None], own[:, None])
    np.testing.assert_allclose(ms[:, 0], m, rtol=1e-12)
    np.testing.assert_allclose(S[:, 0, 0], v, rtol=1e-12)


def test_what_the_data_say_is_never_less_than_nothing(rng):
    """Rounding, or messages of a likelihood that is not log-concave, may leave less than the prior alone."""
    precision, own = np.full(3, 2.0), np.full(3, 0.5)
    m, v = own_effects(np.zeros(3), np.array([0.5, 0.50001, 0.7]), precision, own)
    np.testing.assert_allclose(v, 2.0)  # the weak prior's
    mean, cov, _, _, _ = random_sets(rng)
    m, S = own_sets(mean, cov, np.full((5, 3), 1e6), np.full((5, 3), 0.5))
    np.testing.assert_allclose(S, 2.0 * np.broadcast_to(np.eye(3), S.shape), rtol=1e-9, atol=1e-9)
    precision = np.diagonal(np.linalg.inv(cov), axis1=-2, axis2=-1).copy()  # more than nothing in some directions
    m, S = own_sets(mean, cov, precision, np.full((5, 3), 0.5))
    assert np.all(np.linalg.eigvalsh(S) <= 2.0 + 1e-9) and np.all(np.linalg.eigvalsh(S) > 0)
    assert np.all(np.isfinite(m))


# ---- levels
def towns(rng, n=90):
    town = rng.choice(["Bern", "Oslo", "Rome"], n, p=[0.5, 0.3, 0.2])
    X = pd.DataFrame({"size": rng.standard_normal(n) + (town == "Rome"), "town": town})
    f = 0.5 * X["size"] + 1.2 * (town == "Oslo") - 0.6 * (town == "Rome")
    return X, f.to_numpy() + np.sqrt(NOISE) * rng.standard_normal(n)


def test_levels_are_a_refit_with_all_their_priors_replaced(rng):
    X, y = towns(rng)
    model = fitted(X, y)
    precision = model.prior_precision_.copy()
    precision[1:] = weak(1.0, y.std())
    dense = np.column_stack([X["size"], *(X["town"] == name for name in ("Bern", "Oslo", "Rome"))]).astype(float)
    other = fitted(dense, y, prior_precision=precision)
    table, view = model.summary(), other.posterior_["weights"]
    assert list(table.index) == ["size", "town_Oslo", "town_Rome", "intercept"]
    maps = np.array([[0, -1, 1, 0, 0], [0, -1, 0, 1, 0], [0, 1, 0, 0, 1]], float)
    for name, row in zip(table.index[1:], maps, strict=True):
        assert table["mean"][name] == pytest.approx(row @ view.mean, rel=1e-6, abs=1e-9)
        assert table["std"][name] == pytest.approx(np.sqrt(row @ view.cov @ row), rel=1e-6)


def test_any_level_may_be_the_reference(rng):
    X, y = towns(rng)
    model = fitted(X, y)
    first, other = model.summary(), model.summary(reference_levels={"town": "Rome"})
    assert list(other.index) == ["size", "town_Bern", "town_Oslo", "intercept"]
    mean = first["mean"]
    assert other["mean"]["town_Bern"] == pytest.approx(-mean["town_Rome"])
    assert other["std"]["town_Bern"] == pytest.approx(first["std"]["town_Rome"])
    assert other["mean"]["town_Oslo"] == pytest.approx(mean["town_Oslo"] - mean["town_Rome"])
    assert other["mean"]["intercept"] == pytest.approx(mean["intercept"] + mean["town_Rome"])
    pd.testing.assert_series_equal(other.loc["size"], first.loc["size"])
    pd.testing.assert_frame_equal(model.summary(reference_levels={"town": "Bern"}), first)


def test_levels_beside_the_mean_of_all_rows(rng):
    X, y = towns(rng)
    model = fitted(X, y)
    table, first = model.summary(contrasts="mean"), model.summary()
    names = ["town_Bern", "town_Oslo", "town_Rome"]
    share = X["town"].value_counts(normalize=True).sort_index().to_numpy()
    mean = table["mean"][names].to_numpy()
    assert share @ mean == pytest.approx(0.0, abs=1e-10)
    assert mean[1] - mean[0] == pytest.approx(first["mean"]["town_Oslo"])
    moved = share[1] * first["mean"]["town_Oslo"] + share[2] * first["mean"]["town_Rome"]
    assert table["mean"]["intercept"] == pytest.approx(first["mean"]["intercept"] + moved)


def test_levels_beside_zero(rng):
    X, y = towns(rng)
    model = fitted(X, y)
    table = model.summary(contrasts="none", effects="joint")
    np.testing.assert_allclose(table["mean"], [*model.coef_, model.intercept_])
    assert list(table.index[1:4]) == ["town_Bern", "town_Oslo", "town_Rome"]
    assert len(model.summary(contrasts="none")) == 5


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"reference_levels": {"twon": "Oslo"}}, r"'twon', which is no categorical column: these are \['town'\]"),
        ({"reference_levels": {"size": 1.0}}, r"'size', which is no categorical column"),
        (
            {"reference_levels": {"town": "Bonn"}},
            r"'Bonn' for column 'town', whose levels are \['Bern', 'Oslo', 'Rome'\]",
        ),
        ({"reference_levels": {"town": "Oslo"}, "contrasts": "none"}, "reference_levels is for contrasts of levels"),
        ({"contrasts": "sum"}, r"contrasts.*'reference', 'mean'.*'none'.*'sum'"),
        ({"effects": "single"}, r"effects.*'own'.*'joint'.*'single'"),
        ({"coverage": 1.5}, r"1\.5"),
    ],
    ids=lambda value: "" if isinstance(value, str) else str(value),
)
def test_mistakes_name_what_was_found(options, said, rng):
    model = fitted(*towns(rng))
    with pytest.raises(ValueError, match=said):
        model.summary(**options)


def test_numbers_have_no_reference_level(rng):
    model = fitted(*rows(rng))
    with pytest.raises(ValueError, match=r"'x0': 1.*no categorical column"):
        model.summary(reference_levels={"x0": 1})


# ---- classes
@pytest.fixture(scope="module")
def classes(global_random_seed):
    rng = np.random.default_rng(global_random_seed)
    X = rng.standard_normal((80, 2))
    f = np.column_stack([np.zeros(80), X[:, 0], -X[:, 1]]) + rng.gumbel(size=(80, 3))
    return BayesianGLMClassifier(hyperparameters="point").fit(X, np.array(["a", "b", "c"])[f.argmax(1)])


def test_two_classes_are_antisymmetric(classes):
    against_a, against_b = classes.summary(reference="a"), classes.summary(reference="b")
    b, a = against_a.loc["b"], against_b.loc["a"]
    np.testing.assert_allclose(b["mean"], -a["mean"], rtol=1e-9)
    np.testing.assert_allclose(b["std"], a["std"], rtol=1e-9)
    np.testing.assert_allclose(b["lower"], -a["upper"], rtol=1e-9)
    np.testing.assert_allclose(
        against_b.loc["c"]["mean"], against_a.loc["c"]["mean"] - against_a.loc["b"]["mean"], rtol=1e-8, atol=1e-10
    )


def test_rows_of_all_classes_sum_to_zero(classes):
    table = classes.summary()
    np.testing.assert_allclose(table["mean"].unstack().sum(), 0.0, atol=1e-10)
    by_reference = classes.summary(reference="a")["mean"].unstack()
    wanted = by_reference.loc["b"] - by_reference.sum() / 3
    np.testing.assert_allclose(table["mean"].unstack().loc["b"], wanted, atol=1e-10)


def test_differences_of_classes_have_the_weak_prior_of_a_coefficient():
    """Half of its variance each: where the data say nothing a difference has all of it."""
    eye = np.eye(3)
    _, S = own_sets(np.zeros(3), eye, np.ones(3), np.full(3, 2.0 * weak(2.0, 1.0)))
    contrast = eye[1] - eye[0]
    assert contrast @ S @ contrast == pytest.approx(WIDEST**2)


# ---- coverage
def covers(rng, n, columns, sets, effect=3.0):
    """How often rows hold an effect of three standard errors, and how often they do under the joint prior."""
    effect, held, joint = effect / np.sqrt(n), [], []
    for _ in range(sets):
        X = rng.standard_normal((n, columns))
        model = BayesianGLMRegressor().fit(X, effect * X[:, 0] + rng.standard_normal(n))
        for found, effects in ((held, "own"), (joint, "joint")):
            row = model.summary(effects=effects).iloc[0]
            found.append(row["lower"] <= effect <= row["upper"])
    return np.mean(held), np.mean(joint)


@pytest.mark.costly
def test_one_effect_among_nulls_is_held(rng):
    held, _ = covers(rng, 100, 10, sets=30)
    assert held >= 0.9 - 4 * np.sqrt(0.09 / 30)


@pytest.mark.costly
def test_the_joint_prior_misses_one_effect_among_many_nulls(rng):
    """Where rows are fewer than five a column it shrinks the one effect towards those that are none."""
    held, joint = covers(rng, 60, 20, sets=30)
    assert held >= 0.9 - 4 * np.sqrt(0.09 / 30)
    assert joint <= held - 0.25
