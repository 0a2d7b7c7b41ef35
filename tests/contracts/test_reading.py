"""How rows are read: by position, and what is missing is named with what to do."""

from __future__ import annotations

import warnings

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone

from sksvi import (
    BayesianGLMClassifier,
    BayesianGLMRegressor,
    DynamicGLM,
    GammaFactorModel,
    GeneralizedPMF,
    GPClassifier,
    SparseGPRegressor,
)

N = 20


def table(seed, index=None):
    rng = np.random.default_rng(seed)
    X = pd.DataFrame(rng.standard_normal((N, 3)), columns=list("abc"), index=index)
    return X, X["a"] + 0.1 * rng.standard_normal(N)


@pytest.mark.parametrize("index", [None, [f"row {k}" for k in range(N)]], ids=["numbers", "names"])
@pytest.mark.parametrize("fit", ["fit", "partial_fit"])
def test_rows_in_another_order_are_told_of_and_taken_by_position(fit, index, global_random_seed):
    X, y = table(global_random_seed, index)
    shuffled = y.sample(frac=1, random_state=global_random_seed)
    for name, given in (("y", {"y": shuffled}), ("sample_weight", {"y": y, "sample_weight": shuffled.abs()})):
        with pytest.warns(UserWarning, match=f"X and {name} have the same index in different orders.*position"):
            told = getattr(BayesianGLMRegressor(), fit)(X, **given)
        plain = {key: value.to_numpy() for key, value in given.items()}
        np.testing.assert_array_equal(told.coef_, getattr(BayesianGLMRegressor(), fit)(X, **plain).coef_)


def test_the_warning_names_both_labels_of_the_first_such_row():
    X, y = table(0)
    with pytest.warns(UserWarning, match=r"\(row 3 is 3 in X and 4 in y\).*y\.loc\[X\.index\].*y\.to_numpy\(\)"):
        BayesianGLMRegressor().fit(X, y.iloc[[0, 1, 2, 4, 3, *range(5, N)]])


@pytest.mark.parametrize("fit", ["fit", "partial_fit"])
def test_weights_that_are_no_numbers_of_rows_are_told_of(fit, global_random_seed):
    X, y = table(global_random_seed)
    variance = np.random.default_rng(global_random_seed).uniform(0.01, 0.1, N)
    with pytest.warns(UserWarning, match=rf"these {N} count as [0-9,]+.*w / w.mean"):
        getattr(BayesianGLMRegressor(), fit)(X, y, sample_weight=1.0 / variance)
    for counts in (
        np.round(1.0 / variance),
        variance.mean() / variance,
        7.0,
    ):  # repetitions, and what the words ask for
        getattr(BayesianGLMRegressor(), fit)(X, y, sample_weight=counts)


@pytest.mark.filterwarnings("ignore:y varies .* times as much as:UserWarning")  # of few rows by chance
@pytest.mark.parametrize("fit", ["fit", "partial_fit"])
def test_weights_of_a_survey_are_told_of_where_y_is_counted(fit, global_random_seed):
    """Whole numbers, rates whose weights are exposures, and what the words ask for are silent."""
    X, _ = table(global_random_seed)
    rng = np.random.default_rng([global_random_seed, 3])
    w = np.exp(rng.standard_normal(N))
    w /= w.mean()
    counts, labels = rng.poisson(3.0, N).astype(float), np.where(rng.random(N) < 0.5, "yes", "no")
    text = rf"these {N} count as {N}, .*w \* w.sum\(\) / \(w\*\*2\)"
    poisson = BayesianGLMRegressor(likelihood="poisson", prior_precision=1.0)
    for model, y in ((poisson, counts), (BayesianGLMClassifier(prior_precision=1.0), labels)):
        named = {"classes": ["no", "yes"]} if fit == "partial_fit" and y is labels else {}
        with pytest.warns(UserWarning, match=text):
            getattr(clone(model), fit)(X, y, sample_weight=w, **named)
        for silent in (w * w.sum() / (w**2).sum(), np.ceil(w)):
            getattr(clone(model), fit)(X, y, sample_weight=silent, **named)
    exposure = rng.uniform(0.2, 1.0, N)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.filterwarnings("ignore", "y has fractions")
        getattr(clone(poisson), fit)(X, rng.poisson(3.0 * exposure) / exposure, sample_weight=3.0 * exposure)


@pytest.mark.filterwarnings("ignore:sample_weight says how many rows")
def test_intervals_by_the_weights_that_the_words_ask_for_hold(global_random_seed):
    """Log-normal weights of mean 1, as they come, hold 0.7 of coefficients."""
    held: dict[bool, list[float]] = {False: [], True: []}
    for number in range(24):
        rng, n = np.random.default_rng([global_random_seed, number, 8]), 400
        X, truth, w = rng.standard_normal((n, 4)), np.array([0.5, -0.3, 0.0, 0.2]), np.exp(rng.standard_normal(n))
        y, w = rng.poisson(np.exp(X @ truth)).astype(float), w / w.mean()
        for asked, hits in held.items():
            weight = w * w.sum() / (w**2).sum() if asked else w
            rows = BayesianGLMRegressor(likelihood="poisson").fit(X, y, sample_weight=weight).summary().iloc[:4]
            hits.append(float(np.mean((rows["lower"] <= truth) & (truth <= rows["upper"]))))
    assert np.mean(held[True]) > 0.9 - 4 * np.std(held[True]) / np.sqrt(24)
    assert np.mean(held[False]) < 0.7 + 4 * np.std(held[False]) / np.sqrt(24)


def test_inverse_variances_over_their_mean_are_weighted_least_squares(global_random_seed):
    rng, n = np.random.default_rng(global_random_seed), 200
    variance = rng.uniform(0.1, 4.0, n)
    X = rng.standard_normal((n, 2))
    y = X @ [1.0, -1.0] + np.sqrt(variance) * rng.standard_normal(n)
    weight = variance.mean() / variance
    model = BayesianGLMRegressor(prior_precision="flat").fit(X, y, sample_weight=weight / weight.mean())
    A = np.column_stack([X, np.ones(n)])
    gram = A.T @ (weight[:, None] * A)
    best = np.linalg.solve(gram, A.T @ (weight * y))
    error = np.sqrt(np.sum(weight * np.square(y - A @ best)) / (n - 3) * np.diag(np.linalg.inv(gram)))
    np.testing.assert_allclose(model.coef_, best[:2], atol=1e-6)
    np.testing.assert_allclose(model.coef_std_, error[:2], rtol=0.02)


def test_a_table_of_pairs_is_read_alike():
    pairs = pd.DataFrame({"user": np.arange(N) % 4, "item": np.arange(N) % 5})
    y = pd.Series(np.arange(N, dtype=float))
    with pytest.warns(UserWarning, match="X and y have the same index in different orders"):
        GeneralizedPMF(n_components=1).fit(pairs, y[::-1])


def counts(seed, n=40):
    """Counts on days with exposures, and what is given in another order beside them."""
    rng, days = np.random.default_rng(seed), pd.date_range("2024-01-01", periods=n)
    exposure = pd.Series(rng.uniform(1.0, 9.0, n), days)
    X = pd.DataFrame({"a": rng.standard_normal(n)}, days)
    turned = exposure[::-1]
    beside = {"exposure": turned, "offset": np.log(turned), "sample_weight": turned.round()}
    return X, pd.Series(rng.poisson(exposure).astype(float), days), beside


def told_once(call, name, first):
    """Whether a call that takes a value per row tells once that it went by position, and beside what."""
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        call()
    told = [str(one.message) for one in said if "in different orders" in str(one.message)]
    return len(told) == 1 and told[0].startswith(f"{first} and {name} have the same index")


@pytest.mark.parametrize("name", ["exposure", "offset", "sample_weight"])
@pytest.mark.parametrize("fit", ["fit", "partial_fit"])
def test_whatever_has_a_value_per_row_tells_of_its_order(fit, name, global_random_seed):
    X, y, beside = counts(global_random_seed)
    given = {name: beside[name]}
    series = {"level_variance": 0.01}
    for model in (BayesianGLMRegressor(likelihood="poisson"), DynamicGLM(**series)):
        assert told_once(lambda model=model: getattr(model, fit)(X, y, **given), name, "X")
        if fit == "partial_fit" and isinstance(model, DynamicGLM):
            later = [table.set_axis(pd.date_range("2024-02-10", periods=40)) for table in (X, y, beside[name][::-1])]
            assert told_once(lambda m=model, rows=later: m.partial_fit(*rows[:2], **{name: rows[2][::-1]}), name, "X")
    assert told_once(lambda: getattr(DynamicGLM(**series), fit)(None, y, **given), name, "y")
    assert told_once(lambda: getattr(DynamicGLM(**series), fit)(X.reset_index(drop=True), y, **given), name, "y")
    shops = X.assign(shop="one").set_index("shop", append=True)
    own = {name: beside[name].set_axis(shops.index[::-1])}
    assert told_once(lambda: getattr(DynamicGLM(groups="shop", **series), fit)(shops, y.to_numpy(), **own), name, "X")


@pytest.mark.parametrize("name", ["exposure", "offset", "sample_weight"])
def test_predictions_and_scores_tell_of_it_too(name, global_random_seed):
    X, y, beside = counts(global_random_seed)
    given, plain = {name: beside[name]}, {"exposure": np.exp(beside["offset"].to_numpy()[::-1])}
    gp = SparseGPRegressor(n_inducing=4, likelihood="poisson")
    fitted = [m.fit(X, y, **plain) for m in (BayesianGLMRegressor(likelihood="poisson"), gp, DynamicGLM())]
    for model in fitted:
        assert told_once(
            lambda model=model: model.score(X, y, **({} if name == "exposure" else plain) | given), name, "X"
        )
        if name != "sample_weight":
            assert told_once(lambda model=model: model.predict(X, **given), name, "X")
    alone = DynamicGLM(level_variance=0.01).fit(None, y, **plain)
    assert told_once(lambda: alone.score(None, y, **({} if name == "exposure" else plain) | given), name, "y")
    if name != "sample_weight":
        ahead = pd.date_range("2024-02-10", periods=2)
        own = {name: beside[name].iloc[:2].set_axis(ahead[::-1])}
        assert told_once(lambda: alone.forecast(2, **own), name, "forecast")
        assert told_once(lambda: alone.log_predictive_density(None, y, **given), name, "y")
        later = X.iloc[:2].set_axis(ahead)
        assert told_once(lambda: fitted[2].forecast(2, later, **own), name, "X")


@pytest.mark.parametrize("name", ["exposure", "offset", "sample_weight"])
def test_numbers_of_other_dates_are_told_of(name, global_random_seed):
    """A series of exposures that is a day, or a year, off was taken without a word."""
    X, y, beside = counts(global_random_seed)
    own = beside[name][::-1]
    there = DynamicGLM(level_variance=0.01).fit(X, y, **{name: own})
    for dates in (own.index.shift(1), own.index - pd.Timedelta("365D")):
        other = {name: own.set_axis(dates)}
        with pytest.warns(UserWarning, match=f"X and {name} have different dates .row 0 .*{name}.to_numpy"):
            told = DynamicGLM(level_variance=0.01).fit(X, y, **other)
        assert told.lower_bound_ == there.lower_bound_
        with pytest.warns(UserWarning, match=f"y and {name} have different dates"):
            DynamicGLM(level_variance=0.01).fit(None, y.to_period("D"), **{name: other[name].to_period("D")})
    if name != "sample_weight":
        with pytest.warns(UserWarning, match=f"X and {name} have different dates"):
            there.forecast(2, X[:2].set_axis(pd.date_range("2024-02-10", periods=2)), **{name: own[:2]})
    with warnings.catch_warnings():  # of other kinds, of X or of y
        warnings.simplefilter("error")
        warnings.filterwarnings("ignore", "y varies .* times as much as")  # by exposures, given as weights or of others
        DynamicGLM(level_variance=0.01).fit(X, y, **{name: own.to_period("D")})
        BayesianGLMRegressor(likelihood="poisson").fit(X[:-1], y[1:], **{name: own[1:]})


def test_other_indices_are_no_finding(global_random_seed):
    """The same order, other labels, labels twice, none: nothing says that rows belong together otherwise."""
    X, y = table(global_random_seed)
    others = [
        y,
        y.to_numpy(),
        y.to_list(),
        y.set_axis(range(1, N + 1)),
        y.set_axis([0] * N),
        y.set_axis([str(k) for k in range(N)]),
    ]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for own in others:
            BayesianGLMRegressor().fit(X, own)
        BayesianGLMRegressor().fit(X.to_numpy(), y[::-1])
        BayesianGLMRegressor().fit(X.set_axis([0] * N), y.set_axis([0] * N)[::-1])


@pytest.mark.parametrize(
    "model", [BayesianGLMRegressor(), GPClassifier(), SparseGPRegressor(), GammaFactorModel()], ids=repr
)
@pytest.mark.parametrize("nothing", [None, np.nan, pd.NA], ids=str)
def test_a_missing_value_is_named_with_what_to_do(model, nothing):
    X, y = table(0)
    target = (y > 0) if isinstance(model, GPClassifier) else y
    whole, one = X.astype(object), X.astype(object)
    whole["b"], one.loc[4, "b"] = nothing, nothing
    for given, where in ((whole, "(row 0|every row)"), (one, "row 4")):
        with pytest.raises(ValueError, match=rf"column 'b' of X, {where}: .*X contains NaN") as caught:
            model.fit(given, target)
        text = str(caught.value)
        assert "HistGradientBoosting" not in text and "\n" not in text
        assert nothing is pd.NA or "SimpleImputer" in text
    if nothing is None:
        with pytest.raises(ValueError, match=r"column 'b' of X, every row: .*Leave out the column"):
            model.fit(whole, target)
