"""`covariance="low-rank"`: what a user gets of a fit at the mode that leave-one-out judges, and what is refused."""

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.metrics import log_loss

import sksvi
from sksvi import BayesianGLMClassifier
from sksvi._runtime import memory
from sksvi.callbacks import Checkpoint

#: Documents, words, and rows to judge by.
N, D, NEW = 120, 300, 400


@pytest.fixture
def rng(global_random_seed):
    return np.random.default_rng([global_random_seed, 41])


def low_rank(**options):
    return BayesianGLMClassifier(covariance="low-rank", **options)


def documents(rng, classes=2, n=N, d=D):
    """CSR rows of unit length of a topic per class, their labels, and as many more to judge by."""
    own, common = rng.dirichlet(np.full(d, 0.05), classes), rng.dirichlet(np.full(d, 0.3))
    y = rng.permutation(np.arange(n + NEW) % classes)
    X = np.log1p([rng.multinomial(30, 0.2 * own[c] + 0.8 * common) for c in y])
    X = sp.csr_matrix(X / np.sqrt(np.square(X).sum(1, keepdims=True)))
    return X[:n], y[:n], X[n:], y[n:]


# ---- what a fit has
@pytest.mark.parametrize(("likelihood", "classes"), [("logit", 2), ("probit", 2), ("logit", 4), ("softmax", 2)])
def test_a_fit_predicts_and_says_how_well(likelihood, classes, rng):
    X, y, new, labels = documents(rng, classes)
    names = np.array(["a", "b", "c", "d"])
    model = low_rank(likelihood=likelihood).fit(X, names[y])
    assert model.classes_.tolist() == names[:classes].tolist()
    several = likelihood == "softmax" or classes > 2
    assert model.coef_.shape == model.coef_std_.shape == ((classes if several else 1), D)
    assert np.all(model.coef_std_ > 0) and np.all(np.isfinite(model.coef_std_))
    p = model.predict_proba(new)
    np.testing.assert_allclose(p.sum(1), 1.0)
    losses = -np.log(p[np.arange(NEW), labels])
    assert losses.mean() < np.log(classes)
    # An estimate from N rows of what a new row loses on average.
    error = losses.std() * (1 / N + 1 / NEW) ** 0.5
    assert abs(model.loo_ - losses.mean()) < 4 * error
    assert 0.0 <= model.temperature_ <= 1.0
    assert model.converged_ and model.n_iter_ == len(model.history_)
    assert model.history_["bound"].isna().all() and not len(model.lower_bounds_)
    assert model.prior_precision_.shape == (D,) and len(np.unique(model.prior_precision_)) == 1


def test_there_is_no_bound_and_an_error_says_why(rng):
    X, y, *_ = documents(rng)
    model = low_rank()
    assert not hasattr(model, "lower_bound_")
    model.fit(X, y)
    with pytest.raises(AttributeError, match=r"bounds no evidence.*loo_"):
        model.lower_bound_  # noqa: B018
    assert not hasattr(model, "lower_bound_")
    with pytest.raises(AttributeError, match="hyperparameters='integrated'"):
        model.hyperparameter_posterior_  # noqa: B018
    full = clone(model).set_params(covariance="diag").fit(X, y)
    assert np.isfinite(full.lower_bound_)
    for name in ("loo_", "temperature_"):
        with pytest.raises(AttributeError, match="covariance='low-rank'"):
            getattr(full, name)
    full.set_params(covariance="low-rank").fit(X, y)
    assert not hasattr(full, "lower_bound_") and full.loo_ > 0
    full.set_params(covariance="full").fit(X, y)
    assert np.isfinite(full.lower_bound_) and not hasattr(full, "loo_") and full.predict_proba(X).shape == (N, 2)


def test_predictions_are_tempered_and_latents_are_not(rng):
    X, y, new, _ = documents(rng)
    model = low_rank(prior_precision=0.05).fit(X, y)
    m, v = model.predict_latent(new)
    np.testing.assert_allclose(m, new @ model.coef_[0] + model.intercept_[0], atol=1e-10)
    rows = np.column_stack([new.toarray(), np.ones(NEW)])
    S = model.posterior_["weights"].cov
    np.testing.assert_allclose(v, np.einsum("ij,jk,ik->i", rows, S, rows), rtol=1e-8)
    np.testing.assert_allclose(model.coef_std_[0], np.sqrt(np.diag(S))[:-1], rtol=1e-10)
    scale = np.sqrt(model.temperature_ * v)
    z, weight = np.polynomial.hermite_e.hermegauss(40)
    p = (1 / (1 + np.exp(-(m[:, None] + scale[:, None] * z)))) @ weight / weight.sum()
    np.testing.assert_allclose(model.predict_proba(new)[:, 1], p, rtol=1e-4)


def test_tables_and_draws(rng):
    X, y, *_ = documents(rng, 3)
    model = low_rank().fit(X, y)
    own, joint = model.summary(), model.summary(effects="joint")
    assert len(own) == 3 * (D + 1) and np.all(own["lower"] < own["upper"])
    np.testing.assert_allclose(joint["std"].to_numpy().reshape(3, -1)[:, :-1], model.coef_std_, rtol=1e-8)
    # Each effect under the weak prior that any pair of classes has, of what the rows say of it.
    v, spread = model.coef_std_**2, model._encoding.columns.stats.spread
    varies, total = spread > 0, np.maximum(1.0 / v - model.prior_precision_, 0.0) + 2.0 * np.square(spread / 5.0)
    centred = np.eye(3) - 1.0 / 3.0
    shown = own[["mean", "std"]].to_numpy().reshape(3, -1, 2)[:, :-1][:, varies]
    with np.errstate(divide="ignore", invalid="ignore"):  # columns that do not vary, left out below
        mean, variance = (centred @ (model.coef_ / (v * total))), centred**2 @ (1.0 / total)
    np.testing.assert_allclose(shown[..., 0], mean[:, varies], rtol=1e-6, atol=1e-9)
    np.testing.assert_allclose(shown[..., 1], np.sqrt(variance[:, varies]), rtol=1e-6)
    assert "leave-one-out" in model.summary_text() and "lower bound" not in model.summary_text()
    draws = model.posterior_["weights"].sample(4000, random_state=0)
    error = model.posterior_["weights"].std / 4000**0.5
    assert np.all(np.abs(draws.mean(0) - model.posterior_["weights"].mean) < 5.5 * error)  # of 903


# ---- what may not matter
@pytest.mark.parametrize("classes", [2, 3])
def test_weights_are_repeats(classes, rng):
    X, y, new, _ = documents(rng, classes, n=60)
    counts = rng.integers(0, 4, 60)
    counts[:classes] = 1
    again = np.repeat(np.arange(60), counts)
    weighted, repeated = low_rank().fit(X, y, sample_weight=counts), low_rank().fit(X[again], y[again])
    np.testing.assert_array_equal(repeated.coef_, weighted.coef_)
    np.testing.assert_array_equal(repeated.predict_proba(new), weighted.predict_proba(new))
    assert repeated.loo_ == weighted.loo_ and repeated.n_samples_seen_ == weighted.n_samples_seen_


def test_sparse_and_dense_rows_of_one_width(rng):
    """Dense columns are centred; the fit is the same but for the prior of the intercept, which hardly matters."""
    X, y, new, _ = documents(rng)
    options = {"prior_precision": 0.1, "tol": 1e-9}
    sparse, dense = low_rank(**options).fit(X, y), low_rank(**options).fit(X.toarray(), y)
    np.testing.assert_allclose(dense.predict_proba(new.toarray()), sparse.predict_proba(new), atol=0.01)


def test_single_precision_stays(rng):
    X, y, new, _ = documents(rng)
    model = low_rank().fit(X.astype(np.float32), y)
    assert model.coef_.dtype == model.coef_std_.dtype == model.predict_proba(new.astype(np.float32)).dtype == np.float32
    other = low_rank().fit(X, y)
    np.testing.assert_allclose(model.predict_proba(new.astype(np.float32)), other.predict_proba(new), atol=0.02)


def test_same_bits_of_any_seed_and_thread(rng):
    X, y, *_ = documents(rng)
    one, other = low_rank(random_state=1).fit(X, y), low_rank(random_state=2, n_jobs=2).fit(X, y)
    np.testing.assert_array_equal(one.coef_, other.coef_)


def test_an_offset_moves_latents(rng):
    X, y, *_ = documents(rng)
    offset = rng.normal(size=N)
    model = low_rank(prior_precision=0.1, tol=1e-8).fit(X, y, offset=offset)
    f = model.predict_latent(X, offset=offset)[0]
    slope = y - 1 / (1 + np.exp(-f))
    np.testing.assert_allclose(X.T @ slope, 0.1 * model.coef_[0], atol=1e-3)


def test_rows_stay_as_they_are(rng):
    X, y, *_ = documents(rng)
    before = X.copy()
    low_rank().fit(X, y)
    assert (X != before).nnz == 0


# ---- files, and fits that go on
@pytest.mark.parametrize("classes", [2, 3])
def test_files(classes, rng, tmp_path):
    X, y, new, _ = documents(rng, classes)
    model = low_rank().fit(X, y)
    model.save(tmp_path / "fit.sksvi")
    again = sksvi.load(tmp_path / "fit.sksvi")
    np.testing.assert_array_equal(again.predict_proba(new), model.predict_proba(new))
    assert again.loo_ == model.loo_ and again.temperature_ == model.temperature_
    assert not hasattr(again, "lower_bound_")


def test_a_checkpoint_goes_on_to_the_same_bits(rng, tmp_path):
    X, y, *_ = documents(rng, 3)
    path = tmp_path / "cut.sksvi"
    whole = low_rank().fit(X, y)
    with pytest.warns(UserWarning, match="max_iter=3"):
        low_rank(max_iter=3).set_callbacks(Checkpoint(path)).fit(X, y)
    cut = sksvi.load(path)
    assert cut.n_iter_ == 3
    resumed = cut.set_params(warm_start=True, max_iter=300).set_callbacks().fit(X, y)
    np.testing.assert_array_equal(resumed.coef_, whole.coef_)
    assert resumed.n_iter_ == whole.n_iter_ and resumed.loo_ == whole.loo_


def test_a_warm_fit_begins_at_the_last_weights(rng):
    X, y, new, labels = documents(rng)
    model = low_rank(warm_start=True, prior_precision=0.1, tol=1e-8).fit(X, y)
    first = model.predict_proba(new)
    model.fit(X, y)
    np.testing.assert_allclose(model.predict_proba(new), first, atol=1e-3)
    model.fit(new, labels)
    assert log_loss(y, model.predict_proba(X)) < np.log(2)


# ---- input of every kind
@pytest.mark.parametrize("classes", [2, 3])
def test_rows_without_words_and_words_without_rows(classes, rng):
    X, y, *_ = documents(rng, classes)
    X = X.tolil()
    X[5:10] = 0.0
    X[:, 20:40] = 0.0
    model = low_rank().fit(X.tocsr(), y)
    np.testing.assert_array_equal(model.coef_[:, 20:40], 0.0)
    np.testing.assert_allclose(model.coef_std_[:, 20:40], model.prior_precision_[0] ** -0.5, rtol=1e-6)
    assert np.all(np.isfinite(model.predict_proba(sp.csr_matrix((2, D)))))


@pytest.mark.parametrize("classes", [2, 3])
def test_columns_without_entries_have_their_prior(classes, rng):
    X, y, new, _ = documents(rng, classes)
    filled = np.flatnonzero(X.getnnz(axis=0))  # the start of the directions depends on the number of columns
    X, new = X[:, filled], new[:, filled]
    place = np.sort(rng.choice(5 * D, len(filled), replace=False))  # as a hashing vectorizer leaves them
    wide, more = (sp.csr_matrix((A.data, place[A.indices], A.indptr), shape=(A.shape[0], 5 * D)) for A in (X, new))
    plain, hashed = low_rank().fit(X, y), low_rank().fit(wide, y)
    empty = np.setdiff1d(np.arange(5 * D), place)
    np.testing.assert_allclose(hashed.loo_, plain.loo_, rtol=1e-6)
    np.testing.assert_allclose(hashed.coef_[:, place], plain.coef_, rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(hashed.coef_std_[:, place], plain.coef_std_, rtol=1e-5)
    assert not hashed.coef_[:, empty].any()
    np.testing.assert_allclose(hashed.coef_std_[:, empty], hashed.prior_precision_[0] ** -0.5)
    np.testing.assert_allclose(hashed.predict_proba(more), plain.predict_proba(new), atol=1e-5)


@pytest.mark.parametrize("kind", [np.asarray, sp.csr_matrix])
def test_a_table_of_zeros_predicts_the_shares(kind):
    model = low_rank().fit(kind(np.zeros((40, 3))), np.arange(40) % 4 == 0)
    np.testing.assert_allclose(model.predict_proba(np.zeros((1, 3)))[0], [0.75, 0.25], atol=0.02)


@pytest.mark.parametrize("shape", [(12, 1), (12, 2), (12, 60)])
def test_few_rows_and_columns(shape, rng):
    X = rng.standard_normal(shape)
    for y in (np.arange(12) % 2, np.arange(12)):  # as many classes as rows, too
        model = low_rank().fit(X, y)
        assert np.all(np.isfinite(model.predict_proba(X))) and np.isfinite(model.loo_)


def test_equal_rows_with_other_labels(rng):
    X = np.repeat(rng.standard_normal((5, 30)), 8, axis=0)
    model = low_rank().fit(X, np.tile([0, 0, 0, 1], 10))
    np.testing.assert_allclose(model.predict_proba(X)[:, 1], 0.25, atol=0.05)


@pytest.mark.parametrize("classes", [30, 50])
def test_noise_in_rows_of_few_entries_is_no_gain(classes, rng):
    """More classes than matrices of rows are made for: neither loss is below that of a guess by more than its error."""
    X = sp.random(600, 600, 0.01, format="csr", random_state=rng)
    y = np.concatenate([rng.permutation(np.arange(300) % classes) for _ in range(2)])
    model = low_rank().fit(X[:300], y[:300])
    losses = -np.log(model.predict_proba(X[300:])[np.arange(300), y[300:]])
    error = losses.std() / 300**0.5
    assert model.loo_ > np.log(classes) - 4 * error
    assert losses.mean() < np.log(classes) + 0.1


def test_the_only_row_of_a_class_is_no_gain(rng):
    """Two rows about their centre are opposite: without one of them the other would predict it."""
    X, new = rng.standard_normal((2, 2000)), rng.standard_normal((50, 2000))
    model = low_rank().fit(X, [0, 1])
    assert model.loo_ >= np.log(2) - 1e-12
    assert -np.log(model.predict_proba(new)).mean() < np.log(2) + 0.02
    twice = low_rank().fit(X, [0, 1], sample_weight=[2.0, 2.0])
    assert twice.loo_ == pytest.approx(low_rank().fit(np.repeat(X, 2, axis=0), [0, 0, 1, 1]).loo_, rel=1e-3)
    assert twice.loo_ < 0.5  # each has its copy


def test_numbers_as_labels_warn_and_end(rng):
    X = rng.standard_normal((300, 4))
    with pytest.warns(UserWarning, match="use a regressor"):
        model = BayesianGLMClassifier().fit(X, np.arange(300) % 100)
    assert model.loo_ > 0
    assert model.predict_proba(X).shape == (300, 100)


def test_no_intercept(rng):
    X, y, *_ = documents(rng)
    model = low_rank(fit_intercept=False).fit(X, y)
    np.testing.assert_array_equal(model.intercept_, 0.0)
    assert model.summary().index[-1] == f"x{D - 1}"


# ---- refusals, before any state changes
@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"algorithm": "mc-ssvi"}, "algorithm='mc-ssvi'.*covariance='low-rank'.*choose algorithm='cvi'"),
        ({"algorithm": "fp"}, "algorithm='fp'.*covariance='low-rank'"),
        ({"batch_size": 10}, "covariance='low-rank'.*batch_size=10"),
        ({"expectation": "monte-carlo"}, "covariance='low-rank'.*expectation='monte-carlo'"),
        ({"prior_precision": "ard"}, "prior_precision='ard' with covariance='low-rank'"),
        ({"prior_precision": "flat"}, "prior_precision='flat' with covariance='low-rank'"),
        ({"prior_precision": np.ones(D)}, "with covariance='low-rank'"),
    ],
)
def test_refused_with_both_names(options, message, rng):
    X, y, *_ = documents(rng)
    model = low_rank(**options)
    with pytest.raises(ValueError, match=message):
        model.fit(X, y)
    assert not hasattr(model, "classes_")


def test_memory_is_asked_for_before_it_is_taken(rng, monkeypatch):
    X, y, *_ = documents(rng, 4)
    monkeypatch.setattr(memory, "available", lambda: 1e5)
    monkeypatch.setattr(memory, "SMALL", 0)
    with pytest.raises(ValueError, match="covariance='low-rank' of 300 coefficients in each of 4 classes needs"):
        low_rank().fit(X, y)


def test_another_covariance_is_another_fit(rng):
    X, y, *_ = documents(rng)
    model = low_rank(warm_start=True).fit(X, y)
    with pytest.raises(ValueError, match="covariance was 'low-rank'"):
        model.set_params(covariance="diag").fit(X, y)


# ---- the covariance that the shape of the rows asks for
@pytest.mark.parametrize(
    ("shape", "classes", "options", "expected"),
    [
        ((60, 4), 2, {}, "full"),
        ((60, 4), 3, {}, "full"),
        ((30, 40), 2, {}, "full"),
        ((30, 60), 2, {"sparse": True}, "low-rank"),
        ((30, 40), 2, {"sparse": True}, "full"),
        ((80, 60), 2, {"sparse": True}, "full"),
        ((30, 800), 2, {}, "low-rank"),
        ((60, 4), 12, {}, "low-rank"),
        ((200, 190), 4, {}, "low-rank"),
        ((30, 800), 2, {"algorithm": "mc-ssvi"}, "full"),
        ((30, 800), 2, {"prior_precision": "ard"}, "full"),
        ((30, 800), 2, {"batch_size": 10}, "full"),
    ],
)
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_the_shape_of_the_rows_chooses(shape, classes, options, expected, rng):
    X, y = rng.standard_normal(shape), rng.permutation(np.arange(shape[0]) % classes)
    options = {"max_iter": 20, "random_state": 0, **options}
    X = sp.csr_matrix(X) if options.pop("sparse", False) else X
    model = BayesianGLMClassifier(covariance="auto", **options).fit(X, y)
    given = BayesianGLMClassifier(covariance=expected, **options).fit(X, y)
    np.testing.assert_array_equal(model.coef_, given.coef_)
    np.testing.assert_array_equal(model.coef_std_, given.coef_std_)
    np.testing.assert_array_equal(model.predict_proba(X), given.predict_proba(X))
    assert hasattr(model, "lower_bound_") == (expected == "full")
    assert ("low-rank, by the shape of the rows" in model.summary_text()) == (expected == "low-rank")
    assert model.summary().equals(given.summary())


def test_a_choice_stays_with_its_fit(rng, tmp_path):
    X, y = sp.csr_matrix(rng.standard_normal((30, 60))), np.arange(30) % 2
    model = BayesianGLMClassifier(covariance="auto", warm_start=True).fit(X, y)
    model.save(tmp_path / "fit.sksvi")
    again = sksvi.load(tmp_path / "fit.sksvi")
    np.testing.assert_array_equal(again.predict_proba(X), model.predict_proba(X))
    more = sp.csr_matrix(
        np.tile(X.toarray(), (3, 1)) + 0.1 * rng.standard_normal((90, 60))
    )  # now rows outnumber columns
    assert again.fit(more, np.tile(y, 3)).loo_ > 0
    fresh = BayesianGLMClassifier(covariance="auto").fit(more, np.tile(y, 3))
    assert np.isfinite(fresh.lower_bound_)


def in_partitions(X, y, size):
    """A collection of CSR rows, and their labels."""
    array, dask = pytest.importorskip("dask.array"), pytest.importorskip("dask")
    parts = [dask.delayed(X[i : i + size]) for i in range(0, X.shape[0], size)]
    shapes = [(min(size, X.shape[0] - i), X.shape[1]) for i in range(0, X.shape[0], size)]
    meta = sp.csr_matrix((0, 0), dtype=X.dtype)
    rows = [array.from_delayed(part, shape, X.dtype, meta) for part, shape in zip(parts, shapes, strict=True)]
    return array.concatenate(rows), array.from_array(y, chunks=size)


@pytest.mark.costly
@pytest.mark.parametrize(("likelihood", "classes"), [("logit", 2), ("probit", 2), ("logit", 3)])
def test_rows_in_partitions_are_the_rows_in_memory(likelihood, classes, rng):
    X, y, new, _ = documents(rng, classes)
    model = BayesianGLMClassifier(likelihood=likelihood).fit(X, y)
    remote = BayesianGLMClassifier(likelihood=likelihood).fit(*in_partitions(X, y, 50))
    assert remote.loo_ == pytest.approx(model.loo_, rel=1e-6) and remote.temperature_ == model.temperature_
    np.testing.assert_allclose(remote.coef_, model.coef_, atol=1e-6 * np.abs(model.coef_).max())
    np.testing.assert_allclose(remote.coef_std_, model.coef_std_, rtol=1e-6)
    np.testing.assert_allclose(remote.predict_proba(new), model.predict_proba(new), atol=1e-6)


@pytest.mark.costly
def test_partitions_of_any_schedule_give_the_same_bits(rng):
    dask = pytest.importorskip("dask")
    X, y, *_ = documents(rng)
    fits = []
    for options in ({"scheduler": "synchronous"}, {"scheduler": "threads", "num_workers": 3}):
        with dask.config.set(**options):
            fits.append(BayesianGLMClassifier().fit(*in_partitions(X, y, 30)))
    np.testing.assert_array_equal(fits[0].coef_, fits[1].coef_)
    assert fits[0].loo_ == fits[1].loo_


def test_weights_are_repeats_for_the_choice(rng):
    X, y = sp.csr_matrix(rng.standard_normal((30, 40))), np.arange(30) % 2
    weighted = BayesianGLMClassifier(covariance="auto").fit(X, y, sample_weight=np.full(30, 2.0))
    repeated = BayesianGLMClassifier(covariance="auto").fit(sp.vstack([X, X]), np.tile(y, 2))
    assert np.isfinite(weighted.lower_bound_) and np.isfinite(repeated.lower_bound_)
