"""Ordered levels in every estimator that has them: numbers, or names in the order of their type."""

from __future__ import annotations

import pickle

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.metrics import d2_absolute_error_score
from sklearn.model_selection import GridSearchCV, KFold, cross_val_predict, cross_val_score

import sksvi
from sksvi import BayesianGLMRegressor, GeneralizedPMF, GMERegressor, SparseGPRegressor
from sksvi.likelihoods import Ordinal

# Fits of a few passes: nothing here depends on how good they are.
pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")

N, LEVELS = 90, ["low", "mid", "high"]
ORDINAL = {"likelihood": "ordinal", "random_state": 0, "max_iter": 8}
MODELS = {
    "glm": BayesianGLMRegressor(**ORDINAL),
    "mixed": GMERegressor(**ORDINAL, groups=["site"]),
    "gp": SparseGPRegressor(**ORDINAL, n_inducing=6, optimize_hyperparameters=False),
    "factors": GeneralizedPMF(1, **ORDINAL),
}


@pytest.fixture
def rng(global_random_seed):
    return np.random.default_rng(global_random_seed)


def ordered(names, levels=LEVELS):
    return pd.Categorical(names, levels, ordered=True)


def problem(name, rng):
    """X, positions of the levels, and their names."""
    if name == "factors":
        X = pd.DataFrame({"user": np.arange(N) % 9, "item": rng.integers(0, 6, N)})
        f = (X["user"] - 4.0) / 3.0
    else:
        X = pd.DataFrame({"dose": rng.standard_normal(N), "site": np.arange(N) % 5})
        f = X["dose"]
    y = np.digitize(f + 0.7 * rng.logistic(size=N), [-0.7, 0.7])
    y[:3] = 0, 1, 2
    return X, y, np.array(LEVELS)[y]


@pytest.mark.costly
@pytest.mark.parametrize("name", MODELS)
def test_names_are_their_positions(name, rng):
    X, y, names = problem(name, rng)
    numbers = clone(MODELS[name]).fit(X, y)
    for given in (ordered(names), pd.Series(ordered(names)), pd.DataFrame({"answer": ordered(names)})):
        model = clone(MODELS[name]).fit(X, given)
        assert list(model.levels_) == LEVELS
        assert model.lower_bound_ == numbers.lower_bound_
        np.testing.assert_array_equal(model.predict_proba(X), numbers.predict_proba(X))
        density = numbers.log_predictive_density(X, y)
        for known in (given, names, names.tolist()):  # the order is known by now
            np.testing.assert_array_equal(model.log_predictive_density(X, known), density)


@pytest.mark.parametrize("name", MODELS)
def test_names_come_back(name, rng):
    X, y, names = problem(name, rng)
    numbers, model = clone(MODELS[name]).fit(X, y), clone(MODELS[name]).fit(X, ordered(names))
    levels = np.array(LEVELS)
    for ask in (
        lambda m: m.predict_interval(X, coverage=0.5),
        lambda m: m.predict_quantiles(X, [0.1, 0.5]),
        lambda m: m.sample_y(X, 3, random_state=1),
    ):
        np.testing.assert_array_equal(ask(model), levels[ask(numbers)])
    np.testing.assert_array_equal(sksvi.predict_interval(model, X, 0.5), model.predict_interval(X, 0.5))
    # the median: the first level that half of the probability does not exceed
    median = (np.cumsum(model.predict_proba(X), axis=1) < 0.5).sum(axis=1)
    np.testing.assert_array_equal(model.predict(X), levels[median])
    weight = rng.integers(1, 4, N)
    score = d2_absolute_error_score(y, median, sample_weight=weight)
    assert model.score(X, names, sample_weight=weight) == pytest.approx(score, abs=1e-12)
    for call in (lambda: model.predict(X, return_std=True), lambda: sksvi.predict_std(model, X)):
        with pytest.raises(ValueError, match=r"return_std=True needs numbers.*'low', 'mid', 'high'.*predict_proba"):
            call()


@pytest.mark.costly
@pytest.mark.parametrize("name", MODELS)
def test_numbers_of_an_ordered_type_are_numbers(name, rng):
    X, y, _ = problem(name, rng)
    plain, typed = clone(MODELS[name]).fit(X, 2 * y), clone(MODELS[name]).fit(X, ordered(2 * y, [0, 2, 4]))
    for a, b in zip(plain.predict(X, return_std=True), typed.predict(X, return_std=True), strict=True):
        np.testing.assert_array_equal(a, b)
    assert plain.score(X, 2 * y) == typed.score(X, ordered(2 * y, [0, 2, 4]))
    turned = clone(MODELS[name]).fit(X, ordered(2 * y, [4, 2, 0]))  # an order that is not the numbers' own
    assert list(turned.levels_) == [4, 2, 0]
    assert set(turned.predict(X)) <= {0, 2, 4}


@pytest.mark.costly
def test_an_enum_of_polars_has_an_order(rng):
    polars = pytest.importorskip("polars")
    for name, model in MODELS.items():
        X, y, names = problem(name, rng)
        enum = polars.Series(names.tolist()).cast(polars.Enum(LEVELS))
        fitted = clone(model).fit(X, enum)
        assert list(fitted.levels_) == LEVELS
        np.testing.assert_array_equal(fitted.predict_proba(X), clone(model).fit(X, y).predict_proba(X))
        with pytest.raises(ValueError, match="a polars Enum"):
            clone(model).fit(X, polars.Series(names.tolist()))


#: Models that keep declared levels without rows.
KEEP = ("glm", "mixed")


@pytest.mark.parametrize("name", KEEP)
@pytest.mark.parametrize("wide", [["never", *LEVELS, "ever"], ["low", "lower", "mid", "high"]], ids=["ends", "between"])
def test_a_level_that_no_row_has_stands_for_half_a_row(name, wide, rng):
    X, _, names = problem(name, rng)
    model = clone(MODELS[name]).set_params(max_iter=300)
    model = model.fit(X, ordered(names, wide))
    assert list(model.levels_) == wide
    proba = pd.DataFrame(model.predict_proba(X), columns=wide)
    unseen = [level for level in wide if level not in LEVELS]
    np.testing.assert_allclose(proba[unseen].sum(), 0.5, atol=0.2)
    assert np.all(np.isfinite(model.log_predictive_density(X, ordered([unseen[-1]] * N, wide))))
    # A stream learns of it when it comes.
    stream = clone(MODELS[name]).partial_fit(X, ordered(names, wide))
    stream.partial_fit(X, ordered(np.where(np.arange(N) % 3, names, unseen[-1]), wide))
    assert stream.predict_proba(X)[:, wide.index(unseen[-1])].sum() > 5.0


def test_folds_that_lack_a_level_score_finitely(rng):
    X, _, names = problem("glm", rng)
    y = pd.Series(ordered(np.where(np.arange(N) == 3, "rare", names), [*LEVELS, "rare"]))
    model = BayesianGLMRegressor(likelihood="ordinal")

    def log_density(fitted, X, y):
        assert list(fitted.levels_) == [*LEVELS, "rare"]
        return fitted.log_predictive_density(X, y).mean()

    search = GridSearchCV(
        model, {"prior_precision": [1.0, 10.0]}, cv=KFold(3), error_score="raise", scoring=log_density
    )
    search.fit(X, y)
    assert np.all(np.isfinite(search.cv_results_["mean_test_score"]))
    assert np.all(np.isfinite(cross_val_score(model, X, y, cv=KFold(3), error_score="raise")))


@pytest.mark.parametrize("name", [name for name in MODELS if name not in KEEP])
def test_a_level_that_no_row_has(name, rng):
    X, _, names = problem(name, rng)
    wide = ordered(names, ["never", *LEVELS, "ever"])
    plain = clone(MODELS[name]).fit(X, ordered(names))
    for method in ("fit", "partial_fit"):
        with pytest.warns(UserWarning, match=r"declares the levels \['never', 'ever'\], which no row has"):
            model = getattr(clone(MODELS[name]), method)(X, wide)
        assert list(model.levels_) == LEVELS
        if method == "fit":
            np.testing.assert_array_equal(model.predict_proba(X), plain.predict_proba(X))
    with pytest.raises(ValueError, match=r"not in levels_: 'ever' in row 0; known: \['low', 'mid', 'high'\]"):
        model.score(X[:2], ordered(["ever", "low"], wide.categories))
    # Cut points that are given say what it is worth.
    fixed = clone(MODELS[name]).set_params(likelihood=Ordinal(cut_points=[-3.0, -1.0, 1.0, 3.0])).fit(X, wide)
    assert list(fixed.levels_) == list(wide.categories)
    assert np.all(fixed.predict_proba(X)[:, 4] > 0)
    assert np.all(np.isfinite(fixed.log_predictive_density(X, ["ever"] * N)))


def test_a_missing_level_is_named_whatever_it_is_written_as(rng):
    X, y = rng.standard_normal((4, 1)), [0, 1, 0, 1]
    model = BayesianGLMRegressor(likelihood="ordinal", max_iter=2)
    missing = (
        pd.Series([0, 1, None, 1], dtype="Int64"),
        [0, 1, None, 1],
        [0, 1, np.nan, 1],
        ordered([0, 1, None, 1], [0, 1]),
    )
    for given in missing:
        for fitted in (model, clone(model).fit(X, y)):
            with pytest.raises(ValueError, match="y contains NaN"):
                fitted.fit(X, given) if fitted is model else fitted.score(X, given)


def test_which_numbers_are_levels(rng):
    X = rng.standard_normal((200, 1))
    model = BayesianGLMRegressor(likelihood="ordinal", max_iter=2)
    with pytest.raises(ValueError, match="200 of them that are no integers"):
        model.fit(X, X[:, 0])
    many = np.round(np.linspace(0, 1, 200) * 59).astype(int)
    assert len(model.fit(X, many).levels_) == 60
    assert len(model.fit(X, np.arange(200) % 50 / 4).levels_) == 50
    quarters = pd.Categorical(many / 4, ordered=True)  # who says so means it
    assert len(model.fit(X, quarters).levels_) == 60
    without = model.fit(X[:, :1], np.arange(200) % 4, sample_weight=(np.arange(200) % 4 > 0) * 1.0)
    np.testing.assert_array_equal(without.levels_, [1, 2, 3])


@pytest.mark.costly
@pytest.mark.parametrize("name", MODELS)
def test_levels_go_on(name, rng, tmp_path):
    X, _, names = problem(name, rng)
    model = clone(MODELS[name]).partial_fit(X, ordered(names))
    model.save(tmp_path / "model")
    again = [sksvi.load(tmp_path / "model"), pickle.loads(pickle.dumps(model))]
    model.partial_fit(X, ordered(names))
    for other in again:
        assert list(other.levels_) == LEVELS
        other.partial_fit(X, names)  # plain strings are known by now
        np.testing.assert_array_equal(other.predict_proba(X), model.predict_proba(X))
        np.testing.assert_array_equal(other.predict(X), model.predict(X))
    warm = clone(MODELS[name]).set_params(warm_start=True).fit(X, ordered(names)).fit(X, ordered(names[::-1]))
    assert list(warm.levels_) == LEVELS
    for method in ("fit", "partial_fit", "score"):
        with pytest.raises(ValueError, match=r"orders its levels \['high', 'mid', 'low'\]; the fit had \['low', "):
            getattr(warm, method)(X, ordered(names, LEVELS[::-1]))


def test_searches_and_folds_take_names(rng):
    X, y, names = problem("glm", rng)
    model = MODELS["glm"]
    by_name = GridSearchCV(model, {"prior_precision": [1.0, 10.0]}, cv=3, error_score="raise").fit(X, ordered(names))
    assert list(by_name.best_estimator_.levels_) == LEVELS
    found = cross_val_predict(model, X, ordered(names), cv=3)
    for train, test in KFold(3).split(X):
        fold = clone(model).fit(X.iloc[train], y[train])
        np.testing.assert_array_equal(found[test], np.array(LEVELS)[fold.predict_quantiles(X.iloc[test], 0.5)[:, 0]])


def test_named_levels_are_ranked_by_their_positions(rng):
    X, y, names = problem("factors", rng)
    numbers, model = clone(MODELS["factors"]).fit(X, y), clone(MODELS["factors"]).fit(X, ordered(names))
    for strategy in ("mean", "ucb", "thompson"):
        tables = [m.recommend([0, 1], n=3, strategy=strategy, random_state=0) for m in (numbers, model)]
        pd.testing.assert_frame_equal(*tables)
    np.testing.assert_array_equal(model.fold_in(X, names).mean, numbers.fold_in(X, y).mean)


def test_levels_that_a_first_chunk_lacks_are_declared_up_front():
    """Both messages name the remedy, and it works."""
    X = np.random.default_rng(0).standard_normal((30, 1))
    with pytest.raises(ValueError, match=r"contains only 2.*declare them up front.*Ordinal\(cut_points"):
        BayesianGLMRegressor(likelihood="ordinal").partial_fit(X, np.full(30, 2))
    model = BayesianGLMRegressor(likelihood="ordinal").partial_fit(X, np.arange(30) % 2)
    with pytest.raises(ValueError, match=r"2 in row 0; known: \[0, 1\].*declare them up front"):
        model.partial_fit(X, np.full(30, 2))
    stream = BayesianGLMRegressor(likelihood=Ordinal(cut_points=[-1.0, 1.0]))
    for level in ("b", "a", "c"):
        stream.partial_fit(X, pd.Series(pd.Categorical([level] * 30, categories=["a", "b", "c"], ordered=True)))
    assert stream.levels_.tolist() == ["a", "b", "c"]
