"""Influence and k-hat of rows, and their transforms without themselves."""

import numpy as np
import pytest

from sksvi import BayesianGLMClassifier, BayesianGLMRegressor, LooDisplay, PITDisplay
from sksvi.datasets import make_glm
from sksvi.inspection import kfold, loo

plt = pytest.importorskip("matplotlib.pyplot")


@pytest.fixture(autouse=True)
def closed():
    yield
    plt.close("all")


def test_a_mark_per_row_and_transforms():
    X, y = make_glm(60, 2, likelihood="poisson", random_state=0)
    model = BayesianGLMRegressor(likelihood="poisson").fit(X, y)
    display = LooDisplay.from_estimator(model, X, y)
    assert sum(len(marks.get_offsets()) for marks in display.marks_) == 60
    assert len(display.axes_) == 2 and len(display.pit_.pit) == 60
    found = loo(model, X, y).pointwise
    assert np.all((display.pit_.pit >= found["pit_lower"]) & (display.pit_.pit <= found["pit_upper"]))


def test_rows_that_are_not_to_be_trusted_are_named():
    X, y = make_glm(30, 2, likelihood="gaussian", random_state=0)
    found = loo(BayesianGLMRegressor().fit(X, y), X, y)
    found.pointwise.iloc[7, found.pointwise.columns.get_loc("k_hat")] = 0.9
    display = LooDisplay.from_result(found)
    assert [text.get_text() for text in display.axes_[0].texts] == ["7"]
    assert len(display.marks_[2].get_offsets()) == 1


def test_labels_of_several_classes_have_one_picture():
    X, y = make_glm(40, 2, likelihood="softmax", random_state=0)
    display = LooDisplay.from_estimator(BayesianGLMClassifier().fit(X, y), X, y)
    assert display.pit_ is None and len(display.axes_) == 1
    with pytest.raises(ValueError, match="no transforms"):
        PITDisplay.from_result(display.result)


def test_errors():
    X, y = make_glm(20, 2, likelihood="gaussian", random_state=0)
    model = BayesianGLMRegressor()
    with pytest.raises(ValueError, match="has no k-hat"):
        LooDisplay(kfold(model, X, y, cv=2))
    with pytest.raises(TypeError, match=r"give what sksvi\.inspection\.loo found"):
        LooDisplay(model)
    with pytest.raises(ValueError, match="as many as pictures, 2"):
        LooDisplay.from_estimator(model.fit(X, y), X, y, axes=plt.subplots()[1])
