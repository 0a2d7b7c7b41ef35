"""What of the training rows a file holds: of most estimators nothing but the extremes of a column."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone

import sksvi
from sksvi import (
    BayesianGLMClassifier,
    BayesianGLMRegressor,
    BernoulliMixture,
    BetaProcessFA,
    CategoricalMixture,
    CorrelatedTopicModel,
    DynamicGLM,
    GammaFactorModel,
    GammaPoissonFactorization,
    GammaProcessNMF,
    GeneralizedPMF,
    GMEClassifier,
    GMERegressor,
    GPClassifier,
    PoissonFactorization,
    SparseGPClassifier,
    SparseGPRegressor,
    StructuredLDA,
)
from sksvi.callbacks import Checkpoint

pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")

FEW, MANY = 40, 160
SHORT = {"max_iter": 3, "random_state": 0}
POINTS = {"n_inducing": 5, **SHORT}
TWO = {"n_components": 2, **SHORT}
#: Estimator and what it is fitted to, of rows X and targets y.
KEEP_NONE = [
    (BayesianGLMRegressor(**SHORT), lambda X, y: (X, y)),
    (BayesianGLMClassifier(**SHORT), lambda X, y: (X, y > 0)),
    (GMERegressor(groups=["g"], **SHORT), lambda X, y: (grouped(X), y)),
    (GMEClassifier(groups=["g"], **SHORT), lambda X, y: (grouped(X), y > 0)),
    (SparseGPRegressor(**POINTS), lambda X, y: (X, y)),
    (SparseGPClassifier(**POINTS), lambda X, y: (X, y > 0)),
    (BetaProcessFA(**TWO), lambda X, y: (X,)),
    (GammaFactorModel(noise_variance="per-feature", **TWO), lambda X, y: (X,)),
    (BernoulliMixture(**TWO), lambda X, y: ((X > 0).astype(float),)),
    (CategoricalMixture(**TWO), lambda X, y: (pd.DataFrame(np.digitize(X, [-0.5, 0.5])),)),
]


def grouped(X):
    return pd.DataFrame(X, columns=["a", "b", "c"]).assign(g=np.arange(len(X)) % 5)


def saved(model, arguments, n, path, seed):
    """The file of a fit to n rows, and these rows."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, 3))
    y = X @ [1.0, 0.5, -1.0] + 2.0 * rng.standard_normal(n)  # labels that no column tells apart
    model.fit(*arguments(X, y)).save(path)
    return path.read_bytes(), X, y


def held(file, values):
    """Which of some numbers the file holds, as bits or as text."""
    return [value for value in np.ravel(values) if value.tobytes() in file or repr(float(value)).encode() in file]


@pytest.mark.parametrize("model, arguments", KEEP_NONE, ids=[type(model).__name__ for model, _ in KEEP_NONE])
def test_a_file_holds_no_row_and_does_not_grow_with_them(model, arguments, tmp_path, global_random_seed):
    small, *_ = saved(model, arguments, FEW, tmp_path / "few", global_random_seed)
    file, X, y = saved(model, arguments, MANY, tmp_path / "many", global_random_seed)
    assert len(file) < len(small) + 8 * (MANY - FEW)  # less than one number a row
    extremes = {*X.min(axis=0), *X.max(axis=0)}
    assert set(held(file, X)) <= extremes
    assert held(file, y) == []


def test_rows_that_are_the_model_are_held(tmp_path, global_random_seed):
    """The other way round, so that the test above would see a row."""
    file, X, _ = saved(GPClassifier(**SHORT), lambda X, y: (X, y > 0), FEW, tmp_path / "a", global_random_seed)
    assert len(held(file, X)) == X.size
    file, X, y = saved(
        DynamicGLM(likelihood="gaussian", **SHORT), lambda X, y: (X, y), FEW, tmp_path / "b", global_random_seed
    )
    assert len(held(file, y)) == FEW


# ---- files that are asked to hold no row
def counts(X):
    return np.round(3 * np.exp(X)) + 0.0


#: Estimators whose files hold something of each row, and what predicts new ones.
LEAVE_OUT = [
    (CorrelatedTopicModel(**TWO), lambda X, y: (counts(X),), "transform"),
    (StructuredLDA(**TWO), lambda X, y: (counts(X),), "transform"),
    (GammaProcessNMF(**TWO), lambda X, y: (counts(X),), "transform"),
    (GammaPoissonFactorization(**TWO), lambda X, y: (counts(X),), "transform"),
    (GammaPoissonFactorization(bound="tight", **TWO), lambda X, y: (counts(X),), "transform"),
    (BetaProcessFA(algorithm="gibbs", **TWO), lambda X, y: (X,), "transform"),
    (BernoulliMixture(algorithm="gibbs", **TWO), lambda X, y: ((X > 0).astype(float),), "predict_proba"),
    (BayesianGLMRegressor(**SHORT), lambda X, y: (X, y), "predict"),
    (GMERegressor(groups=["g"], **SHORT), lambda X, y: (grouped(X), y), "predict"),
    (SparseGPRegressor(**POINTS), lambda X, y: (X, y), "predict"),
]


@pytest.mark.parametrize("model, arguments, ask", LEAVE_OUT, ids=[type(model).__name__ for model, *_ in LEAVE_OUT])
def test_a_file_without_rows_predicts_as_the_model_does(model, arguments, ask, tmp_path, global_random_seed):
    """It is no longer for more rows, has no number of one, predicts the same bits, and takes a warm start."""
    model = clone(model)
    saved(model, arguments, FEW, tmp_path / "few", global_random_seed)
    model.save(tmp_path / "few", training_rows=False)
    _, X, y = saved(model, arguments, MANY, tmp_path / "many", global_random_seed)
    before = vars(model).copy()
    model.save(tmp_path / "many", training_rows=False)
    assert vars(model).keys() == before.keys() and all(vars(model)[name] is before[name] for name in before)
    sizes = [(tmp_path / name).stat().st_size for name in ("few", "many")]
    assert sizes[1] < sizes[0] + 8 * (MANY - FEW)
    file = (tmp_path / "many").read_bytes()
    assert held(file, X) == [] and held(file, y) == []
    again = sksvi.load(tmp_path / "many")
    given = arguments(X, y)
    np.testing.assert_array_equal(getattr(again, ask)(given[0]), getattr(model, ask)(given[0]))
    pd.testing.assert_frame_equal(again.summary(), model.summary())
    again.set_params(warm_start=True, max_iter=2).fit(*given)
    if model.algorithm != "gibbs":  # which takes no chunks
        sksvi.load(tmp_path / "many").partial_fit(*given)


def test_correlations_of_topics_stay(tmp_path, global_random_seed):
    X = counts(np.random.default_rng(global_random_seed).standard_normal((MANY, 5)))
    model = StructuredLDA(n_components=3, **SHORT).fit(X)
    model.save(tmp_path / "topics", training_rows=False)
    again = sksvi.load(tmp_path / "topics")
    np.testing.assert_array_equal(again.topic_correlation_, model.topic_correlation_)
    again.save(tmp_path / "again", training_rows=False)
    np.testing.assert_array_equal(sksvi.load(tmp_path / "again").topic_correlation_, model.topic_correlation_)


def test_the_sample_of_a_stream_stays_behind(tmp_path, global_random_seed):
    rng = np.random.default_rng(global_random_seed)
    X = rng.standard_normal((MANY, 3))
    y = rng.poisson(np.exp(X[:, 0])).astype(float)
    model = BayesianGLMRegressor(
        likelihood="poisson", prior_precision=1.0, fit_intercept=False, stream_sample=50
    )  # columns as they are
    for rows in np.array_split(np.arange(MANY), 4):
        model.partial_fit(X[rows], y[rows])
    model.save(tmp_path / "with")
    assert len(held((tmp_path / "with").read_bytes(), X)) >= 40 * 3
    model.save(tmp_path / "without", training_rows=False)
    assert held((tmp_path / "without").read_bytes(), X) == []
    again = sksvi.load(tmp_path / "without")
    np.testing.assert_array_equal(again.predict(X), model.predict(X))
    again.partial_fit(X[:20], y[:20])
    assert np.all(np.isfinite(again.coef_)) and again.n_samples_seen_ == MANY + 20


def test_without_rows_nobody_knows_what_was_rated(tmp_path, global_random_seed):
    rng = np.random.default_rng(global_random_seed)
    pairs, y = np.c_[np.arange(60) % 6, np.arange(60) // 6 % 10], rng.standard_normal(60)
    keep = rng.permutation(60)[:40]
    model = GeneralizedPMF(**TWO).fit(pairs[keep], y[keep])
    model.save(tmp_path / "ratings", training_rows=False)
    again = sksvi.load(tmp_path / "ratings")
    np.testing.assert_array_equal(again.predict(pairs), model.predict(pairs))
    everything = {"n": 5, "exclude_seen": False}
    pd.testing.assert_frame_equal(again.recommend([0, 1], **everything), model.recommend([0, 1], **everything))
    again.partial_fit(pairs[keep], y[keep])
    with pytest.raises(ValueError, match=r"exclude_seen=True: .* training_rows=False.*exclude_seen=False"):
        again.recommend([0, 1])


def test_without_rows_nobody_knows_what_was_counted(tmp_path, global_random_seed):
    rng = np.random.default_rng(global_random_seed)
    pairs = np.c_[np.arange(60) % 6, np.arange(60) // 6 % 10]
    some = pairs[rng.permutation(60)[:40]]
    model = PoissonFactorization(**TWO).fit(some)
    model.save(tmp_path / "counts", training_rows=False)
    again = sksvi.load(tmp_path / "counts")
    np.testing.assert_array_equal(again.predict(some), model.predict(some))
    everything = {"n": 5, "exclude_seen": False}
    pd.testing.assert_frame_equal(again.recommend([0, 1], **everything), model.recommend([0, 1], **everything))
    guest = [(99, some[0, 1])]
    np.testing.assert_array_equal(again.fold_in(guest).mean, model.fold_in(guest).mean)
    with pytest.raises(ValueError, match=r"exclude_seen=True: .* training_rows=False.*exclude_seen=False"):
        again.recommend([0, 1])
    with pytest.raises(ValueError, match=r"is a user of the fit.*training_rows=False"):
        again.fold_in(some[:1])


def test_what_is_nothing_without_its_rows_says_so(tmp_path, global_random_seed):
    rng = np.random.default_rng(global_random_seed)
    X, y = rng.standard_normal((FEW, 2)), rng.standard_normal(FEW)
    cut_off = BayesianGLMRegressor(max_iter=3).set_callbacks(Checkpoint(tmp_path / "checkpoint"))
    cut_off.set_params(algorithm="mc-ssvi", batch_size=10, random_state=0).fit(X, y)
    for model, match in (
        (GPClassifier(**SHORT).fit(X, y > 0), "training_rows=False: a GPClassifier is .*SparseGPClassifier"),
        (DynamicGLM(likelihood="gaussian", **SHORT).fit(None, y), "training_rows=False: .*every point of its series"),
        (sksvi.load(tmp_path / "checkpoint"), "training_rows=False: .*cut off"),
    ):
        with pytest.raises(ValueError, match=match):
            model.save(tmp_path / "none", training_rows=False)
        with pytest.raises(ValueError, match=match):
            sksvi.save(model, tmp_path / "none", training_rows=False)
        assert not (tmp_path / "none").exists()
    with pytest.raises(TypeError, match="training_rows"):
        BayesianGLMRegressor().fit(X, y).save(tmp_path / "none", training_rows="no")
    GPClassifier().save(tmp_path / "none", training_rows=False)  # parameters alone
