"""Classes of mixtures as a picture, and what speaks for each number of classes or topics."""

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose
from scipy import sparse
from sklearn.exceptions import NotFittedError
from sklearn.feature_extraction.text import CountVectorizer
from sklearn.pipeline import make_pipeline

from sksvi import BayesianGLMRegressor, BernoulliMixture, CategoricalMixture, StructuredLDA
from sksvi.datasets import make_lda
from sksvi.displays import ClassProfileDisplay, NComponentsDisplay
from sksvi.inspection import n_components_curve

pytest.importorskip("matplotlib")
pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")


@pytest.fixture(scope="module")
def survey():
    """Two classes in two columns of two values and one of three; the last column says nothing."""
    rng = np.random.default_rng(0)
    first = rng.random(240) < 0.6
    columns = {
        name: np.where(rng.random(240) < np.where(first, 0.92, 0.08), "yes", "no") for name in ("car", "house", "boat")
    }
    columns["town"] = np.where(first, "big", np.where(rng.random(240) < 0.5, "mid", "small"))
    return pd.DataFrame({**columns, "coin": rng.choice(["heads", "tails"], 240)})


@pytest.fixture(scope="module")
def model(survey):
    return CategoricalMixture(5, random_state=0).fit(survey)


def tick_names(ax):
    return [label.get_text() for label in ax.get_yticklabels()]


@pytest.mark.costly
def test_profiles_are_the_rows_of_the_summary(model):
    display = ClassProfileDisplay.from_estimator(model)
    assert tick_names(display.ax_) == [
        *("car = yes", "house = yes", "boat = yes", "town = big", "town = mid", "town = small", "coin = tails")
    ]
    table = model.summary()
    for k, bars in enumerate(display.errorbars_):
        assert_allclose(bars[0].get_xdata()[4], table.loc[(k, "town", "mid"), "mean"])
        low, high = bars[2][0].get_segments()[4][:, 0]
        assert_allclose([low, high], table.loc[(k, "town", "mid"), ["lower", "upper"]])
    assert [bars.get_label() for bars in display.errorbars_] == [
        f"{k} ({100 * share:.0f} %)" for k, share in enumerate(model.weights_[: model.n_components_])
    ]
    display.figure_.canvas.draw()


def test_the_columns_that_tell_most_are_drawn(model):
    display = ClassProfileDisplay.from_estimator(model, max_columns=4, max_classes=1, coverage=0.5)
    assert "coin = tails" not in tick_names(display.ax_)
    assert display.ax_.get_title(loc="left") == "4 of 5 columns shown, those that tell most of the class"
    assert display.ax_.get_legend().get_title().get_text() == f"class (share), 1 of {model.n_components_}"
    assert "50 % posterior interval" in display.ax_.get_xlabel()


def test_zeros_and_ones_have_a_row_per_column(survey):
    X = (survey[["car", "house", "boat"]] == "yes").astype(float)
    display = ClassProfileDisplay.from_estimator(BernoulliMixture(4, random_state=0).fit(X), max_columns=2)
    assert len(display.mean) == 2 and all(name.endswith(" = 1") for name in tick_names(display.ax_))


def test_what_has_no_classes_is_refused(model):
    with pytest.raises(NotFittedError):
        ClassProfileDisplay.from_estimator(CategoricalMixture())
    with pytest.raises(TypeError, match="must have 'weights_'"):
        ClassProfileDisplay.from_estimator(BayesianGLMRegressor().fit([[0.0], [1.0]], [0.0, 1.0]))
    with pytest.raises(ValueError, match="max_columns must be a whole number of at least 1, or None"):
        ClassProfileDisplay.from_estimator(model, max_columns=0)
    with pytest.raises(ValueError, match="must agree in shape"):
        ClassProfileDisplay(pd.DataFrame([[0.1]]), pd.DataFrame([[0.1]]), pd.DataFrame([[0.1]]), [0.5, 0.5])


@pytest.mark.costly
def test_bound_and_bic_find_the_number_of_classes(survey):
    display = NComponentsDisplay.from_estimator(CategoricalMixture(random_state=0), survey, n_components=[3, 1, 2])
    assert display.best == {"bound": 2, "bic": 2} and list(display.table.index) == [1, 2, 3]
    # One class has its maximum in closed form, and seven free parameters less one: four of two values, one of three.
    shares = [survey[name].value_counts() for name in survey]
    highest = sum(float(np.sum(n * np.log(n / n.sum()))) for n in shares)
    assert_allclose(display.table.loc[1, "bic"], highest - 0.5 * 6 * np.log(240), atol=1e-3)
    two = CategoricalMixture(2, random_state=0, uncertainty="variational").fit(survey)
    assert_allclose(display.table.loc[2, "bound"], two.lower_bound_ + np.log(2.0))
    assert_allclose(display.lines_["bic"][0].get_ydata().max(), 0.0)
    assert len(display.axes_) == 1


def test_score_and_coherence_of_topics(global_random_seed):
    counts = make_lda(80, 60, n_components=3, random_state=global_random_seed).data
    model = StructuredLDA(max_iter=15, random_state=0)
    display = NComponentsDisplay.from_estimator(model, counts, n_components=[1, 3], cv=2)
    assert list(display.table) == ["score", "score_se", "coherence"] and len(display.axes_) == 2
    assert display.table.loc[display.table["score"].idxmax(), "score_se"] == 0.0
    rows = np.asarray(sparse.csr_matrix(counts).todense(), int)
    texts = [" ".join(f"w{j:02d} " * n for j, n in enumerate(row)) for row in rows]
    words = CountVectorizer(vocabulary=[f"w{j:02d}" for j in range(60)])
    again = n_components_curve(make_pipeline(words, model), texts, [1], cv=2)
    assert_allclose(again["score"], display.table.loc[[1], "score"], rtol=1e-6)


def test_the_smallest_number_within_an_error_of_the_best():
    table = pd.DataFrame({"score": [-3.0, -2.02, -2.0], "score_se": [0.1, 0.03, 0.0]}, index=[2, 4, 8])
    assert NComponentsDisplay(table).best == {"score": 4}
    with pytest.raises(ValueError, match=r"must have one of \['bound', 'bic'"):
        NComponentsDisplay(pd.DataFrame({"elpd": [1.0]}))


def test_what_has_no_number_to_choose_is_refused(survey):
    with pytest.raises(TypeError, match="BayesianGLMRegressor has no number of components"):
        n_components_curve(BayesianGLMRegressor(), survey, [1])
    with pytest.raises(ValueError, match="n_components has no number"):
        n_components_curve(CategoricalMixture(), survey, [])
    with pytest.raises(ValueError, match="n_components must be an integer >= 1; found 0"):
        n_components_curve(CategoricalMixture(), survey, [0, 1])
    with pytest.raises(ValueError, match="cv=1 must lie between 2 and the 240 rows"):
        n_components_curve(StructuredLDA(), survey, [1], cv=1)
