"""What a fit to a Dask collection takes and refuses, by the local scheduler."""

from __future__ import annotations

import os
import signal
import threading
import warnings

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning

import sksvi
from sksvi import BayesianGLMClassifier, BayesianGLMRegressor, BernoulliMixture
from sksvi.callbacks import Checkpoint
from sksvi.likelihoods import Ordinal

pytest.importorskip("dask", reason="needs the extra dask")
pytest.importorskip("pyarrow", reason="needs the extra dask")
import dask
import dask.array as da
import dask.dataframe as dd
from dask import delayed

pytestmark = pytest.mark.usefixtures("local_scheduler")
N = 240


def table(seed=0, n=N):
    rng = np.random.default_rng(seed)
    X = pd.DataFrame(rng.standard_normal((n, 3)), columns=["a", "b", "c"])
    f = X.to_numpy() @ [1.0, -0.7, 0.3]
    return X, f, rng


def labels(seed=0, words=False):
    X, f, rng = table(seed)
    y = (rng.random(N) < 1 / (1 + np.exp(-f))).astype(int)
    return X, np.array(["no", "yes"])[y] if words else y


def counts(seed=0):
    X, f, rng = table(seed)
    return X, rng.poisson(np.exp(0.5 * f))


def chunked(values, size=60):
    values = np.asarray(values)
    return da.from_array(values, chunks=(size, *values.shape[1:]))


def framed(values, npartitions=4):
    return dd.from_pandas(values, npartitions=npartitions)


def pieces(parts, meta=None):
    """A frame of these partitions, as they are, whatever a meta says of them."""
    return dd.from_delayed([delayed(part) for part in parts], meta=meta, verify_meta=False)


def same(one, other, rtol=1e-9):
    assert one.lower_bound_ == pytest.approx(other.lower_bound_, rel=rtol)
    np.testing.assert_allclose(one.coef_, other.coef_, rtol=1e-7, atol=1e-10)
    np.testing.assert_allclose(one.coef_std_, other.coef_std_, rtol=1e-7)


def assert_refused(model, match, *args, error=ValueError, method="fit", **options):
    """A call is refused, and the estimator is as it was."""
    before = dict(vars(model))
    with pytest.raises(error, match=match):
        getattr(model, method)(*args, **options)
    assert vars(model).keys() == before.keys() and all(vars(model)[name] is before[name] for name in before)


# ---- collections that are as good as arrays
def test_partitions_of_unknown_sizes():
    X, y = labels()
    inside = BayesianGLMClassifier(random_state=0).fit(X.to_numpy(), y)
    frame = framed(X.assign(y=y))
    unknown, target = frame[["a", "b", "c"]].to_dask_array(), frame["y"].to_dask_array()
    assert np.isnan(unknown.shape[0])
    model = BayesianGLMClassifier(random_state=0).fit(unknown, target)
    same(model, inside)
    np.testing.assert_array_equal(model.predict(unknown).compute(), inside.predict(X.to_numpy()))
    assert model.score(unknown, target) == pytest.approx(inside.score(X.to_numpy(), y), abs=1e-12)


@pytest.mark.costly
@pytest.mark.filterwarnings("ignore:The inplace keyword")  # of Dask, under the newest pandas
def test_columns_of_one_folder_stay_aligned(tmp_path):
    """Dask reads several files as one where a few of their columns are asked for."""
    X, y = labels()
    for k in range(12):
        X.assign(y=y).iloc[20 * k : 20 * (k + 1)].to_parquet(tmp_path / f"part{k:02d}.parquet", index=False)
    frame = dd.read_parquet(tmp_path)
    given = frame[["a", "b", "c"]], frame["y"]
    assert len(given[0].to_delayed()) != len(given[1].to_delayed())
    model = BayesianGLMClassifier(random_state=0).fit(*given)
    same(model, BayesianGLMClassifier(random_state=0).fit(X, y))
    assert model.score(*given) == pytest.approx(model.score(X, y), abs=1e-12)
    few = BayesianGLMClassifier(random_state=0).fit(frame[["a"]], frame["y"])
    np.testing.assert_array_equal(few.predict(frame[["a"]]).compute(), few.predict(X[["a"]]))


def test_empty_partitions_say_nothing():
    X, y = labels(words=True)
    inside = BayesianGLMClassifier(random_state=0).fit(X, y)
    given = X.assign(y=y)
    none = pieces([given.iloc[:0]] * 4, given.iloc[:0])
    whole = pieces([given.iloc[part] for part in (slice(0), slice(0, 90), slice(0), slice(90, N))], given.iloc[:0])
    model = BayesianGLMClassifier(random_state=0).fit(whole[["a", "b", "c"]], whole["y"])
    same(model, inside, 1e-8)
    assert len(model.predict_proba(whole[["a", "b", "c"]]).compute()) == N
    assert model.score(whole[["a", "b", "c"]], whole["y"]) == pytest.approx(inside.score(X, y), abs=1e-9)
    assert_refused(model, "4 partitions and no row", none[["a", "b", "c"]], none["y"])
    with pytest.raises(ValueError, match="4 partitions and no row"):
        model.score(none[["a", "b", "c"]], none["y"])


def test_a_partition_without_one_of_the_classes():
    X, y = labels(words=True)
    order = np.argsort(y, kind="stable")
    X, y = X.iloc[order].reset_index(drop=True), y[order]
    inside = BayesianGLMClassifier(random_state=0).fit(X, y)
    for target in (chunked(y), framed(pd.Series(y))):
        rows = framed(X) if hasattr(target, "dtypes") or isinstance(target, dd.Series) else chunked(X)
        model = BayesianGLMClassifier(random_state=0).fit(rows, target)
        assert model.classes_.tolist() == ["no", "yes"]
        np.testing.assert_allclose(model.coef_, inside.coef_, rtol=1e-7)
    assert_refused(model, "at least 2 classes", framed(X)[["a", "b", "c"]], framed(pd.Series(np.full(N, "yes"))))


@pytest.mark.costly
@pytest.mark.parametrize("kind", ["object", "string", "category", "float", "bool"])
def test_labels_of_any_type(kind):
    X, y = labels(words=kind in ("object", "string", "category"))
    own = pd.Series(y).astype(kind)
    inside = BayesianGLMClassifier(random_state=0).fit(X, own)
    model = BayesianGLMClassifier(random_state=0).fit(framed(X), framed(own))
    same(model, inside)
    np.testing.assert_array_equal(model.classes_, inside.classes_)
    assert model.score(framed(X), framed(own)) == pytest.approx(inside.score(X, own), abs=1e-12)
    np.testing.assert_array_equal(model.predict(framed(X)).compute(), inside.predict(X))


def test_partitions_of_several_numeric_types():
    X, y = counts()
    X["c"] = X["c"].round()
    parts = [X.iloc[i : i + 60] for i in range(0, N, 60)]
    parts[1] = parts[1].astype({"a": np.float32})
    parts[2] = parts[2].astype({"c": int})
    given = pd.concat([part.astype(float) for part in parts])
    model = BayesianGLMRegressor(likelihood="poisson", random_state=0).fit(
        pieces(parts, X.iloc[:0]), framed(pd.Series(y))
    )
    same(model, BayesianGLMRegressor(likelihood="poisson", random_state=0).fit(given, y))
    single = [part.astype(np.float32) for part in parts[:1]] + parts[1:]
    mixed = BayesianGLMRegressor(likelihood="poisson", random_state=0).fit(
        pieces(single, X.iloc[:0]), framed(pd.Series(y))
    )
    assert mixed.coef_.dtype == np.float64
    np.testing.assert_allclose(mixed.coef_, model.coef_, rtol=1e-4, atol=1e-5)


def test_chunks_along_columns_and_of_other_rows():
    X, y = labels()
    inside = BayesianGLMClassifier(random_state=0).fit(X.to_numpy(), y)
    cut = da.from_array(X.to_numpy(), chunks=(60, 2))
    model = BayesianGLMClassifier(random_state=0).fit(cut, da.from_array(y, chunks=(40,)))
    same(model, inside)
    np.testing.assert_array_equal(model.predict(cut).compute(), inside.predict(X.to_numpy()))


def test_blocks_of_sparse_rows():
    X, y = labels()
    sparse = sp.csr_matrix(np.where(np.abs(X.to_numpy()) > 0.5, X.to_numpy(), 0.0))
    inside = BayesianGLMClassifier(random_state=0).fit(sparse, y)
    blocks = chunked(sparse.toarray()).map_blocks(sp.csr_matrix)
    model = BayesianGLMClassifier(random_state=0).fit(blocks, chunked(y))
    same(model, inside)
    np.testing.assert_allclose(model.predict_proba(blocks).compute(), inside.predict_proba(sparse), rtol=1e-7)


@pytest.mark.filterwarnings("ignore:sample_weight says how many rows")
def test_weights_and_offsets_are_collections_or_one_number():
    X, y = counts()
    rng = np.random.default_rng(3)
    weight, offset = rng.uniform(0.5, 2.0, N), 0.3 * rng.standard_normal(N)
    weight[60:120] = 0.0  # a whole partition
    weight[::7] = 0.0
    model = BayesianGLMRegressor(likelihood="poisson", random_state=0)
    inside = clone(model).fit(X, y, sample_weight=weight, offset=offset)
    given = {"sample_weight": chunked(weight), "offset": chunked(offset)}
    outside = clone(model).fit(chunked(X), chunked(y), **given)
    same(outside, inside, 1e-8)
    score = outside.score(chunked(X), chunked(y), **given)
    inner = clone(model).fit(X.to_numpy(), y, sample_weight=weight, offset=offset)
    assert score == pytest.approx(inner.score(X.to_numpy(), y, sample_weight=weight, offset=offset), rel=1e-9)
    one = {"sample_weight": 2.0, "offset": 0.5}
    same(clone(model).fit(chunked(X), chunked(y), **one), clone(model).fit(X.to_numpy(), y, **one))
    assert_refused(model, "no row with a positive", chunked(X), chunked(y), sample_weight=chunked(np.zeros(N)))


@pytest.mark.parametrize("learned", [True, False])
def test_ordinal_levels_that_a_type_declares(learned):
    X, f, rng = table()
    kind = pd.CategoricalDtype(["low", "some", "much", "most"], ordered=True)
    top = 3 if learned else 2  # with cut points given as numbers a level may be without rows
    codes = np.clip(np.digitize(f + rng.logistic(size=N), [-1.0, 0.5, 1.5]), 0, top)
    y = pd.Series(pd.Categorical.from_codes(codes, dtype=kind))
    y = y.iloc[np.argsort(codes, kind="stable")]  # no partition has all levels
    X = X.loc[y.index]
    X, y = X.reset_index(drop=True), y.reset_index(drop=True)
    likelihood = "ordinal" if learned else Ordinal(cut_points=[-1.0, 0.5, 1.5])
    model = BayesianGLMRegressor(likelihood=likelihood, random_state=0)
    inside, outside = clone(model).fit(X, y), clone(model).fit(framed(X), framed(y))
    assert outside.levels_.tolist() == inside.levels_.tolist() == ["low", "some", "much", "most"]
    same(outside, inside, 1e-8)
    assert outside.score(framed(X), framed(y)) == pytest.approx(inside.score(X, y), rel=1e-9)
    np.testing.assert_array_equal(outside.predict(framed(X)).compute(), inside.predict(X))


# ---- scores
@pytest.mark.parametrize("likelihood", ["gaussian", "student-t", "poisson", "negative-binomial", "binomial", "ordinal"])
def test_scores_are_those_of_memory(likelihood):
    X, f, rng = table()
    y = {
        "gaussian": f + rng.standard_normal(N),
        "student-t": f + rng.standard_normal(N),
        "binomial": np.column_stack([rng.binomial(4, 1 / (1 + np.exp(-f))), rng.integers(0, 3, N)]),
        "ordinal": np.digitize(f, [-1.0, 0.5]) * 2.0,
    }.get(likelihood, rng.poisson(np.exp(0.5 * f)))
    weight = rng.uniform(0.1, 2.0, N)
    model = BayesianGLMRegressor(likelihood=likelihood, max_iter=20, tol=1e-2, random_state=0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        model.fit(X.to_numpy(), y)
    parts = (chunked(X.to_numpy()), chunked(y))
    assert model.score(*parts) == pytest.approx(model.score(X.to_numpy(), y), rel=1e-9)
    weighted = model.score(*parts, sample_weight=chunked(weight))
    assert isinstance(weighted, float)
    assert weighted == pytest.approx(model.score(X.to_numpy(), y, sample_weight=weight), rel=1e-9)


@pytest.mark.parametrize("level", [False, True])
def test_scores_are_those_of_scikit_learn(level):
    from sklearn.metrics import d2_absolute_error_score, r2_score

    X, f, rng = table()
    weight = rng.uniform(0.1, 2.0, N)
    codes = np.digitize(f + rng.logistic(size=N), [-1.0, 0.5])
    y = pd.Categorical.from_codes(codes, ["x", "a", "m"], ordered=True) if level else f + rng.standard_normal(N)
    model = BayesianGLMRegressor(likelihood="ordinal" if level else "gaussian").fit(X, y)
    found = model.predict(X)
    if level:
        expected = d2_absolute_error_score(codes, pd.Categorical(found, y.categories).codes, sample_weight=weight)
    else:
        expected = r2_score(y, found, sample_weight=weight)
    assert model.score(X, y, sample_weight=weight) == pytest.approx(expected, rel=1e-12)


# ---- refused, with the partition and the column
def bad(values, row, column, value):
    values = values.astype(object) if isinstance(value, str) else values.astype(float)
    values.iloc[row, values.columns.get_loc(column)] = value
    return values


@pytest.mark.parametrize(
    "value, match", [(np.nan, "NaN"), (np.inf, "infinity"), ("tall", "has 'tall' in row 10, which is no number")]
)
def test_a_bad_value_is_named_with_partition_and_column(value, match):
    X, y = labels()
    wrong = bad(X, 130, "b", value)
    with dask.config.set({"dataframe.convert-string": False}):
        given = framed(wrong)
        model = BayesianGLMClassifier().fit(X, y)
        assert_refused(model, "partition 2: column 'b' of X.* row 10.*", given, framed(pd.Series(y)))
        with pytest.raises(ValueError, match=f"partition 2: column 'b' of X.*{match}"):
            model.predict(given).compute()
        with pytest.raises(ValueError, match=f"partition 2: column 'b' of X.*{match}"):
            model.score(given, framed(pd.Series(y)))


def test_a_bad_target_is_named_with_its_partition():
    X, y = counts()
    y = y.astype(float)
    y[200] = np.nan
    assert_refused(BayesianGLMRegressor(likelihood="poisson"), "partition 3: .*y contains NaN", chunked(X), chunked(y))
    y[200] = -1.0
    assert_refused(BayesianGLMRegressor(likelihood="poisson"), "partition 3: .*-1", chunked(X), chunked(y))
    _, y = labels(words=True)
    y = y.astype(object)
    y[70] = None
    assert_refused(BayesianGLMClassifier(), "partition 1: .*row 10", chunked(X), chunked(y))


def test_bad_weights_and_offsets_are_named_with_their_partition():
    X, y = counts()
    model = BayesianGLMRegressor(likelihood="poisson")
    for name, value, match in (
        ("sample_weight", -1.0, "partition 1: .*sample_weight"),
        ("sample_weight", np.nan, "partition 1: .*sample_weight"),
        ("offset", np.inf, "partition 1: .*offset"),
        ("offset", 1e9, "partition 1: .*offset"),
    ):
        values = np.ones(N)
        values[100] = value
        assert_refused(model, match, chunked(X), chunked(y), **{name: chunked(values)})


def test_other_columns_in_one_partition():
    X, y = labels()
    parts = [X.iloc[i : i + 60] for i in range(0, N, 60)]
    target = framed(pd.Series(y))
    for other, match in (
        (parts[2].rename(columns={"b": "B"}), "partition 2: X has the columns .*'B'.*partition 0 are .*'b'"),
        (parts[2][["a", "b"]], "partition 2: X has the columns"),
        (parts[2][["a", "c", "b"]], "partition 2: X has the columns"),
    ):
        given = pieces([*parts[:2], other, parts[3]], X.iloc[:0])
        assert_refused(BayesianGLMClassifier(), match, given, target)


def test_rows_that_do_not_belong_together():
    X, y = labels()
    model = BayesianGLMClassifier()
    assert_refused(model, "y is an ndarray", chunked(X), y, error=TypeError)
    assert_refused(model, "y is a list", chunked(X), y.tolist(), error=TypeError)
    assert_refused(model, "y is a Series", framed(X), pd.Series(y), error=TypeError)
    assert_refused(model, "sample_weight is an ndarray", chunked(X), chunked(y), np.ones(N), error=TypeError)
    assert_refused(model, "offset is an ndarray", chunked(X), chunked(y), offset=np.ones(N), error=TypeError)
    assert_refused(model, "y has 3 partitions and X has 4", framed(X), framed(pd.Series(y), 3))
    assert_refused(model, "y has 230 rows and X has 240", chunked(X), chunked(y[:230]))
    short = [pd.Series(y[i : i + 60]) for i in range(0, N, 60)]
    short[1] = short[1].iloc[:50]
    assert_refused(model, "partition 1: X has 60 rows and y has 50", framed(X), pieces(short, short[0].iloc[:0]))
    assert_refused(model, "requires y", chunked(X), None)
    with pytest.raises(TypeError, match="y is an ndarray"):
        BayesianGLMClassifier().fit(X, y).score(chunked(X), y)


def test_tables_of_one_or_three_dimensions():
    X, y = labels()
    assert_refused(BayesianGLMClassifier(), "Expected 2D", chunked(X.to_numpy()[:, 0]), chunked(y))
    assert_refused(BayesianGLMClassifier(), "Expected a 2-dim", framed(X["a"]), framed(pd.Series(y)))
    assert_refused(BayesianGLMClassifier(), "X has 3 dimensions", chunked(np.ones((N, 2, 2))), chunked(y))
    assert_refused(BayesianGLMClassifier(), "y should be a 1d array", chunked(X), chunked(np.ones((N, 2))))


def test_a_target_in_partitions_beside_rows_in_memory():
    X, y = labels()
    assert_refused(
        BayesianGLMClassifier(), "y is a Dask collection and X is a DataFrame", X, chunked(y), error=TypeError
    )


# ---- a fit in time
def test_a_warm_start_goes_on():
    X, y = counts()
    model = BayesianGLMRegressor(likelihood="poisson", max_iter=2, tol=0.0, warm_start=True, random_state=0)
    inside, outside = clone(model), clone(model)
    for _ in range(2):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            inside.fit(X, y)
            outside.fit(framed(X), framed(pd.Series(y)))
        same(outside, inside, 1e-8)
        assert outside.n_iter_ == inside.n_iter_
    model.set_params(tol=1e-6, max_iter=50).fit(X, y)
    np.testing.assert_allclose(model.set_params(tol=1e-8).fit(framed(X), framed(pd.Series(y))).coef_, model.coef_)


def test_max_iter_warns_and_histories_are_alike():
    X, y = counts()
    model = BayesianGLMRegressor(likelihood="poisson", max_iter=1, tol=0.0, random_state=0)
    with pytest.warns(ConvergenceWarning, match="max_iter=1"):
        outside = clone(model).fit(chunked(X), chunked(y))
    with pytest.warns(ConvergenceWarning, match="max_iter=1"):
        inside = clone(model).fit(X.to_numpy(), y)
    one, other = (fit.history_.drop(columns="seconds") for fit in (outside, inside))
    pd.testing.assert_frame_equal(one, other, rtol=1e-8)


class Passes:
    """Counts passes, and raises in the second one."""

    def __init__(self, error=None):
        self.seen, self.error = [], error

    def setup(self, estimator, context):
        pass

    def on_fit_task_begin(self, estimator, context):
        pass

    def on_fit_task_end(self, estimator, context, *, X=None, fitted_estimator=None):
        if context.task_name == "pass":
            self.seen.append(fitted_estimator.lower_bound_)
            if self.error is not None and len(self.seen) == 2:
                raise self.error

    teardown = setup


def test_callbacks_and_progress(capsys):
    X, y = counts()
    model = BayesianGLMRegressor(likelihood="poisson", verbose=1, random_state=0)
    passes = Passes()
    model.set_callbacks(passes).fit(chunked(X), chunked(y))
    assert len(passes.seen) >= 2 and passes.seen[-1] == pytest.approx(model.state_.bound, abs=1e-6)
    assert "BayesianGLMRegressor" in capsys.readouterr().err


def test_a_checkpoint_of_a_fit_to_a_collection_goes_on(tmp_path):
    X, y = counts()
    path = str(tmp_path / "half.zip")
    model = BayesianGLMRegressor(likelihood="poisson", random_state=0)
    whole = clone(model).fit(chunked(X), chunked(y))
    interrupted = clone(model).set_callbacks(Checkpoint(path, every=1), Passes(KeyboardInterrupt()))
    assert_refused(interrupted, "interrupted, and .* as it was before", chunked(X), chunked(y), error=KeyboardInterrupt)
    again = sksvi.load(path).set_params(warm_start=True).fit(chunked(X), chunked(y))
    np.testing.assert_allclose(again.coef_, whole.coef_, rtol=1e-6)
    assert again.n_iter_ >= 2


@pytest.mark.parametrize("scheduler", ["synchronous", "threads"])
def test_ctrl_c_in_the_middle_of_a_pass(scheduler, sigint_enabled):
    X, y = counts()
    slow, asked = threading.Event(), []

    def slowly(block):
        if slow.is_set() and not asked:
            asked.append(True)
            os.kill(os.getpid(), signal.SIGINT)
        return block

    given = chunked(X).map_blocks(slowly)
    model = BayesianGLMRegressor(likelihood="poisson", random_state=0).fit(X.to_numpy(), y)
    slow.set()
    with dask.config.set(scheduler=scheduler):
        assert_refused(model, "BayesianGLMRegressor was interrupted", given, chunked(y), error=KeyboardInterrupt)
    assert asked


def test_a_fit_to_a_collection_is_saved(tmp_path):
    X, y = labels(words=True)
    model = BayesianGLMClassifier(random_state=0).fit(framed(X), framed(pd.Series(y)))
    model.save(tmp_path / "model.zip")
    loaded = sksvi.load(tmp_path / "model.zip")
    np.testing.assert_array_equal(loaded.predict_proba(X), model.predict_proba(X))
    assert loaded.feature_names_in_.tolist() == ["a", "b", "c"]
    np.testing.assert_array_equal(loaded.predict(framed(X)).compute(), model.predict(X))


# ---- predictions
ANSWERS = {
    "predict": {},
    "predict_latent": {},
    "predict_quantiles": {"q": [0.1, 0.5]},
    "predict_interval": {"coverage": 0.8},
}


@pytest.mark.parametrize("method", ANSWERS)
@pytest.mark.parametrize("form", ["array", "frame"])
def test_predictions_of_a_model_fitted_in_memory(method, form):
    X, y = counts()
    model = BayesianGLMRegressor(likelihood="poisson", random_state=0).fit(X, y)
    X.index = np.arange(N)[::-1] + 1000
    given = dd.from_pandas(X, npartitions=4, sort=False) if form == "frame" else chunked(X.to_numpy())
    if form == "array":
        model = BayesianGLMRegressor(likelihood="poisson", random_state=0).fit(X.to_numpy(), y)
    inside = getattr(model, method)(X if form == "frame" else X.to_numpy(), **ANSWERS[method])
    outside = getattr(model, method)(given, **ANSWERS[method])
    for one, other in zip(*([outside], [inside]) if method != "predict_latent" else (outside, inside), strict=True):
        assert dask.is_dask_collection(one)
        found = one.compute()
        np.testing.assert_allclose(np.asarray(found), other, rtol=1e-12)
        if form == "frame":
            np.testing.assert_array_equal(found.index, X.index)


def test_predictions_refuse_what_they_refuse_in_memory():
    X, y = labels()
    model = BayesianGLMClassifier().fit(X, y)
    with pytest.raises(ValueError, match="feature names"):
        model.predict(framed(X.rename(columns={"a": "A"}))).compute()
    with pytest.raises(ValueError, match=r"2 features|feature names"):
        model.predict(framed(X[["a", "b"]])).compute()
    with pytest.raises(ValueError, match="coverage"):
        BayesianGLMRegressor().fit(X, y).predict_interval(framed(X), coverage=2.0).compute()


def test_frames_out_by_set_output():
    X = pd.DataFrame(np.random.default_rng(0).poisson(2.0, (60, 4)).astype(float), columns=list("abcd"))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        model = sksvi.GammaPoissonFactorization(2, max_iter=5, random_state=0).fit(X).set_output(transform="pandas")
    found = model.transform(framed(X)).compute()
    pd.testing.assert_frame_equal(found, model.transform(X))


# ---- who takes none
def others():
    return [sksvi.GPClassifier(), sksvi.DynamicGLM()]


@pytest.mark.parametrize("model", others(), ids=repr)
def test_estimators_that_are_no_sum_over_rows_say_so(model):
    X, y = labels()
    assert_refused(model, f"{type(model).__name__} takes no Dask collection", chunked(X), chunked(y), error=TypeError)
    assert_refused(
        model, f"{type(model).__name__} takes no Dask collection", framed(X), framed(pd.Series(y)), error=TypeError
    )


@pytest.mark.parametrize("groups", [None, "shop"])
@pytest.mark.parametrize(
    "method", ["predict", "forecast", "score", "simulate", "log_predictive_density", "partial_fit"]
)
def test_no_method_of_a_series_takes_any(method, groups):
    """A frame ended in an AttributeError about its index, chunks of unknown size in one about len."""
    X = pd.DataFrame({"price": np.arange(12.0) % 5, "shop": np.arange(12) % 2})
    X, y = X if groups else X[["price"]], np.arange(12) % 3
    model = sksvi.DynamicGLM(groups=groups, level="walk", likelihood="poisson", max_iter=3)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model.fit(X, y)
    beside = {} if method in ("predict", "forecast", "simulate") else {"y": y}
    options = {"error": TypeError, "method": method}
    assert_refused(model, "DynamicGLM takes no Dask collection.*X of", X=framed(X), **beside, **options)
    if beside:
        words = r"DynamicGLM takes no.*give it y.compute\(\)"
        assert_refused(model, words, X=X, y=framed(pd.Series(y)), **options)


@pytest.mark.parametrize("form", [chunked, lambda values: framed(pd.Series(values))], ids=["array", "frame"])
def test_a_chunk_in_memory_takes_nothing_in_partitions_beside_it(form):
    X, y = counts()
    model = BayesianGLMRegressor(likelihood="poisson").partial_fit(X, y)
    for name in ("sample_weight", "offset"):
        words = f"{name} is a Dask collection and X is a DataFrame"
        given = {name: form(np.ones(N))}
        assert_refused(model, words, X, y, error=TypeError, method="partial_fit", **given)
    pairs = np.column_stack([np.arange(N) % 9, np.arange(N) % 5])
    model = sksvi.PoissonFactorization(2, max_iter=2, random_state=0)
    words = "sample_weight is a Dask collection and X is an ndarray"
    given = {"sample_weight": form(np.ones(N))}
    assert_refused(model, words, pairs, y, error=TypeError, method="partial_fit", **given)


def test_users_are_folded_in_at_hand():
    """The answer is one object, and no row of it is one of X."""
    rng = np.random.default_rng(0)
    pairs, y = np.column_stack([np.arange(N) % 9, rng.integers(0, 5, N)]), rng.poisson(2.0, N)
    for cls in (sksvi.GeneralizedPMF, sksvi.PoissonFactorization):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            model = cls(2, max_iter=3, random_state=0).fit(pairs, y)
        words = f"{cls.__name__} takes no Dask collection here, and X of fold_in"
        assert_refused(model, words, chunked(pairs), chunked(y), error=TypeError, method="fold_in")


def test_parameters_are_at_hand():
    X, y = counts()
    for given in (chunked(np.ones(3)), framed(pd.Series(np.ones(3)), 1)):
        words = r"'prior_precision' parameter .* is a Dask collection: give prior_precision.compute\(\)"
        assert_refused(BayesianGLMRegressor(prior_precision=given), words, X, y)


def test_networks_say_so():
    from sksvi.network import Gamma, Gaussian, Network

    network = Network({"m": Gaussian(0.0, 0.1), "t": Gamma(1.0, 1.0), "y": Gaussian("m", "t")})
    assert_refused(network, "Network takes no Dask collection", {"y": chunked(np.ones(N))}, error=TypeError)


# ---- Polars and Arrow
def arrow(X):
    import pyarrow

    return pyarrow.Table.from_pandas(X, preserve_index=False)


def polar(X):
    return pytest.importorskip("polars").from_pandas(X)


def glm(X, rng):
    return BayesianGLMRegressor(likelihood="poisson"), rng.poisson(1.0, len(X)), "predict"


def mixed(X, rng):
    model = sksvi.GMERegressor(likelihood="gaussian", groups="g", max_iter=5)
    return model, rng.standard_normal(len(X)), "predict"


def topic(X, rng):
    return sksvi.CorrelatedTopicModel(2, max_iter=3), None, "transform"


def mixture(X, rng):
    return BernoulliMixture(2, max_iter=5), None, "predict_proba"


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("library", [polar, arrow])
@pytest.mark.parametrize("make", [glm, mixed, topic, mixture])
def test_frames_of_polars_and_arrow_keep_their_names(make, library):
    rng = np.random.default_rng(0)
    X = pd.DataFrame((rng.random((60, 3)) < 0.5).astype(float), columns=["a", "b", "c"])
    if make is topic:
        X += 1.0
    if make is mixed:
        X["g"] = rng.choice(["u", "v", "w"], 60)
    model, y, method = make(X, rng)
    model.set_params(random_state=0)
    inside, outside = clone(model).fit(X, y), clone(model).fit(library(X), y)
    assert list(outside.feature_names_in_) == list(inside.feature_names_in_)
    np.testing.assert_array_equal(getattr(outside, method)(library(X)), getattr(inside, method)(X))


def by_wire(values):
    """An array whose numbers begin at no whole number, as bytes from a worker may."""
    raw = np.empty(values.nbytes + 3, np.uint8)[3:]
    moved = raw.view(values.dtype).reshape(values.shape)
    moved[...] = values
    assert not moved.flags.aligned
    return moved


def test_what_comes_by_wire_is_aligned_before_it_is_summed():
    """NumPy sums misaligned numbers in another order: other last digits on a worker than here."""
    from sksvi.partitions.collections import drop_zero_weight

    X, f, _ = table(n=9_000)
    matrix = sp.csr_matrix(X.to_numpy())
    matrix.data = by_wire(matrix.data)
    y = by_wire(f)
    for rows in (by_wire(X.to_numpy()), pd.DataFrame(by_wire(X.to_numpy()), columns=X.columns, copy=False), matrix):
        given = drop_zero_weight(rows, pd.Series(y, copy=False), y, None)
        assert given[1].sum() == f.sum() and given[2].sum() == f.sum()
        values = (
            [given[0][name].to_numpy() for name in X]
            if hasattr(rows, "iloc")
            else [given[0].data if sp.issparse(rows) else given[0]]
        )
        assert all(part.flags.aligned for part in values)


@pytest.mark.filterwarnings("ignore:class_weight counts rows")
@pytest.mark.parametrize("given", ["balanced", {1: 4.0}], ids=["balanced", "dict"])
def test_class_weights_are_those_of_all_rows(given):
    X, y = labels()
    model = BayesianGLMClassifier(class_weight=given, random_state=0)
    inside, spread = clone(model).fit(X, y), clone(model).fit(chunked(X), chunked(y))
    assert abs(spread.lower_bound_ / inside.lower_bound_ - 1) < 1e-9
    np.testing.assert_allclose(spread.coef_, inside.coef_, rtol=1e-6)
    assert spread.class_weight == given and spread.n_samples_seen_ == pytest.approx(inside.n_samples_seen_)


def test_exposures_are_collections():
    X, y = counts()
    exposure = np.linspace(0.5, 3.0, N)
    X = X.to_numpy()
    inside = BayesianGLMRegressor(likelihood="poisson", random_state=0).fit(X, y, exposure=exposure)
    spread = BayesianGLMRegressor(likelihood="poisson", random_state=0)
    spread.fit(chunked(X), chunked(y), exposure=chunked(exposure))
    assert abs(spread.lower_bound_ / inside.lower_bound_ - 1) < 1e-9
    found = inside.predict(chunked(X), exposure=chunked(exposure)).compute()
    np.testing.assert_allclose(found, inside.predict(X, exposure=exposure))


@pytest.mark.parametrize("sparse", [False, True])
def test_what_columns_spread_over_is_that_of_arrays(sparse):
    """Under a fixed number, which is questioned by it: of a column far from zero, and of a constant one."""
    rng = np.random.default_rng(0)
    X = np.column_stack([rng.standard_normal(60), 1e6 + rng.standard_normal(60), np.full(60, 5.0)])
    X = sp.csr_matrix(X) if sparse else X
    y = rng.standard_normal(60)
    parts = da.concatenate(
        [da.from_array(X[rows], chunks=(20, 3)) for rows in (slice(0, 20), slice(20, 40), slice(40, 60))]
    )
    here = BayesianGLMRegressor(prior_precision=1.0).fit(X, y)
    there = BayesianGLMRegressor(prior_precision=1.0).fit(parts, da.from_array(y, chunks=20))
    np.testing.assert_allclose(there._encoding.spreads, here._encoding.spreads, rtol=1e-5, atol=1e-9)
    assert here._encoding.spreads[2] == 0.0 and 1.0 < here._encoding.spreads[1] < 4.0
