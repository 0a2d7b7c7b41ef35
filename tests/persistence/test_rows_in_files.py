"""What of the training rows a file holds: of most estimators nothing but the extremes of a column."""

from __future__ import annotations

import copy
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.gaussian_process.kernels import RBF

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

FEW, MANY = 40, 1000
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
        # Half of them: to twice its rows, a factorization says that it makes no new components.
        sksvi.load(tmp_path / "many").partial_fit(*(rows[: MANY // 2] for rows in given))


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


def series(times, seed, columns=2):
    """A target that hangs on columns, once missing."""
    rng = np.random.default_rng(seed)
    X = pd.DataFrame(rng.standard_normal((len(times), columns)), index=times)
    y = X.sum(axis=1) + rng.standard_normal(len(times))
    y.iloc[3] = np.nan
    return X, y


def walk(**options):
    return DynamicGLM(likelihood="gaussian", seasonal=4, **SHORT, **options)


#: Times of a number of points; whether a file needs them all.
TIMES = {
    "counted": (lambda n: pd.RangeIndex(n), False),
    "months": (lambda n: pd.date_range("2001-01-01", periods=n, freq="MS"), False),
    "days without a frequency": (lambda n: pd.DatetimeIndex(pd.date_range("2001-01-01", periods=n).values), False),
    "hours of a zone": (lambda n: pd.date_range("2024-03-30", periods=n, freq="h", tz="Europe/Berlin"), False),
    "periods": (lambda n: pd.period_range("2001-01", periods=n, freq="M"), False),
    "spans": (lambda n: pd.timedelta_range("1h", periods=n, freq="h"), False),
    "tenths": (lambda n: pd.Index(0.1 * np.arange(n), name="seconds"), False),
    "uneven": (lambda n: pd.Timestamp("2001-01-01") + pd.to_timedelta(np.arange(n) ** 2, unit="D"), True),
}


@pytest.mark.filterwarnings("ignore:the time index has no single frequency")
@pytest.mark.filterwarnings("ignore:clocks of Europe/Berlin change")
@pytest.mark.parametrize("name", TIMES)
def test_a_series_without_its_rows_goes_on(name, tmp_path, global_random_seed):
    """Forecasts, scores of what follows and streams have their bits; the file has no row and does not grow."""
    times, uneven = TIMES[name]
    whole = times(MANY + 3)
    X, y = series(whole, global_random_seed)
    now, then = slice(0, MANY), slice(MANY, None)
    walk().fit(X[:FEW], y[:FEW]).save(tmp_path / "few", training_rows=False)
    model = walk().fit(X[now], y[now])
    model.save(tmp_path / "many", training_rows=False)
    sizes = [(tmp_path / file).stat().st_size for file in ("few", "many")]
    assert sizes[1] < sizes[0] + 8 * (MANY - FEW) * (1 + uneven)
    file = (tmp_path / "many").read_bytes()
    assert held(file, X) == [] and held(file, y.dropna()) == []
    again = sksvi.load(tmp_path / "many")
    assert again.index_.equals(model.index_)
    pd.testing.assert_frame_equal(again.forecast(3, X[then].to_numpy()), model.forecast(3, X[then].to_numpy()))
    pd.testing.assert_frame_equal(again.summary(), model.summary())
    if not uneven:  # where later times are known
        for ask in (lambda m: m.predict(X[then]), lambda m: m.log_predictive_density(X[then], y[then])):
            np.testing.assert_array_equal(ask(again), ask(model))
    for fit in (again, model):
        fit.partial_fit(X[then], y[then])
    pd.testing.assert_frame_equal(again.forecast(2, X[:2].to_numpy()), model.forecast(2, X[:2].to_numpy()))
    assert again.index_.equals(model.index_) and again.lower_bound_ == model.lower_bound_
    again.set_params(warm_start=True).fit(X, y)
    assert len(again.components_) == len(y)


def test_a_series_without_its_rows_says_nothing_of_them(tmp_path, global_random_seed):
    X, y = series(pd.date_range("2001-01-01", periods=FEW), global_random_seed)
    model = walk().fit(X, y)
    model.save(tmp_path / "bare", training_rows=False)
    bare = sksvi.load(tmp_path / "bare")
    for text, ask in (
        ("components_ is about fitted points.*ask forecast", lambda: bare.components_),
        ("states_ is about", lambda: bare.states_),
        ("predict without X is about", bare.predict),
        ("one step ahead is about", bare.filter),
        ("one step ahead is about", bare.residuals),
        ("to_arviz is about", bare.to_arviz),
        ("smooth needs the whole series", bare.smooth),
        ("log_evidence needs the whole", bare.log_evidence),
        ("check_posterior needs the whole", lambda: sksvi.inspection.check_posterior(bare)),
        ("2001-01-01.* is a fitted point.*after .*2001-02-09", lambda: bare.predict(X)),
        ("2001-01-01.* is a fitted point", lambda: bare.score(X, y)),
        ("rows without times", lambda: bare.predict(X.to_numpy())),
        ("rows without times", lambda: bare.log_predictive_density(X.to_numpy(), y.to_numpy())),
    ):
        with pytest.raises(ValueError, match=text):
            ask()
    times = pd.date_range(y.index[-1] + y.index.freq, periods=30)
    X, y = series(times, global_random_seed + 1)
    model.partial_fit(X, y)
    bare.partial_fit(X, y)
    # What follows is told of, given the state that the file had: smoothed alike where the series ends.
    assert bare.components_.index.equals(times) and len(bare.residuals()) == 30
    np.testing.assert_allclose(bare.components_.iloc[-1], model.components_.iloc[-1], rtol=1e-9, atol=1e-9)
    ahead, wanted = bare.filter(), model.filter().iloc[-30:]
    np.testing.assert_allclose(ahead[["mean", "std"]], wanted[["mean", "std"]], rtol=1e-9)
    np.testing.assert_allclose(ahead, wanted, rtol=1e-6)  # quantiles are searched for
    bare.save(tmp_path / "more")
    pd.testing.assert_frame_equal(sksvi.load(tmp_path / "more").states_, bare.states_)


def test_several_series_without_their_rows(tmp_path, global_random_seed):
    days = pd.date_range("2001-01-01", periods=FEW + 2)
    table = pd.concat([series(days, global_random_seed + k)[0].assign(shop=name) for k, name in enumerate("ab")])
    y = pd.Series(np.random.default_rng(global_random_seed).standard_normal(len(table)), index=table.index)
    past = table.index < days[FEW]
    model = walk(groups="shop").fit(table[past].rename(columns=str), y[past])
    model.save(tmp_path / "shops", training_rows=False)
    again, later = sksvi.load(tmp_path / "shops"), table[~past].rename(columns=str)
    np.testing.assert_array_equal(again.predict(later), model.predict(later))
    for fit in (again, model):
        fit.partial_fit(later, y[~past])
    assert len(again.predict()) == len(later)
    again.save(tmp_path / "more")
    assert sksvi.load(tmp_path / "more").groups_.tolist() == ["a", "b"]


def test_crafted_times_and_no_points_are_refused(tmp_path):
    model = walk().fit(*series(pd.date_range("2001-01-01", periods=FEW), 0))
    bare = model._without_rows()
    for name, value, match in (
        ("left_out", 0, r"series\.X does not have T"),
        ("left_out", -1, "below 0"),
        ("times", {**bare._series.times, "even": 2**60}, "tells of"),
        ("times", {**bare._series.times, "even": FEW + 1}, r"_series\.index does not have len"),
    ):
        crafted = copy.copy(bare)
        crafted._series = replace(bare._series, **{name: value})
        crafted.save(tmp_path / "crafted")
        with pytest.raises(ValueError, match=match):
            sksvi.load(tmp_path / "crafted")


def labelled(n, seed):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, 2))
    return X, X[:, 0] + 0.3 * rng.standard_normal(n) > 0


def test_a_full_process_is_saved_without_rows(tmp_path, global_random_seed):
    """As the sparse one that is nearest to it: no row, no longer for more rows."""
    sizes = []
    for n in (FEW, MANY):
        X, y = labelled(n, global_random_seed)
        model = GPClassifier(kernel=RBF(3.0), optimize_hyperparameters=False).fit(X, y)
        model.to_sparse(8, random_state=0).save(tmp_path / "sparse", training_rows=False)
        file = (tmp_path / "sparse").read_bytes()
        assert held(file, X) == []
        sizes.append(len(file))
    assert sizes[1] < sizes[0] + 8 * (MANY - FEW)
    again = sksvi.load(tmp_path / "sparse")
    assert np.max(np.abs(again.predict_proba(X) - model.predict_proba(X))) < 0.05
    assert np.isfinite(again.partial_fit(X[:9], y[:9]).lower_bound_)


def test_inducing_points_that_are_rows_are_refused(tmp_path, global_random_seed):
    """All rows where these are few, rows drawn, rows given; not the centres of many, and not points that moved."""
    X, y = labelled(FEW, global_random_seed)
    stay = {"kernel": RBF(), "optimize_hyperparameters": False, "optimize_inducing": False}
    for options, match in (
        ({}, f"{FEW} of the {FEW} inducing points of this SparseGPClassifier are training rows"),
        ({"inducing": "random", "n_inducing": 5}, "5 of the 5 inducing points"),
        ({"inducing": np.vstack([X[:2], [[9.0, 9.0]]])}, "2 of the 3 inducing points"),
    ):
        model = SparseGPClassifier(**stay, **options, random_state=0).fit(X, y)
        with pytest.raises(ValueError, match=match):
            model.save(tmp_path / "none", training_rows=False)
        assert not (tmp_path / "none").exists()
        model.save(tmp_path / "with")
        with pytest.raises(ValueError, match=match):
            sksvi.load(tmp_path / "with").save(tmp_path / "none", training_rows=False)
    stream = SparseGPClassifier(**stay, random_state=0).partial_fit(X, y, [False, True]).partial_fit(X + 1.0, y)
    with pytest.raises(ValueError, match="inducing points of this SparseGPClassifier are training rows"):
        stream.save(tmp_path / "none", training_rows=False)
    own = SparseGPClassifier(**stay, inducing=X[:4] + 0.1, random_state=0).fit(X, y)
    own.save(tmp_path / "own", training_rows=False)
    moved = SparseGPClassifier(kernel=RBF(), inducing=X[:4], random_state=0).fit(X, y)
    assert np.all(np.abs(moved.inducing_points_ - X[:4]).max(axis=1) > 1e-3)
    moved.save(tmp_path / "moved", training_rows=False)


def test_what_is_nothing_without_its_rows_says_so(tmp_path, global_random_seed):
    rng = np.random.default_rng(global_random_seed)
    X, y = rng.standard_normal((FEW, 2)), rng.standard_normal(FEW)
    cut_off = BayesianGLMRegressor(max_iter=3).set_callbacks(Checkpoint(tmp_path / "checkpoint"))
    cut_off.set_params(algorithm="mc-ssvi", batch_size=10, random_state=0).fit(X, y)
    for model, match in (
        (GPClassifier(**SHORT).fit(X, y > 0), r"training_rows=False: a GPClassifier is .*to_sparse\(\), the nearest"),
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
