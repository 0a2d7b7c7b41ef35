"""`sksvi.metrics`: scores against closed forms and scikit-learn's losses, scorers in its cross-validation."""

import numpy as np
import pandas as pd
import pytest
from scipy.stats import norm
from sklearn import metrics as others
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.metrics import log_loss, mean_pinball_loss
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from sksvi import BayesianGLMClassifier, BayesianGLMRegressor, metrics
from sksvi.metrics import (
    average_precision_score,
    catalogue_coverage,
    coverage_error,
    crps,
    crps_scorer,
    expected_calibration_error,
    interval_score,
    interval_scorer,
    log_density_scorer,
    ndcg_score,
    precision_score,
    recall_score,
)

N = 60


@pytest.fixture
def rng(global_random_seed):
    return np.random.default_rng([global_random_seed, 42])


def crps_of_normal(y, mean, std):
    z = (y - mean) / std
    return std * (z * (2 * norm.cdf(z) - 1) + 2 * norm.pdf(z) - np.pi**-0.5)


def rows(rng, n=N):
    X = rng.standard_normal((n, 3))
    return X, X @ [1.0, -1.0, 0.0] + rng.standard_normal(n)


def test_every_name_is_public_and_has_a_test():
    imported = {name for name in globals() if name in metrics.__all__}
    assert imported == set(metrics.__all__)


# ---- scores
def test_ranked_probability_of_draws_has_no_bias(rng):
    y, mean, std = rng.standard_normal(N), rng.standard_normal(N), rng.uniform(0.5, 2.0, N)
    found = np.array([crps(y, mean[:, None] + std[:, None] * rng.standard_normal((N, 5))) for _ in range(400)])
    error = found.std(ddof=1) / len(found) ** 0.5
    assert abs(found.mean() - crps_of_normal(y, mean, std).mean()) < 4 * error


def test_interval_score_is_the_loss_of_its_quantiles(rng):
    y, low = rng.standard_normal(N), rng.standard_normal(N)
    high, weight = low + rng.gamma(1.0, size=N), rng.uniform(0.5, 2.0, N)
    losses = sum(
        mean_pinball_loss(y, end, alpha=level, sample_weight=weight) for end, level in ((low, 0.1), (high, 0.9))
    )
    found = interval_score(y, low, high, coverage=0.8, sample_weight=weight)
    np.testing.assert_allclose(found, losses / 0.1, rtol=1e-12)


def test_coverage_error_counts_and_ends_belong():
    assert coverage_error([0, 1, 2, 3], [0, 0, 0, 0], [1, 1, 1, 3], coverage=0.5) == pytest.approx(0.25)


def test_calibration_error_by_hand():
    p = np.array([[0.9, 0.1], [0.9, 0.1], [0.3, 0.7], [0.4, 0.6]])
    y = np.array(["a", "b", "b", "b"])
    bins = [abs(1 - 1.8) / 4, abs(1 - 0.7) / 4, abs(1 - 0.6) / 4]
    assert expected_calibration_error(y, p, n_bins=10) == pytest.approx(sum(bins))
    assert expected_calibration_error(y == "b", p[:, 1], n_bins=10) == pytest.approx(sum(bins))
    assert expected_calibration_error(y, p, n_bins=1) == pytest.approx(abs(3 - 3.1) / 4)
    some = expected_calibration_error(["b", "b"], p[2:], labels=["a", "b"])
    assert some == pytest.approx((0.3 + 0.4) / 2)


def test_perfect_probabilities_are_calibrated(rng):
    n = 20_000
    p = rng.uniform(size=n)
    error = 15 * 0.5 / (n / 15) ** 0.5 / 15  # each bin's mean deviation is below that of a fair coin
    assert expected_calibration_error(rng.uniform(size=n) < p, p) < 4 * error


@pytest.mark.parametrize("name", ["crps", "interval_score", "coverage_error", "expected_calibration_error"])
def test_weights_are_copies(name, rng):
    y, weight, labels = rng.standard_normal(N), rng.integers(1, 4, N), rng.integers(0, 3, N)
    ends, p = np.sort(rng.standard_normal((N, 2))), rng.dirichlet(np.ones(3), N)
    arguments = {"crps": (y, ends), "expected_calibration_error": (labels, p)}.get(name, (y, *ends.T))
    score = getattr(metrics, name)
    copies = score(*(np.repeat(part, weight, axis=0) for part in arguments))
    assert score(*arguments, sample_weight=weight) == pytest.approx(copies)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: interval_score([0.0], [1.0], [0.0]), "lower is above upper in row 0: 1 and 0"),
        (lambda: interval_score([0.0], [0.0], [1.0], coverage=90), "coverage"),
        (lambda: coverage_error([0.0, 1.0], [0.0], [1.0]), "inconsistent numbers of samples"),
        (lambda: coverage_error(["a"], [0.0], [1.0]), "y_true"),
        (lambda: crps([0.0], [[1.0]]), "minimum of 2"),
        (lambda: expected_calibration_error([0, 1], [[0.2, 0.3, 0.5]] * 2), "3 columns for 2 labels"),
        (
            lambda: expected_calibration_error([0, 2], [[0.2, 0.8]] * 2, labels=[0, 1]),
            "has the label 2, and labels are",
        ),
        (lambda: expected_calibration_error([0, 1], [[0.2, 0.8]] * 2, n_bins=0), "n_bins"),
    ],
)
def test_what_cannot_be_is_an_error(call, message):
    with pytest.raises(ValueError, match=message):
        call()


# ---- scorers
def test_scorers_of_a_normal_prediction(rng):
    X, y = rows(rng, 400)
    model = BayesianGLMRegressor().fit(X, y)
    mean, std = model.predict(X, return_std=True)
    np.testing.assert_allclose(-crps_scorer(model, X, y), crps_of_normal(y, mean, std).mean(), rtol=0.005)
    np.testing.assert_allclose(log_density_scorer(model, X, y), norm.logpdf(y, mean, std).mean(), atol=0.01)
    ends = model.predict_interval(X, 0.9).T
    assert interval_scorer(model, X, y) == -interval_score(y, *ends)


def test_scorers_in_cross_validation(rng):
    X, y = rows(rng)
    pipeline = make_pipeline(StandardScaler(), BayesianGLMRegressor())
    for scorer in (log_density_scorer, crps_scorer, interval_scorer):
        assert np.all(np.isfinite(cross_val_score(pipeline, X, y, scoring=scorer, cv=3)))
    grid = {"bayesianglmregressor__likelihood": ["gaussian", "student-t"]}
    search = GridSearchCV(pipeline, grid, scoring=log_density_scorer, cv=3).fit(X, y)
    assert log_density_scorer(search, X, y) == pytest.approx(log_density_scorer(search.best_estimator_, X, y))


@pytest.mark.parametrize("classifier", [BayesianGLMClassifier(), LogisticRegression()])
def test_log_density_of_classifiers_is_their_log_loss(classifier, rng):
    X, y = rows(rng)
    labels, weight = np.where(y > 0, "yes", "no"), rng.uniform(0.5, 2.0, N)
    model = classifier.fit(X, labels)
    loss = log_loss(labels, model.predict_proba(X), sample_weight=weight)
    assert log_density_scorer(model, X, labels, weight) == pytest.approx(-loss)


def test_scorers_refuse_what_has_no_such_prediction(rng):
    X, y = rows(rng)
    with pytest.raises(TypeError, match="log_predictive_density"):
        log_density_scorer(Ridge().fit(X, y), X, y)
    with pytest.raises(TypeError, match="predict_quantiles"):
        crps_scorer(Ridge().fit(X, y), X, y)
    levels = pd.Series(np.array(["low", "mid", "top"])[np.digitize(y, [-1, 1])])
    levels = levels.astype(pd.CategoricalDtype(["low", "mid", "top"], ordered=True))
    model = BayesianGLMRegressor(likelihood="ordinal").fit(X, levels)
    with pytest.raises(TypeError, match="predictions are levels such as"):
        crps_scorer(model, X, y)
    assert log_density_scorer(model, X, levels) < 0


# ---- recommendations
def ranking(rng, n_users=6, n_items=9):
    """Scores of all items by user, which of them are true (one at least), and both as tables of ids."""
    score, relevant = rng.random((n_users, n_items)), rng.random((n_users, n_items)) < 0.4
    relevant[:, 0] |= ~relevant.any(1)
    order = np.argsort(-score, axis=1)
    table = pd.DataFrame({"user": np.repeat(np.arange(n_users), n_items), "item": order.ravel()})
    table["rank"] = np.tile(np.arange(n_items) + 1, n_users)
    user, item = np.nonzero(relevant)
    return score, relevant, pd.DataFrame({"user": user, "item": item}), table.sample(frac=1.0, random_state=0)


def test_scores_of_recommendations_are_those_of_each_user_by_scikit_learn(rng):
    score, relevant, true, table = ranking(rng)
    whole = {"k": score.shape[1]}
    expected = np.mean([others.average_precision_score(*each) for each in zip(relevant, score, strict=True)])
    assert average_precision_score(true, table, **whole) == pytest.approx(expected)
    for k in (1, 4, 9):
        assert ndcg_score(true, table, k=k) == pytest.approx(others.ndcg_score(relevant, score, k=k))
        hits = np.take_along_axis(relevant, np.argsort(-score, axis=1)[:, :k], 1).sum(1)
        assert precision_score(true, table, k=k) == pytest.approx(np.mean(hits / k))
        assert recall_score(true, table, k=k) == pytest.approx(np.mean(hits / relevant.sum(1)))
    arrays = true.to_numpy(), table.sort_values(["user", "rank"])[["user", "item"]].to_numpy()
    assert ndcg_score(*arrays, k=4) == ndcg_score(true, table, k=4)
    assert catalogue_coverage(np.arange(18), table, **whole) == 0.5


def test_users_without_an_answer_count_as_misses_and_others_not_at_all():
    true, table = [("a", 1), ("a", 1), ("b", 2)], pd.DataFrame({"who": ["a", "c"], "what": [1, 7], "rank": [1, 1]})
    for score in (precision_score, recall_score, ndcg_score, average_precision_score):
        assert score(true, table, k=1) == 0.5


def test_recommendations_that_cannot_be_scored_are_refused():
    true, table = pd.DataFrame({"user": ["1"], "item": [2]}), pd.DataFrame({"user": ["1"], "item": [2]})
    bad = {
        "of one type": (true, table.assign(user=1)),
        "named alike": (true[["item", "user"]], table),
        "twice for the user '1'": (true, pd.concat([table, table])),
        "no item in row 0": (true.assign(item=None), table),
        "table of pairs": (true["user"], table),
    }
    for message, tables in bad.items():
        with pytest.raises(ValueError, match=message):
            recall_score(*tables)
    with pytest.raises(ValueError, match="k must be an integer"):
        ndcg_score(true, table, k=0)
    with pytest.raises(ValueError, match="item 2, which is none of"):
        catalogue_coverage([1], table)
    with pytest.raises(ValueError, match="items is empty"):
        catalogue_coverage([], table)
