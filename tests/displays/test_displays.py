"""Displays draw what the estimator holds; export hands the posterior's draws to ArviZ."""

from __future__ import annotations

import builtins
import warnings
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from numpy.testing import assert_allclose, assert_array_equal
from scipy.stats import norm
from sklearn.base import BaseEstimator, clone
from sklearn.compose import ColumnTransformer
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, OneHotEncoder, StandardScaler

from sksvi import BayesianGLMClassifier, BayesianGLMRegressor, GMERegressor
from sksvi._names import apart
from sksvi.arviz import to_arviz
from sksvi.datasets import make_glm
from sksvi.displays import CoefficientDisplay, GroupEffectsDisplay, LowerBoundDisplay, feature_names


class Fitted(BaseEstimator):
    """Least squares with the attributes that the displays read."""

    def __init__(self, *, n_passes=4, names=True):
        self.n_passes = n_passes
        self.names = names

    def fit(self, X, y):
        if self.names and hasattr(X, "columns"):
            self.feature_names_in_ = np.asarray(X.columns, dtype=object)
        X = np.asarray(X, float)
        self.n_features_in_ = X.shape[1]
        self.coef_ = np.linalg.lstsq(X, y, rcond=None)[0]
        self.coef_std_ = np.linspace(0.1, 0.2, X.shape[1])
        steps = np.arange(1, self.n_passes + 1)
        self.history_ = pd.DataFrame({"pass": steps, "seconds": 0.5 * steps, "bound": -100.0 / steps})
        return self

    def score(self, X, y):
        return 0.0


@pytest.fixture
def frame(global_random_seed):
    rng = np.random.default_rng(global_random_seed)
    X = pd.DataFrame(rng.normal(size=(40, 3)), columns=["age", "dose", "weight"])
    return X, X["age"] - X["dose"] + rng.normal(size=40)


def tick_names(display):
    return [label.get_text() for label in display.ax_.get_yticklabels()]


def test_bounds_of_one_fit(frame):
    fit = Fitted().fit(*frame)
    display = LowerBoundDisplay.from_estimator(fit, scale="bound", color="C3")
    (line,) = display.lines_
    assert_array_equal(line.get_xdata(), [1, 2, 3, 4])
    assert_array_equal(line.get_ydata(), fit.history_["bound"])
    assert display.ax_.get_yscale() == "linear" and display.ax_.get_ylabel() == "Lower bound (nats)"
    assert line.get_label() == "Fitted" and line.get_color() == "C3"
    assert display.ax_.get_xlabel() == "Passes over the data" and display.figure_ is display.ax_.figure


def test_passes_are_counted_in_whole_numbers(frame):
    display = LowerBoundDisplay.from_estimator(Fitted(n_passes=3).fit(*frame))
    ticks = display.ax_.get_xticks()
    assert len(ticks) >= 3 and np.all(ticks == np.round(ticks))


def test_several_fits_share_one_axis_with_their_names(frame):
    import matplotlib.pyplot as plt

    figure, ax = plt.subplots()
    inside = make_pipeline(StandardScaler(), Fitted(n_passes=1)).fit(*frame)
    fits = {"short": Fitted(n_passes=2).fit(*frame), "pipeline": inside}
    display = LowerBoundDisplay.from_estimator(fits, x="seconds", ax=ax)
    assert display.ax_ is ax and display.figure_ is figure
    assert [line.get_label() for line in display.lines_] == ["short", "pipeline"]
    assert [text.get_text() for text in ax.get_legend().get_texts()] == ["short", "pipeline"]
    assert_array_equal(display.lines_[0].get_xdata(), [0.5, 1.0])
    assert display.lines_[1].get_marker() == "o"  # a single pass is a point
    assert ax.get_xlabel() == "Seconds"


def test_intervals_are_those_of_the_posterior(frame):
    fit = Fitted().fit(*frame)
    display = CoefficientDisplay.from_estimator(fit, coverage=0.8)
    assert_allclose(display.lower, norm.ppf(0.1, fit.coef_, fit.coef_std_)[None])
    assert_allclose(display.upper, norm.ppf(0.9, fit.coef_, fit.coef_std_)[None])
    (bars,) = display.errorbars_
    assert_allclose(bars.lines[0].get_xdata(), fit.coef_)
    segments = np.array(bars.lines[2][0].get_segments())
    assert_allclose(segments[:, :, 0], np.c_[display.lower[0], display.upper[0]])
    assert tick_names(display) == ["age", "dose", "weight"]
    bottom, top = display.ax_.get_ylim()
    assert bottom > top  # first column on top
    assert "80 %" in display.ax_.get_xlabel() and display.ax_.get_legend() is None
    display.figure_.canvas.draw()


def test_names_come_from_the_frame_the_pipeline_or_the_position(frame):
    X, y = frame
    X = X.assign(group=np.where(X["age"] > 0, "a", "b"))
    numbers = X[["age", "dose"]]
    assert tick_names(CoefficientDisplay.from_estimator(Fitted().fit(numbers.to_numpy(), y))) == ["x0", "x1"]
    columns = ColumnTransformer(
        [("one", OneHotEncoder(), ["group"]), ("same", "passthrough", ["age"])], verbose_feature_names_out=False
    )
    pipeline = make_pipeline(columns, StandardScaler(), Fitted()).fit(X, y)
    assert tick_names(CoefficientDisplay.from_estimator(pipeline)) == ["group_a", "group_b", "age"]
    nameless = make_pipeline(FunctionTransformer(np.asarray), Fitted()).fit(numbers, y)
    assert tick_names(CoefficientDisplay.from_estimator(nameless)) == ["x0", "x1"]
    search = GridSearchCV(make_pipeline(StandardScaler(), Fitted()), {"fitted__n_passes": [1, 2]}, cv=2)
    search.fit(numbers, y)
    assert tick_names(CoefficientDisplay.from_estimator(search)) == ["age", "dose"]


def test_every_class_has_its_row_of_artists():
    fit = SimpleNamespace(n_features_in_=2, coef_=np.arange(6.0).reshape(3, 2), coef_std_=np.ones((3, 2)))
    fit.classes_ = np.array(["low", "mid", "high"])
    display = CoefficientDisplay.from_estimator(fit)
    display.figure_.canvas.draw()
    legend, axes = display.ax_.get_legend().get_window_extent(), display.ax_.get_window_extent()
    assert legend.x0 >= axes.x1 and legend.x1 <= display.figure_.bbox.x1  # beside the data, inside the figure
    assert len(display.errorbars_) == 3
    assert [text.get_text() for text in display.ax_.get_legend().get_texts()] == ["low", "mid", "high"]
    heights = [bars.lines[0].get_ydata() for bars in display.errorbars_]
    assert np.all(np.diff(heights, axis=0) > 0) and np.all(np.abs(np.array(heights) - [0, 1]) < 0.5)


def test_the_clearest_features_are_kept_in_their_order():
    mean = np.array([0.1, 5.0, 0.0, -4.0, 1.0])
    fit = SimpleNamespace(n_features_in_=5, coef_=mean, coef_std_=np.array([0.01, 5.0, 0.0, 1.0, 0.1]))
    display = CoefficientDisplay.from_estimator(fit, max_features=3)
    assert display.feature_names == ["x0", "x3", "x4"]
    assert display.ax_.get_title(loc="left").startswith("3 of 5 columns")
    assert CoefficientDisplay.from_estimator(fit, max_features=None).mean.shape == (1, 5)


def test_columns_that_speak_for_a_class():
    rng = np.random.default_rng(0)
    fit = SimpleNamespace(n_features_in_=5, coef_=rng.standard_normal((3, 5)), coef_std_=np.ones((3, 5)))
    fit.classes_ = np.array(["low", "mid", "high"])
    display = CoefficientDisplay.from_estimator(fit, class_name="mid", max_features=2)
    top = np.argsort(-fit.coef_[1])[:2]
    assert display.feature_names == [f"x{j}" for j in top] and display.class_names == ["mid"]
    np.testing.assert_array_equal(display.mean, fit.coef_[1:2, top])
    assert display.ax_.get_title(loc="left") == "2 of 5 columns shown, those that speak most for the class"
    two = SimpleNamespace(n_features_in_=5, coef_=fit.coef_[:1], coef_std_=np.ones((1, 5)), classes_=np.array([0, 1]))
    first, second = (CoefficientDisplay.from_estimator(two, class_name=c) for c in (0, 1))
    assert first.feature_names == second.feature_names[::-1]
    np.testing.assert_array_equal(first.mean, -second.mean[:, ::-1])
    with pytest.raises(ValueError, match="class_name='none' is none of the classes"):
        CoefficientDisplay.from_estimator(fit, class_name="none")
    numbers = SimpleNamespace(n_features_in_=1, coef_=np.ones(1), coef_std_=np.ones(1))
    with pytest.raises(ValueError, match="has no classes"):
        CoefficientDisplay.from_estimator(numbers, class_name="mid")


@pytest.mark.costly
def test_bounds_by_their_distance_to_the_best():
    """By hand: the best exact bound is -80, the least distance 0.5, and an estimate above has no logarithm."""
    noisy = ([1, 2, 3, 4], [-100.0, -79.0, -90.0, -80.5], [False, False, False, True])
    display = LowerBoundDisplay({"noisy": noisy, "whole": ([1, 2], [-90.0, -80.0])}).plot()
    assert display.best == -80.0 and display.small == 0.25 and display.ax_.get_yscale() == "log"
    assert_array_equal(display.lines_[0].get_ydata(), [20.25, np.nan, 10.25])
    assert_array_equal(display.lines_[1].get_ydata(), [10.25, 0.25])
    (exact,) = display.exact_  # of the noisy fit alone: all values of the other are exact
    assert exact.get_xdata().tolist() == [4] and exact.get_ydata().tolist() == [0.75]
    said = [text.get_text() for text in display.ax_.get_legend().get_texts()]
    assert said == ["noisy", "whole", "estimated (1 above the best left out)", "exact"]
    plain = LowerBoundDisplay({"noisy": noisy}, scale="bound").plot()
    assert_array_equal(plain.lines_[0].get_ydata(), noisy[1][:3])
    only = LowerBoundDisplay({"noisy": ([1, 2], [-9.0, -7.0], [False, False])})
    assert only.best == -7.0 and only.small == 1.0
    with pytest.raises(ValueError, match="scale must be 'distance' or 'bound'; found 'log'"):
        LowerBoundDisplay({}, scale="log")
    with pytest.raises(ValueError, match=r"the trace 'a' has shapes \(2,\), \(1,\)"):
        LowerBoundDisplay({"a": ([1, 2], [-1.0])})


def test_estimates_of_a_fit_are_told_from_exact_values():
    X, y = make_glm(300, 3, likelihood="logit", random_state=0)
    model = BayesianGLMClassifier(algorithm="mc-ssvi", batch_size=20, max_iter=40, random_state=0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        model.fit(X, y)
    display = LowerBoundDisplay.from_estimator(model)
    assert not model.history_["exact"].any()  # the exact bound of such a fit is that of its end
    assert display.best == model.lower_bound_
    assert display.exact_[0].get_xdata().tolist() == [model.n_iter_]
    assert len(display.lines_[0].get_xdata()) == model.n_iter_
    whole = LowerBoundDisplay.from_estimator(BayesianGLMClassifier().fit(X, y))
    assert whole.exact_ == [] and len(whole.ax_.get_legend().get_texts()) == 1


def test_columns_in_the_order_of_their_coefficients():
    fit = SimpleNamespace(n_features_in_=3, coef_=np.array([0.5, -2.0, 1.0]), coef_std_=np.array([0.1, 0.2, 0.3]))
    assert CoefficientDisplay.from_estimator(fit, sort="mean").feature_names == ["x2", "x0", "x1"]
    display = CoefficientDisplay.from_estimator(fit, sort="distance")
    assert display.feature_names == ["x1", "x2", "x0"]
    assert_array_equal(display.errorbars_[0].lines[0].get_xdata(), [-2.0, 1.0, 0.5])
    assert_array_equal(display.std, [[0.2, 0.3, 0.1]])
    two = CoefficientDisplay([[0.1, 3.0], [-4.0, 1.0]], np.ones((2, 2)), "ab", "uv", sort="mean")
    assert two.feature_names == ["b", "a"]  # by 3 and -4, the means farthest from zero
    mean, std = [0.1, 3.0], [1.0, 1.0]
    skewed = CoefficientDisplay(mean, std, "ab", sort="mean", interval=([-0.5, 1.0], [2.0, 9.0]))
    assert_array_equal(skewed.lower, [[1.0, -0.5]])
    assert_array_equal(skewed.upper, [[9.0, 2.0]])
    with pytest.raises(ValueError, match=r"interval has ends of shapes \(1, 1\) and \(1, 2\) for means of \(1, 2\)"):
        CoefficientDisplay(mean, std, "ab", interval=([-0.5], [2.0, 9.0]))
    with pytest.raises(ValueError, match=r"sort must be None or one of \['mean', 'distance'\]; found 'size'"):
        CoefficientDisplay.from_estimator(fit, sort="size")


def test_coefficients_per_spread_of_their_column(frame):
    """Two standard deviations, of a column of two values their distance: as the model knows it, or as X says it."""
    X, y = frame
    X = X.assign(weight=np.where(X["weight"] > 0, 7.0, 4.0), dose=1000 * X["dose"])
    spread = np.array([2 * X["age"].std(ddof=0), 2 * X["dose"].std(ddof=0), 3.0])
    model = BayesianGLMRegressor().fit(X, y)
    display = CoefficientDisplay.from_estimator(model, standardize=True)
    rows = model.summary().loc[list(X.columns)]
    for shown, column in ((display.mean, "mean"), (display.std, "std"), (display.lower, "lower")):
        assert_allclose(shown[0], rows[column].to_numpy(float) * spread)
    assert "per spread of its column" in display.ax_.get_xlabel()
    assert "spread" not in CoefficientDisplay.from_estimator(model).ax_.get_xlabel()
    fixed = BayesianGLMRegressor(prior_precision=np.ones(3)).fit(X, y)
    with pytest.raises(ValueError, match=r"BayesianGLMRegressor does not know what its columns spread over.*Give X"):
        CoefficientDisplay.from_estimator(fixed, standardize=True)
    assert_allclose(
        CoefficientDisplay.from_estimator(fixed, standardize=True, X=X).mean[0], fixed.coef_ * spread, rtol=1e-6
    )
    inside = make_pipeline(StandardScaler(), Fitted()).fit(X, y)
    scaled = CoefficientDisplay.from_estimator(inside, standardize=True, X=X)
    two = np.ptp(inside[0].transform(X)[:, 2])
    assert_allclose(scaled.mean[0], inside[-1].coef_ * [2.0, 2.0, two])
    sparse = CoefficientDisplay.from_estimator(fixed, standardize=True, X=sp.csr_matrix(X.to_numpy()))
    assert_allclose(sparse.mean[0, :2], (fixed.coef_ * spread)[:2], rtol=1e-6)
    with pytest.raises(ValueError, match=r"X has shape \(40, 2\) where columns have a coefficient, expected \(n, 3\)"):
        CoefficientDisplay.from_estimator(fixed, standardize=True, X=X.to_numpy()[:, :2])


def test_long_names_are_shortened_on_the_axis_alone():
    long = "a_column_with_a_name_that_is_much_too_long_for_an_axis"
    display = CoefficientDisplay([[1.0, 2.0]], [[0.1, 0.1]], [long, "short"]).plot()
    drawn = tick_names(display)
    assert len(drawn[0]) == 32 and drawn[0][:5] == long[:5] and drawn[0][-5:] == long[-5:] and drawn[1] == "short"
    assert display.feature_names[0] == long


def test_what_cannot_be_drawn_is_said(frame):
    fit = Fitted().fit(*frame)
    with pytest.raises(NotFittedError, match="Fitted is not fitted"):
        LowerBoundDisplay.from_estimator(Fitted())
    with pytest.raises(NotFittedError):
        CoefficientDisplay.from_estimator(Fitted())
    with pytest.raises(TypeError, match=r"must have 'coef_std_'"):
        CoefficientDisplay.from_estimator(SimpleNamespace(n_features_in_=1, coef_=np.ones(1)))
    with pytest.raises(ValueError, match="x must be one of"):
        LowerBoundDisplay.from_estimator(fit, x="time")
    with pytest.raises(ValueError, match="coverage must lie strictly between 0 and 1; found 90"):
        CoefficientDisplay.from_estimator(fit, coverage=90)
    with pytest.raises(ValueError, match="max_features must be a whole number of at least 1"):
        CoefficientDisplay.from_estimator(fit, max_features=0)
    with pytest.raises(ValueError, match="must agree in shape"):
        CoefficientDisplay(np.ones((1, 2)), np.ones((1, 2)), ["a"])


@pytest.fixture
def without(monkeypatch):
    """Make an import fail as if the package were not installed."""

    def remove(package):
        real = builtins.__import__

        def refuse(name, *args, **kwargs):
            if name.split(".")[0] == package:
                raise ImportError(name)
            return real(name, *args, **kwargs)

        monkeypatch.setattr(builtins, "__import__", refuse)

    return remove


def test_missing_extras_are_named(frame, without):
    fit = Fitted().fit(*frame)
    fit.posterior_ = {}
    without("matplotlib")
    with pytest.raises(ImportError, match=r"pip install 'sksvi\[plot\]'"):
        LowerBoundDisplay.from_estimator(fit)
    without("arviz")
    with pytest.raises(ImportError, match=r"pip install 'sksvi\[arviz\]'"):
        to_arviz(fit)


def test_feature_names_are_plain_strings(frame):
    fit = Fitted().fit(*frame)
    assert feature_names(fit).tolist() == ["age", "dose", "weight"]


# ---- mixed models


@pytest.fixture(scope="module")
def mixed(global_random_seed):
    rng = np.random.default_rng(global_random_seed)
    X = pd.DataFrame(
        {"age": rng.normal(size=120), "site": rng.choice(list("abcdef"), 120), "dose": rng.normal(size=120)}
    )
    X["rater"] = rng.integers(0, 4, 120)
    y = X["age"] + X["site"].map(dict(zip("abcdef", rng.normal(size=6), strict=True))) + 0.3 * rng.normal(size=120)
    model = GMERegressor(likelihood="gaussian", noise=False, groups=["site", "rater"], random_slopes={"site": "dose"})
    return model.fit(X, y)


def test_caterpillar_of_a_group(mixed):
    display = GroupEffectsDisplay.from_estimator(mixed, coverage=0.8)
    table = mixed.group_effects_.loc["site"].xs("intercept", level="effect").sort_values("mean")
    assert tick_names(display) == display.level_names == list(table.index)
    assert_allclose(display.lower, norm.ppf(0.1, table["mean"], table["std"]))
    assert_allclose(display.upper, norm.ppf(0.9, table["mean"], table["std"]))
    assert_allclose(display.errorbar_.lines[0].get_xdata(), table["mean"])
    segments = np.array(display.errorbar_.lines[2][0].get_segments())
    assert_allclose(segments[:, :, 0], np.c_[display.lower, display.upper])
    bottom, top = display.ax_.get_ylim()
    assert bottom < top  # highest mean on top
    assert display.ax_.get_ylabel() == "site" and "80 % posterior interval" in display.ax_.get_xlabel()
    slopes = GroupEffectsDisplay.from_estimator(mixed, group="site", effect="dose", color="C3", ax=display.ax_)
    assert slopes.ax_ is display.ax_ and slopes.figure_ is display.figure_
    assert slopes.ax_.get_xlabel().startswith("Slope of dose") and slopes.errorbar_.lines[0].get_color() == "C3"
    assert len(GroupEffectsDisplay.from_estimator(mixed, group="rater").level_names) == 4
    inside = make_pipeline(clone(mixed))
    inside.steps[0] = ("mixed", mixed)
    assert GroupEffectsDisplay.from_estimator(inside).level_names == display.level_names
    display.figure_.canvas.draw()


def test_a_spread_of_levels_is_kept(mixed):
    """Of 6 levels sorted by their means ranks 0, 2 (of 2.5, to the even one) and 5."""
    table = mixed.group_effects_.loc["site"].xs("intercept", level="effect").sort_values("mean")
    display = GroupEffectsDisplay.from_estimator(mixed, max_levels=3)
    assert display.level_names == list(table.index[[0, 2, 5]])
    assert display.ax_.get_title(loc="left") == "3 of 6 levels, evenly spaced by rank"
    whole = GroupEffectsDisplay.from_estimator(mixed, max_levels=None)
    assert len(whole.level_names) == 6 and whole.ax_.get_title(loc="left") == ""


def test_what_has_no_groups_is_said(mixed, frame):
    with pytest.raises(ValueError, match=r"group must be one of \['site', 'rater'\]; found 'x'"):
        GroupEffectsDisplay.from_estimator(mixed, group="x")
    with pytest.raises(ValueError, match=r"effect must be one of \['intercept'\] for group 'rater'; found 'dose'"):
        GroupEffectsDisplay.from_estimator(mixed, group="rater", effect="dose")
    with pytest.raises(ValueError, match="max_levels must be a whole number of at least 1"):
        GroupEffectsDisplay.from_estimator(mixed, max_levels=0)
    with pytest.raises(ValueError, match="coverage must lie strictly"):
        GroupEffectsDisplay.from_estimator(mixed, coverage=1.0)
    with pytest.raises(ValueError, match="must agree in shape"):
        GroupEffectsDisplay(np.ones(2), np.ones(2), ["a"])
    with pytest.raises(NotFittedError):
        GroupEffectsDisplay.from_estimator(clone(mixed))
    with pytest.raises(TypeError, match="must have 'group_effects_'"):
        GroupEffectsDisplay.from_estimator(Fitted().fit(*frame))
    with pytest.raises(TypeError, match="must have 'group_effects_'"):
        GroupEffectsDisplay.from_estimator(GMERegressor(likelihood="gaussian", noise=False).fit(*frame))


def test_coefficients_of_a_mixed_model(mixed):
    display = CoefficientDisplay.from_estimator(mixed)
    assert tick_names(display) == ["age", "dose"]
    rows = mixed.summary().loc[["age", "dose"]].astype(float)
    for shown, column in ((display.mean, "mean"), (display.std, "std"), (display.lower, "lower")):
        assert_allclose(shown[0], rows[column])
    known = CoefficientDisplay.from_estimator(mixed, standardize=True)
    assert np.all(known.mean[0] / rows["mean"] > 1.0)  # columns of sd 1: spreads of about 2


# ---- names that do not fit
OCCUPATIONS = ["Exec-managerial", "Craft-repair-and-more", "Craft-repair-and-less", "Machine-op-inspct"]


@pytest.mark.costly
def test_names_of_encoded_columns_lose_what_they_share():
    encoded = [f"onehotencoder-2__occupation_of_the_household_{name}" for name in OCCUPATIONS]
    names = ["remainder__age", *encoded]
    display = CoefficientDisplay(np.ones((1, 5)), np.ones((1, 5)), names).plot()
    labels = [label.get_text() for label in display.ax_.get_yticklabels()]
    assert len(set(labels)) == 5 and labels[0] == "age"
    for label, end in zip(labels[1:], ["Exec-managerial", "more", "less", "Machine-op-inspct"], strict=True):
        assert label.endswith(end) and len(label) <= 32


@pytest.mark.parametrize("longest", [12, 20, 32])
def test_names_stay_apart_and_fit(longest):
    same = "a_long_beginning_that_all_of_them_have_"
    names = [f"{same}{k}" for k in range(30)] + [f"{same}{k:02}_and_a_very_long_ending_too" for k in range(30)]
    names += ["age", "num__age", "x" * 99]
    short = apart(names, longest)
    assert len(set(short)) == len(names) and max(map(len, short)) <= longest
    assert apart(["age", "num__age"], longest) == ["age", "num__age"]  # where all fit nothing is left out


def test_the_bound_is_named_in_plain_words():
    display = LowerBoundDisplay({"cvi": ([1, 2, 3], [-90.0, -81.0, -80.5])}).plot()
    assert display.ax_.get_ylabel() == "Distance to the best lower bound (nats)"
    assert display.ax_.get_title(loc="left") == "best lower bound: -80.50 nats, distance 0, drawn at 0.25"
