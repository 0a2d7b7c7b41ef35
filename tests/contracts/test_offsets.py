"""An offset of a fit is wanted in predictions, through scikit-learn's wrappers too."""

from __future__ import annotations

import warnings

import numpy as np
import pandas as pd
import pytest
from sklearn import config_context
from sklearn.base import clone, is_classifier
from sklearn.compose import TransformedTargetRegressor
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LinearRegression
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import sksvi
from sksvi import (
    BayesianGLMClassifier,
    BayesianGLMRegressor,
    DynamicGLM,
    GMEClassifier,
    GMERegressor,
    GPClassifier,
    IntervalCoverageDisplay,
    PartialEffectDisplay,
    PITDisplay,
    PosteriorPredictiveDisplay,
    SparseGPClassifier,
    SparseGPRegressor,
    predict_interval,
    predict_std,
)
from sksvi.inspection import marginal_effects
from sksvi.persistence.writer import saved_state

# Fits of a few passes: nothing here depends on how good they are.
pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")

N = 40
MODELS = [
    BayesianGLMClassifier(max_iter=5),
    BayesianGLMRegressor(likelihood="poisson", max_iter=5),
    GMEClassifier(max_iter=5),
    GMERegressor(likelihood="poisson", bound="simple", max_iter=5),
    GPClassifier(max_iter=5, optimize_hyperparameters=False),
    SparseGPClassifier(max_iter=5, n_inducing=5, optimize_hyperparameters=False, random_state=0),
    SparseGPRegressor(likelihood="poisson", max_iter=5, n_inducing=5, optimize_hyperparameters=False, random_state=0),
]
NAME = lambda model: type(model).__name__  # noqa: E731
WANTED = "was fitted with an offset and predicts without one"


@pytest.fixture
def rng(global_random_seed):
    return np.random.default_rng(global_random_seed)


def problem(model, rng):
    X, offset = rng.standard_normal((N, 2)), 0.5 * rng.standard_normal(N)
    f = 0.5 * X[:, 0] + offset
    return (
        X,
        rng.poisson(np.exp(f)) if not is_classifier(model) else np.digitize(f + rng.logistic(size=N), [0.0]),
        offset,
    )


def silent(call):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.simplefilter("ignore", ConvergenceWarning)
        return call()


@pytest.mark.parametrize("model", MODELS, ids=lambda model: type(model).__name__)
def test_a_missing_offset_is_told_once(model, rng, tmp_path):
    X, y, offset = problem(model, rng)
    model = clone(model).fit(X, y, offset=offset)
    model.save(tmp_path / "model")
    before = saved_state(model)
    silent(lambda: model.predict(X, offset=offset))
    silent(lambda: model.predict(X, offset=0))
    with pytest.warns(UserWarning, match=f"{type(model).__name__} {WANTED}"):
        missing = model.predict(X)
    assert saved_state(model) == before  # what is found again is no part of it
    np.testing.assert_array_equal(missing, silent(lambda: model.predict(X)))
    silent(lambda: model.score(X, y))
    silent(lambda: model.predict_latent(X))
    for other in (sksvi.load(tmp_path / "model"), model.fit(X, y, offset=offset)):
        with pytest.warns(UserWarning, match=WANTED):
            other.score(X, y)
    for none in (None, np.zeros(N)):
        silent(lambda none=none: model.fit(X, y, offset=none).predict(X))


@pytest.mark.parametrize("model", [m for m in MODELS if hasattr(m, "partial_fit")], ids=lambda m: type(m).__name__)
def test_any_chunk_with_an_offset_counts(model, rng):
    X, y, offset = problem(model, rng)
    classes = {"classes": [0, 1]} if is_classifier(model) else {}
    model = clone(model).partial_fit(X, y, **classes)
    silent(lambda: model.predict(X))
    model.partial_fit(X, y, offset=offset).partial_fit(X, y)
    with pytest.warns(UserWarning, match=WANTED):
        model.predict(X)
    silent(lambda: model.fit(X, y).predict(X))


@pytest.mark.parametrize("wrapper", ["pipeline", "pipeline in a pipeline", "search"])
def test_functions_take_an_offset_through_wrappers(wrapper, rng):
    inner = BayesianGLMRegressor(likelihood="poisson", prior_precision=1.0)
    X, y, offset = problem(inner, rng)
    with config_context(enable_metadata_routing=True):
        model = make_pipeline(StandardScaler(), inner.set_fit_request(offset=True).set_score_request(offset=True))
        if wrapper == "search":
            model = GridSearchCV(model, {"bayesianglmregressor__prior_precision": [1.0, 2.0]}, cv=2)
        elif wrapper != "pipeline":
            model = make_pipeline(StandardScaler(), model)
        silent(lambda: model.fit(X, y, offset=offset))
    Z, last = X, getattr(model, "best_estimator_", model)
    while hasattr(last, "steps"):
        Z, last = last[:-1].transform(Z), last[-1]
    interval = predict_interval(model, X, 0.8, offset=offset)
    np.testing.assert_array_equal(interval, last.predict_interval(Z, 0.8, offset=offset))
    np.testing.assert_array_equal(predict_std(model, X, offset=offset), last.predict(Z, True, offset=offset)[1])
    with pytest.warns(UserWarning, match=WANTED):
        without = predict_interval(model, X, 0.8)
    assert not np.array_equal(without, interval)


def test_an_offset_of_a_transformed_target(rng):
    X, offset = rng.standard_normal((N, 2)), rng.standard_normal(N)
    y = np.exp(X[:, 0] + offset + 0.2 * rng.standard_normal(N))
    model = TransformedTargetRegressor(BayesianGLMRegressor(hyperparameters="point"), func=np.log, inverse_func=np.exp)
    model.fit(X, y, offset=offset)
    inner = model.regressor_
    np.testing.assert_allclose(
        predict_interval(model, X, offset=offset), np.exp(inner.predict_interval(X, offset=offset)), rtol=1e-10
    )
    mean, std = inner.predict(X, return_std=True, offset=offset)
    lognormal = np.exp(mean + 0.5 * std**2) * np.sqrt(np.expm1(std**2))
    np.testing.assert_allclose(predict_std(model, X, offset=offset), lognormal, rtol=1e-3)


def test_who_takes_no_offset_says_so(rng):
    X = rng.standard_normal((N, 2))
    with pytest.raises(TypeError, match="LinearRegression has no predict_interval"):
        predict_interval(LinearRegression().fit(X, X[:, 0]), X, offset=0)


# ---- exposure and class weights
RATES = [
    *(m for m in MODELS if m.get_params().get("likelihood") == "poisson"),
    BayesianGLMRegressor(likelihood="negative-binomial", max_iter=5),
]


def counted(model, rng):
    X, y, log_exposure = problem(model, rng)
    return pd.DataFrame(X, columns=["a", "b"]), y, np.exp(log_exposure)


@pytest.mark.parametrize("model", [*RATES, DynamicGLM(max_iter=5)], ids=NAME)
def test_errors_about_exposure_name_it(model, rng):
    X, y, exposure = counted(model, rng)
    model = clone(model)
    calls = [lambda wrong: model.fit(X, y, exposure=wrong), lambda wrong: model.partial_fit(X, y, exposure=wrong)]
    fitted = clone(model).fit(X, y, exposure=exposure)
    calls.append(lambda wrong: fitted.predict(X, exposure=wrong))
    calls.append(lambda wrong: fitted.score(X, y, exposure=wrong))
    calls.append(lambda wrong: fitted.log_predictive_density(X, y, exposure=wrong))
    for call in calls:
        for wrong, match in (
            (exposure[:5], rf"^exposure.shape == \(5,\), expected \({N},\)"),
            (exposure[:, None], r"^exposure.shape == "),
            (-exposure, "^exposure must be positive"),
            (np.where(np.arange(N) == 3, np.nan, exposure), "exposure contains NaN"),
        ):
            with pytest.raises(ValueError, match=match):
                call(wrong)
    assert not hasattr(model, "state_")


def test_exposures_of_a_forecast(rng):
    _, y, exposure = counted(MODELS[1], rng)
    model = DynamicGLM(max_iter=5).fit(None, y, exposure=exposure)
    with pytest.raises(ValueError, match=r"^exposure.shape == \(2,\), expected \(3,\)"):
        model.forecast(3, exposure=exposure[:2])
    with pytest.raises(ValueError, match=r"^exposure was given without y"):
        model.log_predictive_density(exposure=exposure)
    groups = pd.DataFrame({"shop": np.repeat(["u", "v"], N // 2)})
    panel = DynamicGLM(groups="shop", max_iter=5).fit(groups, y, exposure=exposure)
    with pytest.raises(ValueError, match=r"^exposure has an entry per row"):
        panel.forecast(3, exposure=exposure[:3])
    with pytest.warns(UserWarning, match="fitted with an exposure"):
        panel.forecast(3)


@pytest.mark.parametrize("model", RATES, ids=NAME)
def test_a_missing_exposure_is_told_by_its_name(model, rng, tmp_path):
    X, y, exposure = counted(model, rng)
    told = r"was fitted with an exposure and predicts without one, as if it were 1: .*exposure=1"
    model = clone(model).partial_fit(X, y).partial_fit(X, y, exposure=exposure).partial_fit(X, y)
    model.save(tmp_path / "model")
    for fitted in (model, sksvi.load(tmp_path / "model"), clone(model).fit(X, y, exposure=exposure)):
        with pytest.warns(UserWarning, match=told) as caught:
            fitted.predict(X)
        assert caught[0].filename == __file__
    with pytest.warns(UserWarning, match=WANTED):
        model.fit(X, y, offset=np.log(exposure)).predict(X)


EFFECTS = {
    "marginal_effects": lambda *args, **given: marginal_effects(*args[:2], n_draws=5, **given),
    "PartialEffectDisplay": lambda model, X, y, **given: PartialEffectDisplay.from_estimator(
        model, X, "a", n_draws=5, **given
    ),
    "IntervalCoverageDisplay": IntervalCoverageDisplay.from_estimator,
    "PITDisplay": PITDisplay.from_estimator,
    "PosteriorPredictiveDisplay": PosteriorPredictiveDisplay.from_estimator,
}


@pytest.mark.parametrize("name", EFFECTS)
def test_effects_and_displays_tell_of_a_missing_exposure_once(name, rng):
    X, y, exposure = counted(MODELS[1], rng)
    model = clone(MODELS[1]).fit(X, y, exposure=exposure)
    silent(lambda: EFFECTS[name](model, X, y, exposure=1.0))
    with pytest.warns(UserWarning, match="fitted with an exposure") as caught:
        EFFECTS[name](model, X, y)
    assert len(caught) == 1 and caught[0].filename == __file__
    silent(lambda: EFFECTS[name](model, X, y))


@pytest.mark.parametrize("model", RATES, ids=lambda m: f"{NAME(m)}, {m.likelihood}")
def test_exposure_is_an_offset_of_its_logarithm(model, rng, tmp_path):
    X, y, offset = problem(model, rng)
    exposure, both = np.exp(offset), rng.standard_normal(N)
    by_offset = clone(model).set_params(random_state=0).fit(X, y, offset=np.log(exposure))
    by_exposure = clone(model).set_params(random_state=0).fit(X, y, exposure=exposure)
    assert by_offset.lower_bound_ == by_exposure.lower_bound_
    for name, args in (
        ("predict", ()),
        ("predict_interval", (0.8,)),
        ("predict_quantiles", ([0.3],)),
        ("sample_y", (2, 0)),
        ("log_predictive_density", (y,)),
        ("score", (y,)),
    ):
        ask = getattr(by_exposure, name)
        want = ask(X, *args, offset=np.log(exposure) + both)
        np.testing.assert_array_equal(ask(X, *args, exposure=exposure, offset=both), want)
    with pytest.warns(UserWarning, match="fitted with an exposure and predicts without one"):
        by_exposure.predict(X)
    with pytest.raises(ValueError, match="exposure must be positive; found 0 in row 3"):
        clone(model).fit(X, y, exposure=np.where(np.arange(N) == 3, 0.0, 1.0))


@pytest.mark.parametrize("likelihood", ["gaussian", "logit", "poisson-softplus"])
def test_exposure_needs_a_rate(likelihood, rng):
    X = rng.standard_normal((N, 2))
    with pytest.raises(ValueError, match=f"exposure multiplies a rate exp.*likelihood='{likelihood}' has none"):
        BayesianGLMRegressor(likelihood=likelihood).fit(X, (X[:, 0] > 0).astype(float), exposure=1.0)


CLASSIFIERS = [m for m in MODELS if is_classifier(m)]


@pytest.mark.filterwarnings("ignore:sample_weight says how many rows")
@pytest.mark.filterwarnings("ignore:class_weight counts rows")
@pytest.mark.parametrize("model", CLASSIFIERS, ids=NAME)
def test_class_weights_are_weights_of_rows(model, rng):
    X, y, _ = problem(model, rng)
    names, own = np.array(["no", "yes"])[y], rng.uniform(0.5, 2.0, N)
    model = clone(model).set_params(random_state=0)
    weighted = clone(model).fit(X, names, sample_weight=own * np.where(y == 1, 3.0, 1.0))
    given = clone(model).set_params(class_weight={"yes": 3.0}).fit(X, names, sample_weight=own)
    assert given.lower_bound_ == weighted.lower_bound_
    np.testing.assert_array_equal(given.predict_proba(X), weighted.predict_proba(X))
    counts = np.bincount(y, own)
    weighted = clone(model).fit(X, names, sample_weight=own * (counts.sum() / (2 * counts))[y])
    given = clone(model).set_params(class_weight="balanced").fit(X, names, sample_weight=own)
    np.testing.assert_allclose(given.predict_proba(X), weighted.predict_proba(X), rtol=1e-10)
    for wrong, match in (({"maybe": 1.0}, "names 'maybe', and y has"), ({"yes": -1.0}, "positive numbers; found -1.0")):
        with pytest.raises(ValueError, match=match):
            clone(model).set_params(class_weight=wrong).fit(X, names)
    if hasattr(model, "partial_fit"):
        with pytest.raises(ValueError, match="needs all rows at hand"):
            clone(model).set_params(class_weight="balanced").partial_fit(X, names, classes=["no", "yes"])
        part = clone(model).set_params(class_weight={"yes": 3.0}).partial_fit(X, names, classes=["no", "yes"])
        assert part.n_samples_seen_ == np.sum(np.where(y == 1, 3.0, 1.0))
