"""Factors of decompositions as heat maps and bars."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.decomposition import NMF
from sklearn.exceptions import NotFittedError
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from sksvi import (
    BayesianGLMRegressor,
    BetaProcessFA,
    GammaFactorModel,
    GammaPoissonFactorization,
    GammaProcessNMF,
    GeneralizedPMF,
)
from sksvi.displays import FactorDisplay

pytest.importorskip("matplotlib")
pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")


@pytest.fixture
def counts(global_random_seed):
    rng = np.random.default_rng(global_random_seed)
    return pd.DataFrame(rng.poisson(3.0, (40, 6)), columns=[f"gene {j}" for j in range(6)])


def tick_names(axis):
    return [label.get_text() for label in axis.get_ticklabels()]


@pytest.mark.parametrize("cls", [GammaPoissonFactorization, GammaProcessNMF, BetaProcessFA, GammaFactorModel])
def test_every_decomposition_has_its_factors_drawn(cls, counts):
    options = {"noise_variance": "per-feature"} if cls is GammaFactorModel else {}
    model = cls(n_components=3, max_iter=5, random_state=0, **options).fit(counts)
    display = FactorDisplay.from_estimator(model)
    assert_allclose(display.image_.get_array(), model.components_)
    assert tick_names(display.ax_.xaxis) == list(counts.columns)
    low, high = display.image_.get_clim()
    assert high == pytest.approx(np.abs(model.components_).max())
    assert low == (-high if np.any(model.components_ < 0) else 0.0)
    for name, what in (("component_shares_", "share"), ("feature_probability_", "use")):
        if hasattr(model, name):
            assert_array_equal(display.weights, getattr(model, name))
            assert tick_names(display.ax_.yaxis)[0] == f"factor 0 ({what} {display.weights[0]:.2g})"
    display.figure_.canvas.draw()


def test_bars_are_the_largest_loadings_of_each_factor():
    components = np.array([[0.1, -3.0, 2.0, 0.0], [1.0, 0.0, 0.5, 0.2]])
    display = FactorDisplay.from_predictions(components, names="abcd", kind="bars", max_bars=2)
    assert tick_names(display.ax_[0].yaxis) == ["b", "c"] and tick_names(display.ax_[1].yaxis) == ["a", "c"]
    assert_array_equal([bar.get_width() for bar in display.bars_[0]], [-3.0, 2.0])
    first, second = (bar.get_facecolor() for bar in display.bars_[0])
    assert first != second  # signs are told apart
    bottom, top = display.ax_[0].get_ylim()
    assert bottom > top and [ax.get_title() for ax in display.ax_] == ["factor 0", "factor 1"]
    assert display.plot(display.ax_, kind="bars").ax_ is not None
    with pytest.raises(ValueError, match=r"ax must hold one Axes per factor, 2; found shape \(1,\)"):
        display.plot(display.ax_[0], kind="bars")


def test_users_and_items(global_random_seed):
    rng = np.random.default_rng(global_random_seed)
    pairs = np.argwhere(rng.random((20, 50)) < 0.5)
    X = pd.DataFrame({"user": pairs[:, 0], "film": [f"film {j:02d}" for j in pairs[:, 1]]})
    model = GeneralizedPMF(3, max_iter=3, random_state=0).fit(X, rng.standard_normal(len(X)))
    items = FactorDisplay.from_estimator(model, max_features=10)
    assert items.components.shape == (3, 10) and items.ax_.get_title(loc="left").startswith("10 of 50 columns")
    adds = np.sqrt((model.user_factors_**2).mean(0) * (model.item_factors_**2).mean(0))
    assert_allclose(items.weights, np.sort(adds)[::-1])
    most = int(np.argmax(adds))
    assert items.labels[0] == f"factor {most}"
    at = [list(model.items_).index(name) for name in items.names]
    assert_allclose(items.components[0], model.item_factors_[at, most])
    users = FactorDisplay.from_estimator(model, side="users", max_components=2, kind="bars")
    assert users.components.shape == (2, 20) and len(users.bars_) == 2
    assert "2 of 3 factors" in users.figure_.get_supxlabel()
    with pytest.raises(ValueError, match="side must be 'items' or 'users'; found 'films'"):
        FactorDisplay.from_estimator(model, side="films")


def test_columns_with_the_largest_loadings_of_any_factor():
    """A small factor's own column counts as much as a large one's."""
    model = NMF(2, init="random", max_iter=5, random_state=0).fit(np.random.default_rng(0).random((9, 5)))
    model.components_ = np.array([[9.0, 1.0, 8.0, 0.0, 0.0], [0.0, 0.0, 0.0, 0.1, 0.01]])
    display = FactorDisplay.from_estimator(model, max_features=3)
    assert display.names == ["x0", "x2", "x3"] and display.n_features == 5
    assert FactorDisplay.from_estimator(model, max_features=None).components.shape == (2, 5)
    named = FactorDisplay.from_estimator(model, feature_names=list("abcde"), max_features=3)
    assert named.names == ["a", "c", "d"]
    inside = make_pipeline(StandardScaler(), GammaFactorModel(2, noise_variance="per-feature", max_iter=2))
    frame = pd.DataFrame(np.random.default_rng(0).standard_normal((20, 3)), columns=["u", "v", "w"])
    assert FactorDisplay.from_estimator(inside.fit(frame)).names == ["u", "v", "w"]


def test_what_has_no_factors_is_said(counts):
    with pytest.raises(NotFittedError):
        FactorDisplay.from_estimator(GammaProcessNMF())
    with pytest.raises(NotFittedError):
        FactorDisplay.from_estimator(GeneralizedPMF())
    with pytest.raises(TypeError, match="must have 'components_'"):
        FactorDisplay.from_estimator(BayesianGLMRegressor().fit([[0.0], [1.0], [2.0]], [0.0, 1.0, 3.0]))
    model = GammaPoissonFactorization(2, max_iter=2, random_state=0).fit(counts)
    with pytest.raises(ValueError, match=r"feature_names has shape \(1,\), expected \(6,\)"):
        FactorDisplay.from_estimator(model, feature_names=["a"])
    with pytest.raises(ValueError, match="max_features must be a whole number of at least 1, or None; found 0"):
        FactorDisplay.from_estimator(model, max_features=0)
    with pytest.raises(ValueError, match="kind='map' is unknown: choose 'heatmap' or 'bars'"):
        FactorDisplay.from_estimator(model, kind="map")
    with pytest.raises(ValueError, match="must agree in shape"):
        FactorDisplay(np.ones((2, 2)), ["a"])
    with pytest.raises(ValueError, match="components must be finite numbers"):
        FactorDisplay([[np.nan]])
